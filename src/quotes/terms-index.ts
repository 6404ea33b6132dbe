import { randomInt } from 'node:crypto'
import { type AmountClaim, amountMatches, type OrderTerms } from './order.ts'

/** What an order may repeat of its quote. Amounts are canonical. */
export interface QuoteTerms {
  readonly pairId: string
  readonly fromValue: string
  readonly toValue: string
  /** The amount that was asked for: an upstream may round it, and an order may state either. */
  readonly requestedAmount: string
  /** App-Name as the upstream sees it. */
  readonly application: string
}

interface Expiring extends QuoteTerms {
  readonly expiresAtMs: number
}

export interface TermsIndex<Item> {
  /** Again, once the item's expiry has moved to a later instant. */
  add(item: Item): void
  delete(item: Item): void
  /** Of all that the order can mean, the one that expires last. */
  find(order: OrderTerms, application: string | undefined): Item | undefined
}

// Only amounts of the same pair and application that share a double, and hashes that collide by chance, meet
// under one key, so an honest client never fills a bucket.
const MAX_BUCKET = 64

/**
 * Amounts are filed under the double that is nearest to them, which a decimal and every JSON number that means it
 * have in common; what is found there is then compared exactly. The keys are hashes, because text would take more
 * memory than everything else that is kept of a quote.
 *
 * Of equal terms only the item that expires last is kept, so that an amount which everybody asks for all day is
 * still found at once.
 */
export function createTermsIndex<Item extends Expiring>(): TermsIndex<Item> {
  const buckets = new Map<number, Item | Item[]>()
  // Not to be guessed, or somebody could choose amounts that push the quotes of others out of their buckets.
  const seed = randomInt(2 ** 31)

  function bucketOf(key: number): readonly Item[] {
    const bucket = buckets.get(key)
    if (bucket === undefined) return []
    return Array.isArray(bucket) ? bucket : [bucket]
  }

  /** A lone item is kept without an array around it: that is nearly every bucket. */
  function keep(key: number, items: Item[]): void {
    const [only] = items
    if (only === undefined) buckets.delete(key)
    else buckets.set(key, items.length === 1 ? only : items)
  }

  function addTo(key: number, item: Item, equalTerms: (left: Item, right: Item) => boolean): void {
    const bucket = bucketOf(key)
    if (bucket.some((other) => equalTerms(other, item) && other.expiresAtMs > item.expiresAtMs)) return
    const items = [item, ...bucket.filter((other) => other !== item && !equalTerms(other, item))]
    // Forgetting the earliest can make an order unknown, never a live quote look expired.
    if (items.length > MAX_BUCKET) items.sort((left, right) => right.expiresAtMs - left.expiresAtMs).pop()
    keep(key, items)
  }

  function keysOf(item: Item) {
    const froms = new Set([Number(item.fromValue), Number(item.requestedAmount)])
    const to = Number(item.toValue)
    return [...froms].map((from) => ({
      withTo: hash(seed, item.pairId, item.application, from, to),
      withoutTo: hash(seed, item.pairId, item.application, from),
    }))
  }

  return {
    add(item) {
      for (const { withTo, withoutTo } of keysOf(item)) {
        addTo(withTo, item, (left, right) => haveEqualFrom(left, right) && left.toValue === right.toValue)
        addTo(withoutTo, item, haveEqualFrom)
      }
    },

    delete(item) {
      const keys = keysOf(item).flatMap(({ withTo, withoutTo }) => [withTo, withoutTo])
      for (const key of keys) {
        const bucket = bucketOf(key)
        const others = bucket.filter((other) => other !== item)
        if (others.length < bucket.length) keep(key, others)
      }
    },

    find(order, application) {
      const { pair } = order
      const sought = amountsSought(order)
      if (pair === undefined || application === undefined || sought === undefined) return undefined
      const { from, to } = sought
      return bucketOf(hash(seed, pair, application, from, ...(to === undefined ? [] : [to])))
        .filter((item) => item.pairId === pair && item.application === application)
        .filter((item) => amountsMatch(item, sought.fromAmount, sought.toAmount))
        .reduce<Item | undefined>(lastToExpire, undefined)
    },
  }
}

/** Undefined: the order cannot be found by its terms. The amounts also as the doubles that they are filed under. */
export function amountsSought({ fromAmount, toAmount }: OrderTerms) {
  if (fromAmount === undefined || toAmount === 'unreadable') return undefined
  const to = toAmount === undefined ? undefined : Number(toAmount.canonical)
  return { fromAmount, toAmount, from: Number(fromAmount.canonical), to }
}

/** Of two that expire together the first. */
export function lastToExpire<Item extends { readonly expiresAtMs: number }>(
  first: Item | undefined,
  second: Item | undefined,
): Item | undefined {
  if (first === undefined || second === undefined) return first ?? second
  return second.expiresAtMs > first.expiresAtMs ? second : first
}

function amountsMatch(item: QuoteTerms, from: AmountClaim, to: AmountClaim | undefined): boolean {
  if (to !== undefined && !amountMatches(to, item.toValue)) return false
  return amountMatches(from, item.fromValue) || amountMatches(from, item.requestedAmount)
}

function haveEqualFrom(left: QuoteTerms, right: QuoteTerms): boolean {
  return (
    left.fromValue === right.fromValue &&
    left.requestedAmount === right.requestedAmount &&
    left.pairId === right.pairId &&
    left.application === right.application
  )
}

/** FNV-1a over UTF-16 units. Parts may run into each other: what shares a key is compared. */
function hash(seed: number, ...parts: readonly (string | number)[]): number {
  const text = parts.join(' ')
  let state = seed ^ 0x811c9dc5
  for (let index = 0; index < text.length; index += 1) {
    state = Math.imul(state ^ text.charCodeAt(index), 0x01000193)
  }
  return state
}
