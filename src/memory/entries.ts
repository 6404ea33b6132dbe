import type { KnownQuote, Origin } from '../orders/ports.ts'
import type { Ending } from '../quotes/ends.ts'
import { isUnreadable, type Note } from '../quotes/note.ts'

/** A note as the ledger files it. */
export class Entry implements KnownQuote {
  readonly id: string
  readonly pairId: string
  readonly application: string
  readonly partition: string | undefined
  readonly fromValue: string
  readonly requestedAmount: string
  readonly toValue: string
  readonly hasNumbers: boolean
  readonly double: number
  readonly expiresAtMs: number
  readonly wallAheadMs: number
  refusedFromMs: number
  notedAtMs: number
  cacheKey: string
  origin: Origin = 'own'
  /** The last generation of the journal that has this entry (`memory/journal.ts`). */
  generation = 0

  /** `alike`: another quote with mostly the same texts, which are then shared. */
  constructor(note: Note, alike: Note = note) {
    this.id = note.id
    this.pairId = shared(note.pairId, alike.pairId)
    this.application = shared(note.application, alike.application)
    this.partition = note.partition
    this.fromValue = shared(note.fromValue, alike.fromValue)
    this.requestedAmount = shared(note.requestedAmount, this.fromValue)
    this.toValue = note.toValue
    this.hasNumbers = note.hasNumbers
    this.double = Number(note.toValue)
    this.expiresAtMs = note.expiresAtMs
    this.wallAheadMs = note.wallAheadMs
    this.refusedFromMs = note.refusedFromMs
    this.notedAtMs = note.notedAtMs
    this.cacheKey = note.cacheKey
  }

  get isUnreadable(): boolean {
    return isUnreadable(this)
  }

  /** A further answer was unreadable too. The later of the two ends counts. */
  renewedAs(note: Note): this {
    this.notedAtMs = note.notedAtMs
    this.refusedFromMs = Math.max(this.refusedFromMs, this.refusedFromOf(note))
    return this
  }

  /**
   * Converts a refusal time to this entry's wall clock, because the clock may have been set since. Whole milliseconds,
   * because each look at two clocks is off by a fraction of one.
   */
  refusedFromOf({ refusedFromMs, wallAheadMs }: Ending): number {
    return Math.ceil(refusedFromMs - wallAheadMs + this.wallAheadMs)
  }

  /** Whether it is the same quote, given to the same partition. A quote that is over has lost its cache key. */
  is(note: Note): boolean {
    return (
      this.expiresAtMs === note.expiresAtMs &&
      this.partition === note.partition &&
      this.toValue === note.toValue &&
      this.hasNumbers === note.hasNumbers &&
      (this.cacheKey === note.cacheKey || this.cacheKey === '' || note.cacheKey === '') &&
      this.requestedAmount === note.requestedAmount &&
      this.fromValue === note.fromValue &&
      this.application === note.application &&
      fold(this.pairId) === fold(note.pairId)
    )
  }
}

function shared(text: string, known: string): string {
  return text === known ? known : text
}

export function fold(pair: string): string {
  return pair.toUpperCase()
}

const none: readonly Entry[] = []

/** Oldest first. Nearly every key has one entry, which is kept without a list. */
export class EntriesByKey {
  readonly #map = new Map<string, Entry | readonly Entry[]>()

  of(key: string): readonly Entry[] {
    const found = this.#map.get(key) ?? none
    return found instanceof Entry ? [found] : found
  }

  /** Beyond `max`, the oldest entry is dropped. */
  add(key: string, entry: Entry, max: number): void {
    const before = this.of(key)
    if (before.length === 0) this.#map.set(key, entry)
    else this.set(key, [...before, entry].slice(-max))
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
