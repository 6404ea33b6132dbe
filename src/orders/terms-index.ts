import { randomInt } from 'node:crypto'
import { parseDecimal } from '../quotes/decimal.ts'
import { type AmountClaim, amountMatches, type OrderTerms } from './order-terms.ts'

/** The parts of a quote that its order may repeat. Amounts are canonical decimals. */
export interface QuoteTerms {
  readonly pairId: string
  readonly fromValue: string
  readonly toValue: string
  /** The amount in the quote request. An upstream may round it, and an order may state either amount. */
  readonly requestedAmount: string
  /** App-Name as the upstream receives it. */
  readonly application: string
}

interface Expiring extends QuoteTerms {
  readonly expiresAtMs: number
}

export interface TermsIndex<Item> {
  /** Also called for an item that is in the index, after its expiry has moved to a later instant. */
  add(item: Item): void
  delete(item: Item): void
  /** Of all items that the order may refer to, the one that expires last. */
  find(order: OrderTerms, application: string | undefined): Item | undefined
}

// The items of a bucket have the same pair, application and nearest doubles, or their hashes collide by chance. So an
// honest client never fills a bucket.
const maxBucketSize = 64

/**
 * Finds quotes by pair, application and amounts. An amount is indexed by its nearest double, because a decimal and
 * every JSON number that means it have the same nearest double; the items found are then compared exactly. The keys
 * are hashes, because text would take more memory than the rest of a ledger entry.
 *
 * Of items with equal terms only the one that expires last is kept, so that the bucket of a popular amount stays short.
 */
export function createTermsIndex<Item extends Expiring>(): TermsIndex<Item> {
  /** Newest item last. Nearly every bucket has a single item, which is kept without an array around it. */
  const buckets = new Map<number, Item | Item[]>()
  // Random, or a client could choose amounts whose quotes push those of other clients out of their buckets.
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
    // Dropping the item that expires first can make an order unknown, but not a live quote look expired.
    if (others.length > maxBucketSize) others.splice(indexToDrop(others), 1)
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

  /** Visits the keys of the quote's own amount, and those of the requested amount if it is another double. */
  function forEachKeyPair(item: Item, visit: (withoutTo: number, withTo: number) => void): void {
    const own = Number(item.fromValue)
    const requested = Number(item.requestedAmount)
    const to = Number(item.toValue)
    const visitFrom = (from: number) => {
      const withoutTo = hash(seed, `${item.pairId} ${item.application} ${from}`)
      visit(withoutTo, hash(withoutTo, ` ${to}`))
    }
    visitFrom(own)
    if (requested !== own) visitFrom(requested)
  }

  return {
    add(item) {
      forEachKeyPair(item, (withoutTo, withTo) => {
        addTo(withTo, item, haveEqualTerms)
        addTo(withoutTo, item, haveEqualFrom)
      })
    },

    delete(item) {
      forEachKeyPair(item, (withoutTo, withTo) => {
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

/** The order's amounts and the doubles that index them. Undefined: the order cannot be matched by its terms. */
export function amountsSought({ fromAmount, toAmount }: OrderTerms) {
  if (fromAmount === undefined || toAmount === 'unreadable') return undefined
  const to = toAmount === undefined ? undefined : Number(toAmount.canonical)
  return { fromAmount, toAmount, from: Number(fromAmount.canonical), to }
}

/** Returns `first` if both expire at the same instant. */
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
 * The item that expires first among those whose amount is not the shortest spelling of its double; among all items if
 * there are none. People and programs write the shortest spelling, and a client that requests many longer ones must not
 * push the quotes of other clients out.
 */
function indexToDrop(items: readonly Expiring[]): number {
  const longSpellings = items.filter(({ requestedAmount }) => !isShortest(requestedAmount))
  const [first, ...rest] = longSpellings.length > 0 ? longSpellings : items
  const earliest = rest.reduce(
    (soonest, item) => (soonest && item.expiresAtMs < soonest.expiresAtMs ? item : soonest),
    first,
  )
  return earliest === undefined ? 0 : items.indexOf(earliest)
}

function isShortest(decimal: string): boolean {
  // A double keeps 15 digits exactly. The check of the length saves work: a full bucket calls this for every item.
  return decimal.length <= 15 || parseDecimal(String(Number(decimal))) === decimal
}

/** FNV-1a over UTF-16 units. Different parts may make the same text, because items with the same key are compared. */
function hash(seed: number, text: string): number {
  let state = seed ^ 0x811c9dc5
  for (let index = 0; index < text.length; index += 1) {
    state = Math.imul(state ^ text.charCodeAt(index), 0x01000193)
  }
  return state
}
