import type { Now } from '../clock.ts'
import { shortestDecimal } from '../http/decimal.ts'
import { type OffersOfSwap, recentMs } from '../orders/ports.ts'
import type { StatedAmount } from '../orders/stated-amount.ts'
import { later, orderLeftMs } from '../quotes/ends.ts'
import type { Whose } from '../quotes/note.ts'
import { EntriesByKey, type Entry } from './entries.ts'

/** Most amounts are quoted rarely: up to 64 quotes need no maps. */
const maxUnmapped = 64
const maxPrices = 1_000
/** One quote of each application, and more if a later quote ends before an older one. */
const maxOfOnePrice = 8
const maxOfOnePartition = 200

/**
 * The quotes of one pair and fromAmount. A new quote replaces older ones of its price and application that end before
 * it. If an older one ends after it, a full ledger still drops the older one first.
 */
export class Offers implements OffersOfSwap {
  /** The last prices of all applications, oldest first. */
  #prices: Entry[] = []
  /** The last to end of all quotes that left the list. */
  #unlisted: Entry | undefined
  /** The maps. Without them, the list has all quotes. */
  #byPrice: EntriesByKey | undefined
  #byPartition: EntriesByKey | undefined
  #count = 0

  get isEmpty(): boolean {
    return this.#count === 0
  }

  /** Most new quotes repeat its texts. */
  get sample(): Entry | undefined {
    return this.#prices[0]
  }

  get unlisted(): Entry | undefined {
    return this.#unlisted
  }

  meantBy(orderer: Whose, stated: StatedAmount | undefined): Entry[] {
    const own = partitionKeys(orderer).flatMap((key) => this.#byPartition?.of(key) ?? [])
    const priced = stated === undefined ? [] : (this.#byPrice?.of(stated.key) ?? [])
    return [...own, ...priced, ...this.#prices]
  }

  add(entry: Entry, now: Now): void {
    this.#count += 1
    const isMapped = this.#byPrice !== undefined
    if (isMapped) this.#list(entry, now)
    else if (this.#prices.length === 0) this.#prices = [entry]
    else if (this.#prices.push(entry) > maxUnmapped) this.#map(now)
  }

  #map(now: Now): void {
    this.#byPrice = new EntriesByKey()
    this.#byPartition = new EntriesByKey()
    for (const entry of this.#prices.splice(0)) this.#list(entry, now)
  }

  #list(entry: Entry, now: Now): void {
    const isReplaced = (other: Entry) =>
      other.double === entry.double &&
      other.toValue === entry.toValue &&
      other.application === entry.application &&
      other.notedAtMs <= entry.notedAtMs &&
      orderLeftMs(other, now) <= orderLeftMs(entry, now)

    const price = shortestDecimal(entry.toValue)
    const ofPrice = this.#byPrice?.of(price) ?? []
    const others = ofPrice.filter((other) => !isReplaced(other))
    for (const other of ofPrice) if (isReplaced(other)) this.#unlist(other)
    this.#byPrice?.set(price, [...others, entry].slice(-maxOfOnePrice))
    this.#prices.push(entry)
    this.#shorten(now)

    for (const key of partitionKeys(entry)) {
      const ofPartition = this.#byPartition?.of(key) ?? []
      const isWanted = (other: Entry) =>
        !isReplaced(other) && orderLeftMs(other, now) > -recentMs
      this.#byPartition?.set(
        key,
        [...ofPartition.filter(isWanted), entry].slice(-maxOfOnePartition),
      )
    }
  }

  #shorten(now: Now): void {
    const [oldest] = this.#prices
    if (oldest === undefined || this.#prices.length <= maxPrices) return
    this.#unlisted = later(this.#unlisted, oldest, now)
    this.#prices.shift()
  }

  /** `#unlisted` stays: other quotes that left the list with it may still live. */
  remove(entry: Entry): void {
    this.#count -= 1
    this.#unlist(entry)
    this.#byPrice?.remove(shortestDecimal(entry.toValue), entry)
    for (const key of partitionKeys(entry)) this.#byPartition?.remove(key, entry)
  }

  #unlist(entry: Entry): void {
    const at = this.#prices.lastIndexOf(entry)
    if (at !== -1) this.#prices.splice(at, 1)
  }
}

/**
 * Two keys for a partition's own quotes: with the application, so that other applications do not displace them, and
 * without. A digest has no blank.
 */
function partitionKeys({ partition, application }: Whose): string[] {
  return partition === undefined ? [] : [partition, `${partition} ${application}`]
}
