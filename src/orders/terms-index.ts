import { randomInt } from 'node:crypto'
import { parseDecimal } from '../quotes/decimal.ts'
import { type AmountClaim, amountMatches, type OrderTerms } from './order-terms.ts'

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
const bucketMost = 64

/**
 * Amounts are filed under the double that is nearest to them, which a decimal and every JSON number that means it
 * have in common; what is found there is then compared exactly. The keys are hashes, because text would take more
 * memory than everything else that is kept of a quote.
 *
 * Of equal terms only the item that expires last is kept, so that an amount which everybody asks for all day is
 * still found at once.
 */
export function createTermsIndex<Item extends Expiring>(): TermsIndex<Item> {
  /** The newest last. A lone item is kept without an array around it: that is nearly every bucket. */
  const buckets = new Map<number, Item | Item[]>()
  // Not to be guessed, or somebody could choose amounts that push the quotes of others out of their buckets.
  const seed = randomInt(2 ** 31)

  function bucketOf(key: number): readonly Item[] {
    const bucket = buckets.get(key)
    if (bucket === undefined) return []
    return Array.isArray(bucket) ? bucket : [bucket]
  }

  function addTo(key: number, item: Item, equalTerms: (left: Item, right: Item) => boolean): void {
    const bucket = buckets.get(key)
    if (bucket === undefined) {
      buckets.set(key, item)
      return
    }
    const others = Array.isArray(bucket) ? bucket : [bucket]
    const sameAt = others.findIndex((other) => equalTerms(other, item))
    const same = others[sameAt]
    if (same !== undefined) {
      if (same.expiresAtMs > item.expiresAtMs) return
      others.splice(sameAt, 1)
    }
    others.push(item)
    // Forgetting the earliest can make an order unknown, never a live quote look expired.
    if (others.length > bucketMost) others.splice(indexToForget(others), 1)
    buckets.set(key, others.length === 1 ? item : others)
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

  /** The amount of its own, and the one that was asked for where that is another. */
  function forEachFrom(item: Item, visit: (withoutTo: number, withTo: number) => void): void {
    const own = Number(item.fromValue)
    const asked = Number(item.requestedAmount)
    const to = Number(item.toValue)
    const visitFrom = (from: number) => {
      const withoutTo = hash(seed, `${item.pairId} ${item.application} ${from}`)
      visit(withoutTo, hash(withoutTo, ` ${to}`))
    }
    visitFrom(own)
    if (asked !== own) visitFrom(asked)
  }

  return {
    add(item) {
      forEachFrom(item, (withoutTo, withTo) => {
        addTo(withTo, item, haveEqualTerms)
        addTo(withoutTo, item, haveEqualFrom)
      })
    },

    delete(item) {
      forEachFrom(item, (withoutTo, withTo) => {
        removeFrom(withTo, item)
        removeFrom(withoutTo, item)
      })
    },

    find(order, application) {
      const { pair } = order
      const sought = amountsSought(order)
      if (pair === undefined || application === undefined || sought === undefined) return undefined
      const { from, to } = sought
      const withoutTo = hash(seed, `${pair} ${application} ${from}`)
      return bucketOf(to === undefined ? withoutTo : hash(withoutTo, ` ${to}`))
        .filter((item) => item.pairId === pair && item.application === application)
        .filter((item) => amountsMatch(item, sought.fromAmount, sought.toAmount))
        .reduceRight<Item | undefined>(lastToExpire, undefined)
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

export function haveEqualTerms(left: QuoteTerms, right: QuoteTerms): boolean {
  return haveEqualFrom(left, right) && left.toValue === right.toValue
}

function haveEqualFrom(left: QuoteTerms, right: QuoteTerms): boolean {
  return (
    left.requestedAmount === right.requestedAmount &&
    left.fromValue === right.fromValue &&
    left.pairId === right.pairId &&
    left.application === right.application
  )
}

/**
 * The one that expires first, but for an amount that is the shortest spelling of its double, as people and programs write
 * it: whoever asks for all the longer ones must not push that of others out.
 */
function indexToForget(items: readonly Expiring[]): number {
  const longWinded = items.filter(({ requestedAmount }) => !isShortest(requestedAmount))
  const [first, ...rest] = longWinded.length > 0 ? longWinded : items
  const earliest = rest.reduce(
    (one, other) => (one && other.expiresAtMs < one.expiresAtMs ? other : one),
    first,
  )
  return earliest === undefined ? 0 : items.indexOf(earliest)
}

function isShortest(decimal: string): boolean {
  // Of so few digits a double keeps every one; a full bucket asks this of all that it holds.
  return decimal.length <= 15 || parseDecimal(String(Number(decimal))) === decimal
}

/** FNV-1a over UTF-16 units. Parts may run into each other: what shares a key is compared. */
function hash(seed: number, text: string): number {
  let state = seed ^ 0x811c9dc5
  for (let index = 0; index < text.length; index += 1) {
    state = Math.imul(state ^ text.charCodeAt(index), 0x01000193)
  }
  return state
}
