import { LRUCache } from 'lru-cache'
import { type Clock, lookAt, type Now } from '../clock.ts'
import type { Events } from '../events.ts'
import { type QuoteUses, rememberedMs } from '../orders/ports.ts'
import { briefText, flatText } from '../process/text.ts'
import { orderLeftMs } from '../quotes/ends.ts'
import { type Note, noteOf, type QuoteName, withoutCacheKey } from '../quotes/note.ts'
import type { QuoteNotes } from '../quotes/ports.ts'
import type { Lookalike, Quote } from '../quotes/quote.ts'
import type { QuoteRequest } from '../quotes/request.ts'
import type { FileReader, Journal, JournalRecord, ListReader } from './journal.ts'
import type { Ledger } from './ledger.ts'

interface NotesParts {
  ledger: Ledger
  clock: Clock
  journals: Readonly<Record<'disk' | 'stream', Pick<Journal, 'append'> | undefined>>
  /** Digests a partition as orders are matched by it. */
  markOf(partition: string | undefined): string | undefined
  /** Returns how many keys had the quote. */
  cache: { forgetAll(keys: readonly string[], id: string): number }
  sharedQuotes: { forget(keys: readonly string[], id: string): void } | undefined
  events: Events
}

type Cached = QuoteName & Pick<Note, 'cacheKey'>

export class Notes implements QuoteNotes, QuoteUses, FileReader, ListReader {
  readonly #parts: NotesParts
  /**
   * Used quotes by id: they are not served again. `generation`: the last generation of the journal that has the use.
   */
  readonly #used = new LRUCache<
    string,
    { readonly expiresAtMs: number; generation: number }
  >(bound)
  /** Quotes with an order that was sent and that the provider has not refused. */
  readonly #ordered = new LRUCache<string, true>(bound)

  constructor(parts: NotesParts) {
    this.#parts = parts
  }

  note(quote: Quote, request: QuoteRequest, at: Now): Promise<void> | void {
    const { ledger } = this.#parts
    const note = this.#noteOf(quote, request, at.nowMs)
    // The provider gave the quote again, or another replica has noted it.
    if (ledger.knows(note)) return
    ledger.note(note, 'own', at)
    return this.#append({ kind: 'noted', quote: this.#written(note) })
  }

