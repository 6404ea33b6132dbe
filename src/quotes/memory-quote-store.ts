import { LRUCache } from 'lru-cache'
import { type Clock, lookAt } from '../clock.ts'
import type { Events } from '../events.ts'
import { flatText } from '../process/flat-text.ts'
import { serveLeftMs } from './ends.ts'
import { type KeptQuote, priceMove } from './quote-listing.ts'
import type { QuoteStore, StoredQuote } from './quote-store.ts'

export interface MemoryQuoteStore extends QuoteStore {
  get(key: string): StoredQuote | undefined
  /** False: the quote does not fit. */
  set(key: string, quote: StoredQuote): boolean
  forget(key: string, quoteId: string): boolean
  /** The quote of this key is served. Not counted by `get`, which also finds quotes that have expired. */
  countHit(key: string): void
  readonly entries: number
  readonly bytes: number
}

/** For the console and for evictions: lists and drops entries. */
export interface QuoteListing {
  /** Most recently used first. Iterating does not change that order. */
  kept(): Iterable<KeptQuote>
  entriesByKey(): Iterable<readonly [key: string, kept: KeptQuote]>
  dropAll(): number
  /** Forgets the quote of this id wherever it is under one of these keys. Returns under how many it was. */
  forgetAll(keys: readonly string[], quoteId: string): number
}

interface Kept extends KeptQuote {
  hits: number
}

export interface MemoryQuoteStoreOptions {
  maxEntries: number
  maxBytes: number
  clock: Clock
  events: Events
}

/** Memory of an entry besides its text: its objects, its slots in the LRU and its slot in the map. */
const entryOverheadBytes = 250

/** Keeps quotes in this process. The LRU bounds memory only; its ttl is not used, because its clock is monotonic. */
export function createMemoryQuoteStore(options: MemoryQuoteStoreOptions): MemoryQuoteStore & QuoteListing {
  const { clock, events } = options
  const quotes = new LRUCache<string, Kept>({
    max: options.maxEntries,
    maxSize: options.maxBytes,
    sizeCalculation: ({ quote }, key) => bytesOf(quote, key),
    disposeAfter: (_kept, _key, reason) => {
      if (reason === 'evict') events.quotesDropped('capacity', 1)
    },
  })
  function forget(key: string, quoteId: string): boolean {
    return quotes.peek(key)?.quote.id === quoteId && quotes.delete(key)
  }

  return {
    get: (key) => quotes.get(key)?.quote,
    countHit(key) {
      const kept = quotes.peek(key)
      if (kept !== undefined) kept.hits += 1
    },
    set(key, quote) {
      const before = quotes.peek(key)
      const move = before && priceMove(before.quote, quote)
      quotes.set(flatText(key), { quote, hits: before?.hits ?? 0, drift: move?.share })
      if (quotes.peek(key)?.quote !== quote) return false
      events.quoteKept(Math.max(0, serveLeftMs(quote.end, lookAt(clock))), move?.pair ?? '', move?.share)
      return true
    },
    forget,
    kept: () => quotes.values(),
    entriesByKey: () => quotes.entries(),
    forgetAll(keys, quoteId) {
      return keys.filter((key) => forget(key, quoteId)).length
    },
    dropAll() {
      const dropped = quotes.size
      quotes.clear()
      return dropped
    },
    get entries() {
      return quotes.size
    },
    get bytes() {
      return quotes.calculatedSize
    },
  }
}

function bytesOf(quote: StoredQuote, key: string): number {
  let bytes = entryOverheadBytes + key.length + quote.id.length + quote.body.length
  for (const part of quote.headers) bytes += part.length
  return bytes
}
