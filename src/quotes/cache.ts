import { LRUCache } from 'lru-cache'
import { type Clock, lookAt, type Now } from '../clock.ts'
import type { Events } from '../events.ts'
import { flatText } from '../process/text.ts'
import { serveLeftMs } from './ends.ts'
import type { Flight } from './flight.ts'
import { type KeptQuote, priceOf } from './listing.ts'
import { type StoredQuote, storedQuote } from './quote.ts'

interface Kept extends KeptQuote {
  hits: number
  /** What one unit of the source asset gives. */
  readonly price: number
  /** How close to its end the quote is replaced; 0 once that was tried: a failing upstream is not asked at every hit. */
  refreshWithinMs: number
}

interface QuoteCacheParts {
  config: {
    quotes: { cacheEntries: number; cacheBytes: number; minValidityMs: number; refreshAheadMs: number }
  }
  clock: Clock
  events: Events
}

/** Memory of an entry besides its text: its objects, its slots in the LRU and its slot in the map. */
const entryOverheadBytes = 250

/**
 * The quotes that this process keeps, by key, and the calls that are under way for further ones. The LRU bounds memory
 * only; its ttl is not used, because its clock is monotonic.
 */
export class QuoteCache {
  /** The calls under way, most often by the key of their quote. */
  readonly flights = new Map<string, Flight>()
  readonly #clock: Clock
  readonly #events: Events
  readonly #minValidityMs: number
  readonly #refreshAheadMs: number
  readonly #quotes: LRUCache<string, Kept>

  constructor({ config, clock, events }: QuoteCacheParts) {
    const { cacheEntries, cacheBytes, minValidityMs, refreshAheadMs } = config.quotes
    this.#clock = clock
    this.#events = events
    this.#minValidityMs = minValidityMs
    this.#refreshAheadMs = refreshAheadMs
    this.#quotes = new LRUCache<string, Kept>({
      max: cacheEntries,
      maxSize: cacheBytes,
      sizeCalculation: ({ quote }, key) => bytesOf(quote, key),
      disposeAfter: (_kept, _key, reason) => {
        if (reason === 'evict') events.quotesDropped('capacity', 1)
      },
    })
  }

  /** The quote that is live at that moment, counted as a hit. */
  hit(key: string, at: Now): StoredQuote | undefined {
    const kept = this.#quotes.get(key)
    if (kept === undefined || !this.#isLive(kept.quote, at)) return undefined
    kept.hits += 1
    this.#events.quoteLookedUp('hit')
    return kept.quote
  }

  /** The same for a request that was counted before. */
  live(key: string, at: Now): StoredQuote | undefined {
    const quote = this.get(key)
    return quote !== undefined && this.#isLive(quote, at) ? quote : undefined
  }

  #isLive({ end }: StoredQuote, at: Now): boolean {
    return serveLeftMs(end, at) > this.#minValidityMs
  }

  /** What was kept last under this key, even if it has expired. */
  get(key: string): StoredQuote | undefined {
    return this.#quotes.get(key)?.quote
  }

  /** Replaces what was under this key. False: the quote does not fit, and nothing is under the key any more. */
  keep(key: string, quote: StoredQuote, { isRefresh = false } = {}): boolean {
    const before = this.#quotes.peek(key)
    const read = storedQuote(quote)
    const price = priceOf(read)
    const drift = before && price / before.price - 1
    const leftMs = Math.max(0, serveLeftMs(quote.end, lookAt(this.#clock)))
    // Refreshes are half a life apart, at least: with quotes that live shorter than the setting, one would cause the
    // next.
    const refreshWithinMs = isRefresh
      ? Math.min(Math.floor(leftMs / 2), this.#refreshAheadMs)
      : this.#refreshAheadMs
    const kept = { quote, hits: before?.hits ?? 0, price, drift, refreshWithinMs }
    this.#quotes.set(flatText(key), kept)
    if (this.#quotes.peek(key) !== kept) return false
    this.#events.quoteKept(leftMs, read?.pairId ?? '', drift)
    return true
  }

  /** Whether a live quote is so close to its end that it is to be replaced in the background. */
  isRefreshDue(key: string, at: Now): boolean {
    if (this.#refreshAheadMs === 0 || this.flights.has(key)) return false
    const kept = this.#quotes.peek(key)
    return kept !== undefined && serveLeftMs(kept.quote.end, at) < kept.refreshWithinMs
  }

  /** The quote of this key is being replaced, which is tried once. */
  refreshes(key: string): void {
    const kept = this.#quotes.peek(key)
    if (kept !== undefined) kept.refreshWithinMs = 0
  }

  /** Unless there is a newer quote under the key. Returns whether that quote was there. */
  forget(key: string, quoteId: string): boolean {
    return this.#quotes.peek(key)?.quote.id === quoteId && this.#quotes.delete(key)
  }

  /** Forgets the quote of this id wherever it is under one of these keys. Returns under how many it was. */
  forgetAll(keys: readonly string[], quoteId: string): number {
    return keys.filter((key) => this.forget(key, quoteId)).length
  }

  /** Most recently used first. Iterating does not change that order. */
  list(): Iterable<readonly [key: string, kept: KeptQuote]> {
    return this.#quotes.entries()
  }

  get entries(): number {
    return this.#quotes.size
  }

  get bytes(): number {
    return this.#quotes.calculatedSize
  }
}

function bytesOf(quote: StoredQuote, key: string): number {
  let bytes = entryOverheadBytes + key.length + quote.id.length + quote.body.length
  for (const part of quote.headers) bytes += part.length
  return bytes
}
