import type { Ending } from '../quotes/provider-clock.ts'
import { amountGroup } from './stated-amount.ts'
import type { LeftMs, QuoteTerms } from './terms-index.ts'

/** Items with the same key. Nearly every bucket has a single item, which is kept without an array around it. */
export type Bucket<Item> = Item | Item[]

type Filed = QuoteTerms & Ending

/** What two items have in common of which only the one that ends last is kept. */
type AreAlike = (left: QuoteTerms, right: QuoteTerms) => boolean

// Honest clients fill a part of a crowd with 64 different prices. Then the item that expires first is dropped from it.
const maxItems = 64

export function itemsOf<Item>(bucket: Bucket<Item> | undefined): readonly Item[] {
  if (bucket === undefined) return []
  return Array.isArray(bucket) ? bucket : [bucket]
}

/**
 * Of alike items only the one that ends last is kept, so that buckets stay short. A full bucket drops the item that
 * expires first: so it drops no live quote while it has an expired one that could refuse an order.
 */
export function withItem<Item extends Filed>(
  bucket: Bucket<Item> | undefined,
  item: Item,
  { leftMs, areAlike }: { leftMs: LeftMs; areAlike: AreAlike },
): Bucket<Item> {
  if (bucket === undefined) return item
  const items = Array.isArray(bucket) ? bucket : [bucket]
  const alikeAt = items.findIndex((other) => areAlike(other, item))
  const alike = items[alikeAt]
  if (alike === item) return bucket
  if (alike !== undefined) {
    if (leftMs(alike) > leftMs(item)) return bucket
    items.splice(alikeAt, 1)
  }
  items.push(item)
  if (items.length > maxItems) items.splice(indexOfEarliest(items), 1)
  return items.length === 1 ? item : items
}

export function withoutItem<Item>(bucket: Bucket<Item>, item: Item): Bucket<Item> | undefined {
  if (bucket === item) return undefined
  if (!Array.isArray(bucket)) return bucket
  const at = bucket.indexOf(item)
  if (at !== -1) bucket.splice(at, 1)
  return bucket.length === 1 ? bucket[0] : bucket
}

/** Many items of one pair, application and from amount: each by its toAmount, by its client, and the last to end. */
export interface Crowd<Item> {
  readonly isCrowd: true
  readonly isEmpty: boolean
  add(item: Item, leftMs: LeftMs): void
  delete(item: Item): void
  /** Those whose toAmounts have the same first digits. */
  toward(group: string): readonly Item[]
  ofPartition(partition: string | undefined): readonly Item[]
  /** All that can be the same quote, given to the same client. */
  ofClient(quote: QuoteTerms): readonly Item[]
  /** Of those with equal terms the one that ends last. */
  readonly lastOfTerms: readonly Item[]
}

export function isCrowd<Item extends object>(
  bucket: Bucket<Item> | Crowd<Item> | undefined,
): bucket is Crowd<Item> {
  return bucket !== undefined && 'isCrowd' in bucket
}

export function createCrowd<Item extends Filed>(items: readonly Item[], leftMs: LeftMs): Crowd<Item> {
  const byGroup = new Map<string, Bucket<Item>>()
  const byPartition = new Map<string, Bucket<Item>>()
  let last: Bucket<Item> | undefined

  function remove(buckets: Map<string, Bucket<Item>>, key: string, item: Item): void {
    const bucket = buckets.get(key)
    const next = bucket && withoutItem(bucket, item)
    if (next === undefined) buckets.delete(key)
    else buckets.set(key, next)
  }

  const crowd: Crowd<Item> = {
    isCrowd: true,
    get isEmpty() {
      return byGroup.size === 0 && byPartition.size === 0 && last === undefined
    },
    add(item, leftMs) {
      const { partition } = item
      const group = amountGroup(item.toValue)
      byGroup.set(group, withItem(byGroup.get(group), item, { leftMs, areAlike: haveEqualTerms }))
      if (partition !== undefined) {
        const ofOne = byPartition.get(partition)
        byPartition.set(partition, withItem(ofOne, item, { leftMs, areAlike: areOfOneClient }))
      }
      last = withItem(last, item, { leftMs, areAlike: haveEqualFrom })
    },
    delete(item) {
      remove(byGroup, amountGroup(item.toValue), item)
      if (item.partition !== undefined) remove(byPartition, item.partition, item)
      last = last && withoutItem(last, item)
    },
    toward: (group) => itemsOf(byGroup.get(group)),
    ofPartition: (partition) => (partition === undefined ? [] : itemsOf(byPartition.get(partition))),
    ofClient: ({ partition, toValue }) =>
      partition === undefined ? crowd.toward(amountGroup(toValue)) : crowd.ofPartition(partition),
    get lastOfTerms() {
      return itemsOf(last)
    },
  }
  for (const item of items) crowd.add(item, leftMs)
  return crowd
}

export function areOfOneClient(left: QuoteTerms, right: QuoteTerms): boolean {
  return haveEqualTerms(left, right) && left.partition === right.partition
}

function haveEqualTerms(left: QuoteTerms, right: QuoteTerms): boolean {
  // First what differs most often.
  return left.toValue === right.toValue && haveEqualFrom(left, right)
}

export function haveEqualFrom(left: QuoteTerms, right: QuoteTerms): boolean {
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
