import { randomInt } from 'node:crypto'
import { briefText } from '../process/brief-text.ts'
import type { Ending } from '../quotes/provider-clock.ts'
import type { OrderTerms } from './order-terms.ts'
import { amountGroups, createAmountMatcher, type StatedAmount } from './stated-amount.ts'
import {
  areOfOneClient,
  type Bucket,
  type Crowd,
  createCrowd,
  haveEqualFrom,
  isCrowd,
  itemsOf,
  withItem,
  withoutItem,
} from './terms-bucket.ts'

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

export interface TermsIndex<Item> {
  /**
   * Also called for an item that is in the index, after its expiry has moved to a later instant. Returns an item that was
   * there before and has the same pair, application and from amounts.
   */
  add(item: Item, leftMs: LeftMs): Item | undefined
  delete(item: Item): void
  /** The item of the same quote, if it was given to the same partition. */
  findSame(quote: QuoteTerms & { readonly id: string }): Item | undefined
  /**
   * Of all items with the order's pair, from amount and application, those that can decide about it: those with the
   * toAmount that it states, those of its partition, and the one that ends last. An item may be there twice.
   */
  find(order: OrderTerms, orderer: Orderer, stated: StatedAmount | undefined): Item[]
}

// A bucket of a few items is read as fast as it is. Of a longer one an order needs only a part.
const maxUnsorted = 48

/**
 * Finds quotes by pair, application and amounts. A from amount is indexed by its nearest double, because a decimal and
 * every JSON number that means it have the same nearest double; the items found are then compared exactly. The keys are
 * hashes, because text would take more memory than the rest of a ledger entry.
 *
 * Nearly all buckets have few items. The items of a popular amount are sorted into a crowd, so that an order for it does
 * not look at thousands of quotes. The crowd is bounded, and drops no quote that would have decided.
 */
export function createTermsIndex<
  Item extends QuoteTerms & Ending & { readonly id: string },
>(): TermsIndex<Item> {
  const buckets = new Map<number, Bucket<Item> | Crowd<Item>>()
  // Random, or a client could choose amounts whose quotes share a bucket with those of other clients.
  const seed = randomInt(2 ** 31)

  function addTo(key: number, item: Item, leftMs: LeftMs): Item | undefined {
    const bucket = buckets.get(key)
    if (bucket === undefined) {
      buckets.set(key, item)
      return undefined
    }
    const alike = (isCrowd(bucket) ? bucket.lastOfTerms : itemsOf(bucket)).find((other) =>
      haveEqualFrom(other, item),
    )
    if (isCrowd(bucket)) {
      bucket.add(item, leftMs)
      return alike
    }
    const next = withItem(bucket, item, { leftMs, areAlike: areOfOneClient })
    if (Array.isArray(next) && next.length > maxUnsorted) buckets.set(key, createCrowd(next, leftMs))
    else if (next !== bucket) buckets.set(key, next)
    return alike
  }

  function removeFrom(key: number, item: Item): void {
    const bucket = buckets.get(key)
    if (bucket === undefined) return
    if (isCrowd(bucket)) {
      bucket.delete(item)
      if (bucket.isEmpty) buckets.delete(key)
      return
    }
    const next = withoutItem(bucket, item)
    if (next === undefined) buckets.delete(key)
    else if (next !== bucket) buckets.set(key, next)
  }

  function keyOf(pair: string, application: string, from: string): number {
    return hash(hash(hash(seed, pair), application), from)
  }

  function ownKey({ pairId, application, fromValue }: QuoteTerms): number {
    return keyOf(pairId, application, doubleText(fromValue))
  }

  /** Undefined: the requested amount is the same double as the quote's own. */
  function requestedKey({ pairId, application, fromValue, requestedAmount }: QuoteTerms): number | undefined {
    if (requestedAmount === fromValue) return undefined
    const requested = doubleText(requestedAmount)
    return requested === doubleText(fromValue) ? undefined : keyOf(pairId, application, requested)
  }

  return {
    add(item, leftMs) {
      const requested = requestedKey(item)
      if (requested !== undefined) addTo(requested, item, leftMs)
      return addTo(ownKey(item), item, leftMs)
    },

    delete(item) {
      const requested = requestedKey(item)
      if (requested !== undefined) removeFrom(requested, item)
      removeFrom(ownKey(item), item)
    },

    findSame(quote) {
      const bucket = buckets.get(ownKey(quote))
      return (isCrowd(bucket) ? bucket.ofClient(quote) : itemsOf(bucket)).find((item) => isSame(item, quote))
    },

    find(order, { application, partition }, stated) {
      const { fromAmount, toAmount } = order
      const pair = order.pair && briefText(order.pair)
      if (pair === undefined || application === undefined || fromAmount === undefined) return []
      const isFrom = createAmountMatcher(fromAmount)
      const isCandidate = (item: Item) =>
        item.pairId === pair &&
        item.application === application &&
        (isFrom(item.fromValue) || isFrom(item.requestedAmount))
      const bucket = buckets.get(keyOf(pair, application, doubleText(fromAmount.canonical)))
      if (!isCrowd(bucket)) return itemsOf(bucket).filter(isCandidate)
      const hasAmount = ({ toValue }: Item) => stated?.isExactly(toValue) || stated?.isRounded(toValue)
      const groups =
        toAmount === undefined || toAmount === 'unreadable' ? [] : amountGroups(toAmount.canonical)
      const toward = groups.flatMap((group) => bucket.toward(group).filter(hasAmount))
      return [...toward, ...bucket.ofPartition(partition), ...bucket.lastOfTerms].filter(isCandidate)
    },
  }
}

/** Whether it is one quote, given to one partition. */
export function isSame(left: QuoteTerms & { id: string }, right: QuoteTerms & { id: string }): boolean {
  return left.id === right.id && areOfOneClient(left, right)
}

/** The shortest spelling of the amount's nearest double. */
function doubleText(canonical: string): string {
  // A decimal of at most 15 digits is its own shortest spelling, unless that has an exponent.
  return canonical.length <= 15 && !canonical.startsWith('0.000000') ? canonical : String(Number(canonical))
}

/** FNV-1a over UTF-16 units. Different parts may make the same text, because items with the same key are compared. */
function hash(seed: number, text: string): number {
  let state = seed ^ 0x811c9dc5
  for (let index = 0; index < text.length; index += 1) {
    state = Math.imul(state ^ text.charCodeAt(index), 0x01000193)
  }
  return state
}
