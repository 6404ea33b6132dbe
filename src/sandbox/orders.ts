import { randomInt, randomUUID } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import { Refusal, RefusedOrder, read } from './answer.ts'
import type { Sources } from './faults.ts'
import type { Prices } from './prices.ts'
import {
  type Amount,
  amountOf,
  convert,
  type Quote,
  type QuoteBook,
} from './quote-book.ts'
import type { OrderOutcome } from './types.ts'

interface Order {
  /** The part of the order's answers that never changes. */
  facts: { id: string; amount: Amount; toAmount: Amount } & z.infer<
    typeof addressesSchema
  >
  outcome: OrderOutcome
  /** The transaction that was noted, and how long after the order. */
  noted: { transactionId: string; afterMs: number } | undefined
  createdAtMs: number
  startedAtMs: number
}

const shortText = z.string().min(1).max(200)
const optionalText = z.string().max(200).nullish()
const plainAmount = z.union([z.number(), z.string().max(200)]).transform(String)
const amount = z.union([
  plainAmount,
  z.object({ value: plainAmount }).transform(({ value }) => value),
])
const addressesSchema = z.object({
  fromAddress: optionalText,
  fromAddressTag: optionalText,
  toAddress: shortText,
  toAddressTag: optionalText,
})
const termsSchema = z.object({
  pairId: shortText,
  fromAmount: amount,
  toAmount: amount.nullish(),
})
const transactionSchema = z.union([
  z
    .object({ fromTransactionId: shortText })
    .transform(({ fromTransactionId }) => fromTransactionId),
  z.object({ transactionId: shortText }).transform(({ transactionId }) => transactionId),
])
interface OrderSources extends Sources {
  prices: Prices
  quotes: QuoteBook
}

export class Orders {
  readonly #sources: OrderSources
  readonly #orders = new LRUCache<string, Order>({ max: 1000 })

  constructor(sources: OrderSources) {
    this.#sources = sources
  }

