import { LRUCache } from 'lru-cache'
import type { QuoteStore, StoredQuote } from './quote-store.ts'

export interface MemoryQuoteStore extends QuoteStore {
  get(key: string): StoredQuote | undefined
  set(key: string, quote: StoredQuote): void
  forget(key: string, quoteId: string): boolean
  readonly entries: number
  readonly bytes: number
}

export interface MemoryQuoteStoreOptions {
  entriesMost: number
  bytesMost: number
  onEvicted?: () => void
}

/** What an entry takes besides its text: the object, its slots in the LRU and its place in the map. */
const entryOverheadBytes = 200

/** Quotes in this process. The LRU bounds memory; its ttl is not used, because its clock is not the wall's. */
export function createMemoryQuoteStore(options: MemoryQuoteStoreOptions): MemoryQuoteStore {
  const quotes = new LRUCache<string, StoredQuote>({
    max: options.entriesMost,
    maxSize: options.bytesMost,
    sizeCalculation: bytesOf,
    disposeAfter: (_quote, _key, reason) => {
      if (reason === 'evict') options.onEvicted?.()
    },
  })
  return {
    get: (key) => quotes.get(key),
    set(key, quote) {
      quotes.set(key, quote)
    },
    forget(key, quoteId) {
      return quotes.peek(key)?.id === quoteId && quotes.delete(key)
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
