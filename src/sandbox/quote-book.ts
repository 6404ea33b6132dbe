import { randomBytes } from 'node:crypto'
import { Refusal } from './answer.ts'
import { BoundedMap } from './bounded-map.ts'
import { type Decimal, formatDecimal, multiplyDecimals, parseDecimal, spellDecimal } from './decimal.ts'
import type { Pair } from './prices.ts'

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

/** The quotes that were given out, found by id or, because real orders name no id, by their terms. */
export class QuoteBook {
  readonly #byId = new BoundedMap<Quote>({ maxEntries: maxQuotes })
  readonly #lastByTerms = new BoundedMap<Quote>({ maxEntries: 2 * maxQuotes })

  give(pair: Pair, amount: string, price: Decimal, expiresAtMs: number): Quote {
    const fromAmount = parseDecimal(amount)
    if (fromAmount === undefined) {
      throw new Refusal(400, 'INVALID_AMOUNT', 'amount must be a positive decimal number')
    }
    const quote = {
      fromAmount: { assetId: pair.from.id, value: spellDecimal(amount, fromAmount) },
      id: randomBytes(32).toString('hex'),
      pairId: pair.id,
      toAmount: convert(pair, fromAmount, price),
      expiry: Math.floor(expiresAtMs),
    }
    this.#remember(quote)
    return quote
  }

  byId(id: string): Quote | undefined {
    return this.#byId.get(id)
  }

  /** Of several quotes with these terms, the one that expires last: until then an order on these terms is good. */
  byTerms(terms: Terms): Quote | undefined {
    return this.#lastByTerms.get(termsKey(terms))
  }

  #remember(quote: Quote): void {
    this.#byId.set(quote.id, quote)
    const terms = { pairId: quote.pairId, fromAmount: quote.fromAmount.value }
    for (const key of [termsKey(terms), termsKey({ ...terms, toAmount: quote.toAmount.value })]) {
      const known = this.#lastByTerms.get(key)
      if (known === undefined || known.expiry <= quote.expiry) this.#lastByTerms.set(key, quote)
    }
  }
}

export function convert(pair: Pair, amount: Decimal, price: Decimal): Amount {
  const converted = multiplyDecimals(amount, price, pair.to.decimals)
  if (converted.digits === 0n) {
    throw new Refusal(
      400,
      'AMOUNT_TOO_SMALL',
      `the amount buys less than the smallest part of one ${pair.to.id}`,
    )
  }
  return { assetId: pair.to.id, value: formatDecimal(converted) }
}

/** Amounts are compared as doubles, because real clients send them as JSON numbers. */
function termsKey({ pairId, fromAmount, toAmount }: Terms): string {
  return [pairId, Number(fromAmount), toAmount == null ? 'any' : Number(toAmount)].join(' ')
}
