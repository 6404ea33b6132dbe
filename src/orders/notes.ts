import { type Clock, lookAt, orderLeftMs } from '../clock.ts'
import type { Events } from '../events.ts'
import type { Journal, JournalReader, JournalRecord, NotedQuote, UsedQuote } from '../journal/journal.ts'
import type { Ledger, UnreadableQuote } from './ledger.ts'

interface NotesParts {
  ledger: Ledger
  clock: Clock
  journals: Pick<Journal, 'append'>
  /** This replica's cache. Returns in how many places of it the quote was. */
  cache: { forgetAll(keys: readonly string[], id: string): number }
  /** The cache that replicas share, if they do. */
  sharedQuotes: { forget(keys: readonly string[], id: string): void } | undefined
  events: Events
}

type CachedQuote = Pick<NotedQuote, 'id' | 'expiresAtMs' | 'cacheKey'>

/** What this replica remembers and tells: quotes that clients were given, and which of them were used. */
export class Notes implements JournalReader {
  readonly #parts: NotesParts
  readonly #used = new UsedQuotes()

  constructor(parts: NotesParts) {
    this.#parts = parts
  }

  /** Settles when every replica can judge an order for it: until then its client must not have it. */
  note(quote: NotedQuote): Promise<void> | void {
    const { ledger, journals } = this.#parts
    // The provider gave the same quote again, or another replica has told of it.
    if (ledger.knows(quote)) return
    ledger.note(quote)
    // The key says who asked for what, unless it is a digest for the shared store.
    const isShared = this.#parts.sharedQuotes !== undefined
    return journals.append({ kind: 'noted', quote: isShared ? quote : { ...quote, cacheKey: '' } })
  }

  /** Notes a quote that the shared cache has, of which the replica that fetched it has told. */
  noteFound(quote: NotedQuote): void {
    if (!this.#parts.ledger.knows(quote)) this.#parts.ledger.note(quote, 'delivered')
  }

  noteUnreadable(unreadable: UnreadableQuote): Promise<void> | void {
    const { ledger, journals } = this.#parts
    const quote = ledger.unreadable(unreadable)
    ledger.note(quote)
    return journals.append({ kind: 'noted', quote })
  }

  /** An order used the quote, or may have. */
  use(quote: CachedQuote): void {
    const dropped = this.drop(quote)
    if (dropped > 0) this.#parts.events.quotesDropped('order', dropped)
  }

  /** No replica hands the quote out again. Returns in how many places of this one's cache it was. */
  drop({ id, expiresAtMs, cacheKey }: CachedQuote): number {
    const quote = { id, expiresAtMs }
    if (!this.#used.mark(quote)) return 0
    const { ledger, journals, cache, sharedQuotes } = this.#parts
    const keys = [...new Set([cacheKey, ...ledger.cacheKeysOf(id)])]
    const dropped = cache.forgetAll(keys, id)
    sharedQuotes?.forget(keys, id)
    void journals.append({ kind: 'used', quote })
    return dropped
  }

  wasUsed(quote: UsedQuote): boolean {
    return this.#used.has(quote)
  }

  restore(record: JournalRecord): void {
    if (record.kind === 'used') this.#used.mark(record.quote)
    else this.#parts.ledger.note(record.quote, 'restored')
  }

  deliver(record: JournalRecord, generation: number): void {
    const { ledger, events, cache } = this.#parts
    if (record.kind === 'noted') {
      ledger.note(record.quote, 'delivered').generation = generation
      return
    }
    const { id } = record.quote
    if (!this.#used.mark(record.quote, generation)) return
    const dropped = cache.forgetAll(ledger.cacheKeysOf(id), id)
    if (dropped > 0) events.quotesDropped('elsewhere', dropped)
  }

  *missing(generation: number, own: boolean): Iterable<JournalRecord> {
    const { ledger, clock } = this.#parts
    for (const quote of this.#used.missing(generation)) yield { kind: 'used', quote }
    for (const isLive of [true, false]) {
      // Once for all, because there may be a million. What is yielded in both rounds changes nothing the second time.
      const now = lookAt(clock)
      for (const quote of ledger.entries()) {
        if (quote.generation === generation || (own && quote.origin === 'delivered')) continue
        const leftMs = orderLeftMs(quote, now)
        const isWanted = leftMs > 0 ? isLive : !isLive && leftMs > -ledger.rememberedMs && !quote.isUnreadable
        if (isWanted) yield { kind: 'noted', quote }
      }
    }
  }

  get longestLifeMs(): number {
    return this.#parts.ledger.longestLifeMs
  }

  get doubtsRestored(): boolean {
    return this.#parts.ledger.doubtsRestored
  }

  doubtRestored(): void {
    this.#parts.ledger.doubtRestored()
  }
}

/** So many are not used while one of them lives. */
const maxUsed = 10_000

interface Use {
  readonly expiresAtMs: number
  /** The last generation of the journal that has it. */
  generation: number
}

/** Quotes that an order used. They are not handed out again before they expire. */
class UsedQuotes {
  /** By id, the oldest use first. */
  readonly #uses = new Map<string, Use>()

  /** Returns whether it was not known. */
  mark({ id, expiresAtMs }: UsedQuote, generation = 0): boolean {
    const known = this.#uses.get(id)
    const isNew = known === undefined || expiresAtMs > known.expiresAtMs
    if (!isNew) {
      known.generation = Math.max(known.generation, generation)
      return false
    }
    this.#uses.set(id, { expiresAtMs, generation })
    const [oldest = id] = this.#uses.keys()
    if (this.#uses.size > maxUsed) this.#uses.delete(oldest)
    return true
  }

  /** The same id with a later expiry is a different quote. */
  has({ id, expiresAtMs }: UsedQuote): boolean {
    const use = this.#uses.get(id)
    return use !== undefined && expiresAtMs <= use.expiresAtMs
  }

  /** Those that this generation of the journal has not brought. */
  missing(generation: number): UsedQuote[] {
    return [...this.#uses]
      .filter(([, use]) => use.generation !== generation)
      .map(([id, { expiresAtMs }]) => ({ id, expiresAtMs }))
  }
}
