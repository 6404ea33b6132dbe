import { randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { isZero } from '../http/decimal.ts'
import { Refusal } from './answer.ts'
import { type Asset, type Pair, positiveDecimal, productOf } from './prices.ts'

export interface Amount {
  assetId: string
  value: string
}

/** The documented quote: exactly these fields, in this order. */
export interface Quote {
  fromAmount: Amount
  id: string
  pairId: string
  toAmount: Amount
  expiry: number
}

export interface Terms {
  pairId: string
  fromAmount: string
  toAmount?: string | null | undefined
}

const maxQuotes = 10_000

/** Quotes by id or, because real orders name no id, by terms. */
export class QuoteBook {
  readonly #byId = new LRUCache<string, Quote>({ max: maxQuotes })
  readonly #lastByTerms = new LRUCache<string, Quote>({ max: 2 * maxQuotes })

  give(pair: Pair, amount: string, price: string, expiresAtMs: number): Quote {
    const fromAmount = amountOf(pair.from, 'amount', amount)
    const quote = {
      fromAmount,
      id: randomBytes(32).toString('hex'),
      pairId: pair.id,
      toAmount: convert(pair, fromAmount.value, price),
      expiry: Math.floor(expiresAtMs),
    }
    this.#byId.set(quote.id, quote)
    const terms = { pairId: pair.id, fromAmount: fromAmount.value }
    for (const key of [
      termsKey(terms),
      termsKey({ ...terms, toAmount: quote.toAmount.value }),
    ]) {
      const known = this.#lastByTerms.peek(key)
      if (known === undefined || known.expiry <= quote.expiry)
        this.#lastByTerms.set(key, quote)
    }
    return quote
  }

  byId(id: string): Quote | undefined {
    return this.#byId.peek(id)
  }

  /** The quote with these terms that expires last: until then an order on them is good. */
  byTerms(terms: Terms): Quote | undefined {
    return this.#lastByTerms.peek(termsKey(terms))
  }
}

/** An amount in the caller's spelling if it is a plain decimal, as the documented quote has it. */
export function amountOf(asset: Asset, name: string, text: string): Amount {
  const decimal = positiveDecimal(text)
  if (decimal === undefined)
    throw new Refusal(400, 'INVALID_AMOUNT', `${name} must be a positive decimal number`)
  return { assetId: asset.id, value: /^\d+(?:\.\d+)?$/.test(text) ? text : decimal }
}

export function convert(pair: Pair, amount: string, price: string): Amount {
  const value = productOf(amount, price, pair.to.decimals)
  if (isZero(value)) {
    const message = `the amount buys less than the smallest part of one ${pair.to.id}`
    throw new Refusal(400, 'AMOUNT_TOO_SMALL', message)
  }
  return { assetId: pair.to.id, value }
}

/** Amounts are compared as doubles, because real callers send JSON numbers. */
function termsKey({ pairId, fromAmount, toAmount }: Terms): string {
  return [pairId, Number(fromAmount), toAmount == null ? 'any' : Number(toAmount)].join(
    ' ',
  )
}