  /** A cache key reveals who asked for what, unless it is a digest for the shared store. */
  #written(note: Note): Note {
    return this.#parts.sharedQuotes === undefined ? withoutCacheKey(note) : note
  }

  /** This replica can then judge an order for the quote while the store is away. */
  noteFound(quote: Quote, request: QuoteRequest): void {
    const note = this.#noteOf(quote, request, quote.end.servedUntilMs - quote.lifeMs)
    if (!this.#parts.ledger.knows(note)) this.#parts.ledger.note(note, 'delivered')
  }

  #noteOf(quote: Quote, request: QuoteRequest, notedAtMs: number): Note {
    const partition = this.#parts.markOf(request.partition)
    return noteOf(quote, request, { partition, notedAtMs })
  }

  async noteUnreadable(
    { pairId, fromAmount }: Lookalike,
    request: QuoteRequest,
  ): Promise<void> {
    const { ledger, markOf } = this.#parts
    const whose = {
      application: briefText(request.application),
      partition: markOf(request.partition),
    }
    // An order repeats the pair of the answer or, if it names none, the pair that the path means; and the requested
    // amount, or that of the answer.
    const pairs = new Set([pairId ?? decoded(request.pair), request.pair])
    const amounts = new Set([
      request.canonicalAmount,
      fromAmount ?? request.canonicalAmount,
    ])
    const meant = [...pairs].flatMap((name) =>
      [...amounts].map((amount) => ({ name, amount })),
    )
    await Promise.all(
      meant.map(({ name, amount }) => {
        const terms = {
          pairId: flatText(briefText(name)),
          requestedAmount: flatText(amount),
        }
        const quote = ledger.unreadable({ ...whose, ...terms })
        ledger.note(quote)
        return this.#append({ kind: 'noted', quote })
      }),
    )
  }

  noteSent(quote: Note, partition: string | undefined): boolean {
    if (partition === undefined) return false
    const isOwnUsed = quote.partition === partition && this.wasUsed(quote)
    const key = keyOf(quote, partition)
    const isOrdered = this.#ordered.has(key)
    this.#ordered.set(key, true)
    return isOrdered || isOwnUsed
  }

  notAccepted(quote: Note, partition: string | undefined): void {
    if (partition !== undefined) this.#ordered.delete(keyOf(quote, partition))
  }

  use(quote: Cached): void {
    const dropped = this.drop(quote)
    if (dropped > 0) this.#parts.events.quotesDropped('order', dropped)
  }

  /** Keeps all replicas from serving the quote again. Returns how many keys of our cache had it. */
  drop({ id, expiresAtMs, cacheKey }: Cached): number {
    const quote = { id, expiresAtMs }
    if (!this.#markUsed(quote)) return 0
    const { ledger, cache, sharedQuotes } = this.#parts
    const keys = ledger.cacheKeysOf(id, cacheKey)
    void this.#append({ kind: 'used', quote })
    sharedQuotes?.forget(keys, id)
    return cache.forgetAll(keys, id)
  }

  /** Settles once every replica will find the record. The folder is not waited for. */
  #append(record: JournalRecord): Promise<void> | void {
    const { disk, stream } = this.#parts.journals
    disk?.append(record)
    return stream?.append(record)
  }

  /** An id with a later expiry is another quote. */
  wasUsed({ id, expiresAtMs }: QuoteName): boolean {
    return expiresAtMs <= (this.#used.peek(id)?.expiresAtMs ?? Number.NEGATIVE_INFINITY)
  }

  /** Returns whether the use is news. */
  #markUsed({ id, expiresAtMs }: QuoteName, generation = 0): boolean {
    const known = this.#used.peek(id)
    const isNews = known === undefined || expiresAtMs > known.expiresAtMs
    if (isNews) this.#used.set(id, { expiresAtMs, generation })
    else known.generation = Math.max(known.generation, generation)
    return isNews
  }

  restore(record: JournalRecord): boolean {
    const { clock, ledger } = this.#parts
    const now = lookAt(clock)
    const { kind, quote } = record
    const leftMs =
      kind === 'used' ? quote.expiresAtMs - now.nowMs : orderLeftMs(quote, now)
    if (leftMs <= -rememberedMs) return false
    if (kind === 'used') this.#markUsed(quote)
    else ledger.note(quote, 'restored', now)
    return true
  }

  deliver(record: JournalRecord, generation: number): void {
    const { ledger, events, cache } = this.#parts
    if (record.kind === 'noted') {
      ledger.note(record.quote, 'delivered').generation = generation
      return
    }
    const { id } = record.quote
    if (!this.#markUsed(record.quote, generation)) return
    const dropped = cache.forgetAll(ledger.cacheKeysOf(id), id)
    if (dropped > 0) events.quotesDropped('elsewhere', dropped)
  }

  *missing(generation: number, own: boolean): Iterable<JournalRecord> {
    const { ledger, clock } = this.#parts
    for (const [id, use] of [...this.#used.entries()].reverse())
      if (use.generation !== generation)
        yield { kind: 'used', quote: { id, expiresAtMs: use.expiresAtMs } }
    for (const isLive of [true, false]) {
      // One look, because there may be a million quotes. Yielding one in both rounds does no harm.
      const now = lookAt(clock)
      for (const quote of ledger.entries()) {
        if (quote.generation === generation || (own && quote.origin === 'delivered'))
          continue
        const leftMs = orderLeftMs(quote, now)
        const isWanted =
          leftMs > 0 ? isLive : !isLive && leftMs > -rememberedMs && !quote.isUnreadable
        if (isWanted) yield { kind: 'noted', quote }
      }
    }
  }

  tidy(): number {
    return this.#parts.ledger.tidy() + this.#used.size
  }

  *live(): Iterable<JournalRecord> {
    const { ledger, clock } = this.#parts
    const now = lookAt(clock)
    for (const [id, { expiresAtMs }] of [...this.#used.entries()].reverse())
      if (expiresAtMs - now.nowMs > -rememberedMs)
        yield { kind: 'used', quote: { id, expiresAtMs } }
    for (const quote of ledger.entries()) {
      const leftMs = orderLeftMs(quote, now)
      if (leftMs > (quote.isUnreadable ? 0 : -rememberedMs))
        yield { kind: 'noted', quote: this.#written(quote) }
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

function decoded(pair: string): string {
  try {
    return decodeURIComponent(pair)
  } catch {
    return pair
  }
}

function keyOf({ id, expiresAtMs }: QuoteName, partition: string): string {
  return `${partition} ${expiresAtMs} ${id}`
}

/** Fewer quotes than this are used within one life. `maxSize`, because `max` allocates all memory at the start. */
const bound = { maxSize: 10_000, sizeCalculation: () => 1 }