  placeFixed(body: Record<string, unknown>): object {
    if (this.#namedQuote(body) !== undefined)
      throw new RefusedOrder('an order for a quote goes to /v3/orders/float')
    return this.#place(body, undefined)
  }

  placeFloat(body: Record<string, unknown>): object {
    const named = this.#namedQuote(body)
    // A quote known by its id has the terms, so the order may leave them out.
    const filled = { ...named, ...body }
    const quote =
      named ?? this.#sources.quotes.byTerms(read(termsSchema, filled, 'INVALID_ORDER'))
    if (quote !== undefined && this.#sources.clock.nowMs() >= quote.expiry) {
      throw new RefusedOrder(`the quote expired at ${quote.expiry}`)
    }
    return this.#place(filled, quote)
  }

  one(id: string): object {
    return this.#describe(this.#find(id))
  }

  /** `?fromAddress=&fromAsset=&toAddress=&toAsset=`, newest first. */
  list(query: URLSearchParams, maxLength: number): object[] {
    const isAsked = ([name, value]: [string, unknown]) =>
      [null, value].includes(query.get(name))
    const wanted = ({ fromAddress, amount, toAddress, toAmount }: Order['facts']) =>
      Object.entries({
        fromAddress,
        fromAsset: amount.assetId,
        toAddress,
        toAsset: toAmount.assetId,
      }).every(isAsked)
    const found = [...this.#orders.values()]
      .filter(({ facts }) => wanted(facts))
      .slice(0, maxLength)
    return found.map((order) => this.#describe(order))
  }

  noteTransaction(id: string, body: Record<string, unknown>): object {
    const order = this.#find(id)
    const transactionId = read(transactionSchema, body, 'INVALID_ORDER')
    const isKnown = [...this.#orders.values()].some(
      ({ noted }) => noted?.transactionId === transactionId,
    )
    if (order.noted !== undefined || isKnown) {
      throw new Refusal(412, 'PRECONDITION_FAILED', 'the transaction is already known')
    }
    order.noted = { transactionId, afterMs: this.#ageMs(order) }
    return this.#describe(order)
  }

  #find(id: string): Order {
    const order = this.#orders.peek(id)
    if (order === undefined) throw new Refusal(404, 'NOT_FOUND', 'Order not found')
    return order
  }

  #ageMs(order: Order): number {
    return Math.max(0, this.#sources.elapsedClock.nowMs() - order.startedAtMs)
  }

  #describe(order: Order): object {
    const { status, sinceMs } = stateOf(order, this.#ageMs(order))
    const { id, ...facts } = order.facts
    return {
      id,
      status,
      ...facts,
      fromTransactionId: order.noted?.transactionId,
      toTransactionId: status === 'complete' ? `sandbox-${id}` : undefined,
      message: statusMessages[status],
      createdAt: new Date(order.createdAtMs).toISOString(),
      updatedAt: new Date(order.createdAtMs + sinceMs).toISOString(),
      extraFeatures: {},
    }
  }

  #namedQuote({ quoteId, quote, id }: Record<string, unknown>): Quote | undefined {
    const named = [quoteId, (quote as { id?: unknown } | undefined)?.id, id]
    const first = named.find((one) => typeof one === 'string')
    return first === undefined ? undefined : this.#sources.quotes.byId(first)
  }

  #place(body: Record<string, unknown>, quote: Quote | undefined): object {
    const terms = read(termsSchema, body, 'INVALID_ORDER')
    const addresses = read(addressesSchema, body, 'INVALID_ORDER')
    const pair = this.#sources.prices.pairs.get(terms.pairId)
    if (pair === undefined) throw new RefusedOrder('the pair is unknown')
    const amount = amountOf(pair.from, 'fromAmount', terms.fromAmount)
    const nowMs = this.#sources.clock.nowMs()
    const facts = {
      id: randomUUID(),
      pairId: pair.id,
      amount,
      toAmount:
        terms.toAmount == null
          ? convert(pair, amount.value, this.#sources.prices.priceOf(pair, nowMs))
          : amountOf(pair.to, 'toAmount', terms.toAmount),
      ...addresses,
      payInAddress: `sandbox-${randomUUID()}`,
      payInAddressTag: String(randomInt(100_000, 1_000_000)),
      providerOrderId: `sandbox-${randomUUID()}`,
      // Random without a quote.
      rateId: quote?.id ?? randomUUID(),
    }
    const order: Order = {
      facts,
      outcome: this.#sources.faults.current.orderOutcome,
      noted: undefined,
      createdAtMs: nowMs,
      startedAtMs: this.#sources.elapsedClock.nowMs(),
    }
    this.#orders.set(facts.id, order)
    return this.#describe(order)
  }
}

type OrderStatus = 'awaiting' | 'inProgress' | OrderOutcome

/** Callers were seen to poll an order every five seconds, so they see each state. */
const stepMs = 5000

const statusMessages: Record<OrderStatus, string> = {
  awaiting: 'The sandbox waits for the deposit.',
  inProgress: 'The deposit has come, and the sandbox swaps it.',
  complete: 'The sandbox has paid out.',
  failed: 'The sandbox was asked to let this order fail.',
  refunded: 'The sandbox was asked to send the deposit of this order back.',
  expired: 'No deposit came to the sandbox in time.',
}

/** `sinceMs`: the time from the order to this state. */
function stateOf(
  { outcome, noted }: Order,
  ageMs: number,
): { status: OrderStatus; sinceMs: number } {
  const isPaid = outcome !== 'expired'
  const never = Number.POSITIVE_INFINITY
  // A noted transaction counts as the deposit.
  const depositedAfterMs = Math.min(noted?.afterMs ?? never, isPaid ? stepMs : never)
  const expiresAfterMs = 2 * stepMs
  if (ageMs < Math.min(depositedAfterMs, expiresAfterMs))
    return { status: 'awaiting', sinceMs: 0 }
  if (depositedAfterMs >= expiresAfterMs)
    return { status: 'expired', sinceMs: expiresAfterMs }
  const endsAfterMs = depositedAfterMs + stepMs
  if (ageMs < endsAfterMs) return { status: 'inProgress', sinceMs: depositedAfterMs }
  return { status: isPaid ? outcome : 'complete', sinceMs: endsAfterMs }
}
