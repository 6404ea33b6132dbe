import { type Ending, type Now, orderLeftMs } from '../clock.ts'
import type { Price } from './amounts.ts'
import type { NotedQuote } from './journal.ts'

export function lastToEnd<Item extends Ending>(
  items: readonly Item[],
  now: Now,
): Item | undefined {
  let last: Item | undefined
  for (const item of items) last = later(last, item, now)
  return last
}

/** Of two that end at once the first. */
export function later<Item extends Ending>(
  one: Item | undefined,
  other: Item,
  now: Now,
): Item {
  if (one === undefined) return other
  return orderLeftMs(other, now) > orderLeftMs(one, now) ? other : one
}

/** Of a quote: who was given it. Of an order: who sends it. */
export type Whose = Pick<NotedQuote, 'application' | 'partition'>

/** Who noted it: this process, another one whose record was delivered, or an earlier process over the same folder. */
export type Origin = 'own' | 'delivered' | 'restored'

export function isUnreadable({ toValue }: Pick<NotedQuote, 'toValue'>): boolean {
  return toValue === ''
}

/** What the ledger keeps: a quote, or an answer that could not be read, which has no id and no toAmount. */
export class Entry implements NotedQuote, Price {
  readonly id: string
  readonly pairId: string
  readonly application: string
  readonly partition: string | undefined
  readonly fromValue: string
  readonly requestedAmount: string
  readonly toValue: string
  readonly double: number
  readonly expiresAtMs: number
  readonly wallAheadMs: number
  refusedFromMs: number
  notedAtMs: number
  cacheKey: string
  origin: Origin = 'own'
  /** The last generation of the journal that has it (`memory/journal.ts`). */
  generation = 0

  /** `alike`: most quotes repeat the pair, application and amount of another one, whose texts they then share. */
  constructor(quote: NotedQuote, alike: NotedQuote = quote) {
    this.id = quote.id
    this.pairId = shared(quote.pairId, alike.pairId)
    this.application = shared(quote.application, alike.application)
    this.partition = quote.partition
    this.fromValue = shared(quote.fromValue, alike.fromValue)
    this.requestedAmount = shared(quote.requestedAmount, this.fromValue)
    this.toValue = quote.toValue
    this.double = Number(quote.toValue)
    this.expiresAtMs = quote.expiresAtMs
    this.wallAheadMs = quote.wallAheadMs
    this.refusedFromMs = quote.refusedFromMs
    this.notedAtMs = quote.notedAtMs
    this.cacheKey = quote.cacheKey
  }

  get isUnreadable(): boolean {
    return isUnreadable(this)
  }

  /** An answer to the same request could not be read either: the later of their two ends counts. */
  renewedAs(quote: NotedQuote): this {
    this.notedAtMs = quote.notedAtMs
    this.refusedFromMs = Math.max(this.refusedFromMs, this.refusedFromOf(quote))
    return this
  }

  /**
   * From when the other one is refused, by the wall clock as it was when this one was noted: it may have been set since.
   * Whole milliseconds, because each look at two clocks is off by part of one.
   */
  refusedFromOf({ refusedFromMs, wallAheadMs }: NotedQuote): number {
    return Math.ceil(refusedFromMs - wallAheadMs + this.wallAheadMs)
  }

  /** Whether it is this quote, given to the same client. Once it is over, its cache key is not known. */
  is(quote: NotedQuote): boolean {
    return (
      this.expiresAtMs === quote.expiresAtMs &&
      this.partition === quote.partition &&
      this.toValue === quote.toValue &&
      (this.cacheKey === quote.cacheKey ||
        this.cacheKey === '' ||
        quote.cacheKey === '') &&
      this.requestedAmount === quote.requestedAmount &&
      this.fromValue === quote.fromValue &&
      this.application === quote.application &&
      fold(this.pairId) === fold(quote.pairId)
    )
  }
}

function shared(text: string, known: string): string {
  return text === known ? known : text
}

/** Pairs are compared without regard to case. */
export function fold(pair: string): string {
  return pair.toUpperCase()
}

/** The entries of each key, oldest first. A single one, as nearly always, is kept without a list around it. */
export class EntriesByKey {
  readonly #map = new Map<string, Entry | readonly Entry[]>()

  of(key: string): readonly Entry[] {
    const found = this.#map.get(key) ?? []
    return found instanceof Entry ? [found] : found
  }

  set(key: string, entries: readonly Entry[]): void {
    const [first] = entries
    if (first === undefined) this.#map.delete(key)
    else this.#map.set(key, entries.length === 1 ? first : entries)
  }

  remove(key: string, entry: Entry): void {
    const entries = this.of(key)
    if (entries.includes(entry))
      this.set(
        key,
        entries.filter((other) => other !== entry),
      )
  }
}
