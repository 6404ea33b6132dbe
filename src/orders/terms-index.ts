import { randomInt } from 'node:crypto'
import { briefText } from '../process/brief-text.ts'
import type { Ending } from '../quotes/provider-clock.ts'
import type { OrderTerms } from './order-terms.ts'
import { amountGroup, amountGroups, createAmountMatcher, type StatedAmount } from './stated-amount.ts'

/** The parts of a quote that its order may repeat, and whose it is. Amounts are canonical decimals. */
export interface QuoteTerms {
  readonly pairId: string
  readonly fromValue: string
  readonly toValue: string
  /** The amount in the quote request. An upstream may round it, and an order may state either amount. */
  readonly requestedAmount: string
  /** App-Name as the upstream receives it. */
  readonly application: string
  /** Who was given it: a digest of the client's partition. Undefined: a client whose address is not known. */
  readonly partition: string | undefined
}

/** What tells which quotes an order may mean. */
export interface Orderer {
  application: string | undefined
  /** Undefined: the orderer's address is not known, so no quote is its own. */
  partition: string | undefined
}

/** How long until an order for the quote is refused, as of one instant. */
export type LeftMs = (quote: Ending) => number

type AreAlike = (left: QuoteTerms, right: QuoteTerms) => boolean

export interface TermsIndex<Item> {
  /** Also called for an item that is in the index, after its expiry has moved to a later instant. */
  add(item: Item, leftMs: LeftMs): void
  delete(item: Item): void
  /** An item with the quote's pair, application and from amounts. */
  findAlike(quote: QuoteTerms): Item | undefined
  /** The item of the same quote, if it was given to the same partition. */
  findSame(quote: QuoteTerms & { readonly id: string }): Item | undefined
  /**
   * Of all items with the order's pair, from amount and application, those that can decide about it: those with the
   * toAmount that it states, those of its partition, and the one that ends last. An item may be there twice.
   */
  find(order: OrderTerms, orderer: Orderer, stated: StatedAmount | undefined): Item[]
}

// Honest clients fill a bucket with 64 different prices. Then the item that expires first is dropped from it.
const maxBucketSize = 64

/**
 * Finds quotes by pair, application and amounts. Each is filed three times: by the first digits of its toAmount, by the
 * partition that it was given to, and without either. A from amount is indexed by its nearest double, because a decimal
 * and every JSON number that means it have the same nearest double; the items found are then compared exactly. The keys
 * are hashes, because text would take more memory than the rest of a ledger entry.
 *
 * Of items with equal terms only the one that ends last is kept in a bucket, so that the bucket of a popular amount
 * stays short. A full bucket drops the item that expires first: so it drops no live quote while it has an expired one
 * that could refuse an order.
 */
export function createTermsIndex<
  Item extends QuoteTerms & Ending & { readonly id: string },
