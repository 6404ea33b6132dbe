import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import type { Clock } from '../clock.ts'
import { Refusal } from './answer.ts'
import { BoundedMap } from './bounded-map.ts'
import { parseDecimal, spellDecimal } from './decimal.ts'
import type { Prices } from './prices.ts'
import { type Amount, convert, type Quote, type QuoteBook } from './quote-book.ts'

export interface Order {
  id: string
  pairId: string
  fromAmount: Amount
  toAmount: Amount
  addresses: z.infer<typeof addressesSchema>
  payInAddress: string
  quoteId: string | undefined
  transactionId: string | undefined
  createdAtMs: number
  startedAtMs: number
}

const maxOrders = 1000
const stepMs = 2000
const statuses = ['waiting', 'confirming', 'exchanging', 'finished'] as const

const shortText = z.string().min(1).max(200)
const optionalText = z.string().max(200).nullish()
const plainAmount = z.union([z.number(), z.string().max(200)]).transform(String)
const amount = z.union([plainAmount, z.object({ value: plainAmount }).transform(({ value }) => value)])
const addressesSchema = z.object({
  fromAddress: optionalText,
  fromAddressTag: optionalText,
  toAddress: shortText,
  toAddressTag: optionalText,
})
const termsSchema = z.object({ pairId: shortText, fromAmount: amount, toAmount: amount.nullish() })
const transactionSchema = z.union([
  z.object({ fromTransactionId: shortText }).transform(({ fromTransactionId }) => fromTransactionId),
  z.object({ transactionId: shortText }).transform(({ transactionId }) => transactionId),
])
const quoteIdSchema = z.union([
  z.object({ quoteId: z.string() }).transform(({ quoteId }) => quoteId),
  z.object({ quote: z.object({ id: z.string() }) }).transform(({ quote }) => quote.id),
  z.object({ id: z.string() }).transform(({ id }) => id),
])

export interface OrderSources {
  prices: Prices
  quotes: QuoteBook
  /** The sandbox's time, `clockOffsetMs` included. */
  clock: Clock
  /** Unaffected by `clockOffsetMs`: a clock that is set back must not turn a finished order into a new one. */
  elapsedClock: Clock
}

export class Orders {
  readonly #sources: OrderSources
  readonly #orders = new BoundedMap<Order>({ maxEntries: maxOrders })

  constructor(sources: OrderSources) {
    this.#sources = sources
  }

  placeFixed(body: Record<string, unknown>): Order {
    if (this.#namedQuote(body) !== undefined) {
      throw new Refusal(422, 'FLOAT_ORDER_REQUIRED', 'an order for a quote goes to /v3/orders/float')
    }
    return this.#place(body, undefined)
  }

  placeFloat(body: Record<string, unknown>): Order {
    const named = this.#namedQuote(body)
    // A quote that is known by its id already has the terms, so an order that names it may leave them out.
    const filled = { ...named, ...body }
    const quote = named ?? this.#sources.quotes.byTerms(read(termsSchema, filled))
    if (quote !== undefined && this.#sources.clock.nowMs() >= quote.expiry) {
      throw new Refusal(422, 'QUOTE_EXPIRED', `the quote expired at ${quote.expiry}`)
    }
    return this.#place(filled, quote)
  }

  find(id: string): Order {
    const order = this.#orders.get(id)
    if (order === undefined) throw new Refusal(404, 'ORDER_NOT_FOUND', 'there is no such order')
    return order
  }

  list(toAddress: string | null, toAsset: string | null): Order[] {
    return this.#orders
      .newestFirst()
      .filter((order) => toAddress === null || order.addresses.toAddress === toAddress)
      .filter((order) => toAsset === null || order.toAmount.assetId === toAsset)
  }

  noteTransaction(id: string, body: Record<string, unknown>): Order {
    const order = this.find(id)
    order.transactionId = read(transactionSchema, body)
    return order
  }

  statusOf(order: Order): (typeof statuses)[number] {
    const steps = Math.floor((this.#sources.elapsedClock.nowMs() - order.startedAtMs) / stepMs)
    return statuses[steps] ?? (steps < 0 ? 'waiting' : 'finished')
  }

  #namedQuote(body: Record<string, unknown>): Quote | undefined {
    const id = quoteIdSchema.safeParse(body)
    return id.success ? this.#sources.quotes.byId(id.data) : undefined
  }

  #place(body: Record<string, unknown>, quote: Quote | undefined): Order {
    const terms = read(termsSchema, body)
    const addresses = read(addressesSchema, body)
    const pair = this.#sources.prices.pair(terms.pairId)
    if (pair === undefined) throw new Refusal(404, 'PAIR_NOT_FOUND', 'there is no such pair')
    const from = readAmount('fromAmount', terms.fromAmount)
    const nowMs = this.#sources.clock.nowMs()
    const order: Order = {
      id: randomUUID(),
      pairId: pair.id,
      fromAmount: { assetId: pair.from.id, value: spellDecimal(terms.fromAmount, from) },
      toAmount:
        terms.toAmount == null
          ? convert(pair, from, this.#sources.prices.priceOf(pair, nowMs))
          : {
              assetId: pair.to.id,
              value: spellDecimal(terms.toAmount, readAmount('toAmount', terms.toAmount)),
            },
      addresses,
      payInAddress: `sandbox-${randomUUID()}`,
      quoteId: quote?.id,
      transactionId: undefined,
      createdAtMs: nowMs,
      startedAtMs: this.#sources.elapsedClock.nowMs(),
    }
    this.#orders.set(order.id, order)
    return order
  }
}

function readAmount(name: string, text: string) {
  const decimal = parseDecimal(text)
  if (decimal === undefined) throw new Refusal(400, 'INVALID_AMOUNT', `${name} must be a positive number`)
  return decimal
}

function read<Output>(schema: z.ZodType<Output>, body: unknown): Output {
  const parsed = schema.safeParse(body)
  if (parsed.success) return parsed.data
  const problems = parsed.error.issues.map(({ path, message }) => [...path, message].join(': '))
  throw new Refusal(400, 'INVALID_ORDER', problems.join('; '))
}