>(): TermsIndex<Item> {
  /** Nearly every bucket has a single item, which is kept without an array around it. */
  const buckets = new Map<number, Item | Item[]>()
  // Random, or a client could choose amounts whose quotes push those of other clients out of their buckets.
  const seed = randomInt(2 ** 31)

  function bucketOf(key: number): readonly Item[] {
    const bucket = buckets.get(key)
    if (bucket === undefined) return []
    return Array.isArray(bucket) ? bucket : [bucket]
  }

  function addTo(
    key: number,
    item: Item,
    { leftMs, areAlike }: { leftMs: LeftMs; areAlike: AreAlike },
  ): void {
    const bucket = buckets.get(key)
    if (bucket === undefined) {
      buckets.set(key, item)
      return
    }
    const items = Array.isArray(bucket) ? bucket : [bucket]
    const alikeAt = items.findIndex((other) => areAlike(other, item))
    const alike = items[alikeAt]
    if (alike === item) return
    if (alike !== undefined) {
      if (leftMs(alike) > leftMs(item)) return
      items.splice(alikeAt, 1)
    }
    items.push(item)
    if (items.length > maxBucketSize) items.splice(indexOfEarliest(items), 1)
    buckets.set(key, items.length === 1 ? item : items)
  }

  function removeFrom(key: number, item: Item): void {
    const bucket = buckets.get(key)
    if (bucket === item) buckets.delete(key)
    if (!Array.isArray(bucket)) return
    const at = bucket.indexOf(item)
    if (at !== -1) bucket.splice(at, 1)
    const [last] = bucket
    if (bucket.length === 1 && last !== undefined) buckets.set(key, last)
  }

  /** The key of a pair, application and from amount. Of it the other two are made. */
  function keyOf(pair: string, application: string, from: string): number {
    return hash(hash(hash(seed, pair), application), from)
  }

  /** Visits the keys of the quote's own amount, and those of the requested amount if it is another double. */
  function forEachKey(item: Item, visit: (key: number, areAlike: AreAlike) => void): void {
    const { pairId, application, fromValue, requestedAmount, partition, toValue } = item
    const group = amountGroup(toValue)
    const visitAll = (from: string) => {
      const any = keyOf(pairId, application, from)
      visit(keyToward(any, group), haveEqualTerms)
      if (partition !== undefined) visit(keyOfPartition(any, partition), areOfOneClient)
      visit(any, haveEqualFrom)
    }
    const own = doubleText(fromValue)
    visitAll(own)
    if (requestedAmount === fromValue) return
    const requested = doubleText(requestedAmount)
    if (requested !== own) visitAll(requested)
  }

  return {
    add: (item, leftMs) => forEachKey(item, (key, areAlike) => addTo(key, item, { leftMs, areAlike })),

    delete: (item) => forEachKey(item, (key) => removeFrom(key, item)),

    findAlike(quote) {
      const any = keyOf(quote.pairId, quote.application, doubleText(quote.fromValue))
      return bucketOf(any).find((item) => haveEqualFrom(item, quote))
    },

    findSame(quote) {
      const { pairId, application, fromValue, partition, toValue } = quote
      const any = keyOf(pairId, application, doubleText(fromValue))
      const key =
        partition === undefined ? keyToward(any, amountGroup(toValue)) : keyOfPartition(any, partition)
      return bucketOf(key).find((item) => isSame(item, quote))
    },

    find(order, { application, partition }, stated) {
      const { fromAmount, toAmount } = order
      const pair = order.pair && briefText(order.pair)
      if (pair === undefined || application === undefined || fromAmount === undefined) return []
      const any = keyOf(pair, application, doubleText(fromAmount.canonical))
      const isFrom = createAmountMatcher(fromAmount)
      const isCandidate = (item: Item) =>
        item.pairId === pair &&
        item.application === application &&
        (isFrom(item.fromValue) || isFrom(item.requestedAmount))
      const hasAmount = ({ toValue }: Item) => stated?.isExactly(toValue) || stated?.isRounded(toValue)
      const groups =
        toAmount === undefined || toAmount === 'unreadable' ? [] : amountGroups(toAmount.canonical)
      const toward = groups.flatMap((group) => bucketOf(keyToward(any, group)).filter(hasAmount))
      const own = partition === undefined ? [] : bucketOf(keyOfPartition(any, partition))
      return [...toward, ...own, ...bucketOf(any)].filter(isCandidate)
    },
  }
}

/** Whether it is one quote, given to one partition. */
export function isSame(left: QuoteTerms & { id: string }, right: QuoteTerms & { id: string }): boolean {
  return left.id === right.id && areOfOneClient(left, right)
}

function areOfOneClient(left: QuoteTerms, right: QuoteTerms): boolean {
  return haveEqualTerms(left, right) && left.partition === right.partition
}

function haveEqualTerms(left: QuoteTerms, right: QuoteTerms): boolean {
  // First what differs most often.
  return left.toValue === right.toValue && haveEqualFrom(left, right)
}

function haveEqualFrom(left: QuoteTerms, right: QuoteTerms): boolean {
  return (
    left.requestedAmount === right.requestedAmount &&
    left.fromValue === right.fromValue &&
    left.pairId === right.pairId &&
    left.application === right.application
  )
}

function indexOfEarliest(items: readonly { readonly expiresAtMs: number }[]): number {
  let earliest = 0
  let earliestMs = Number.POSITIVE_INFINITY
  for (let index = 0; index < items.length; index += 1) {
    const { expiresAtMs = earliestMs } = items[index] ?? {}
    if (expiresAtMs >= earliestMs) continue
    earliest = index
    earliestMs = expiresAtMs
  }
  return earliest
}

/** The shortest spelling of the amount's nearest double. */
function doubleText(canonical: string): string {
  // A decimal of at most 15 digits is its own shortest spelling, unless that has an exponent.
  return canonical.length <= 15 && !canonical.startsWith('0.000000') ? canonical : String(Number(canonical))
}

const keyToward = (any: number, group: string) => hash(hash(any, 't'), group)
const keyOfPartition = (any: number, partition: string) => hash(hash(any, 'p'), partition)

/** FNV-1a over UTF-16 units. Different parts may make the same text, because items with the same key are compared. */
function hash(seed: number, text: string): number {
  let state = seed ^ 0x811c9dc5
  for (let index = 0; index < text.length; index += 1) {
    state = Math.imul(state ^ text.charCodeAt(index), 0x01000193)
  }
  return state
}
