import type { MemoryQuoteStore } from './memory-quote-store.ts'
import type { StoredQuote } from './quote-store.ts'

export interface QuoteStoreObserver {
  onStored(quote: StoredQuote): void
  /** What the new quote gives more than the one that it replaces, as a share of that; negative if less. */
  onDrift(pair: string, move: number): void
}

/** A memory store that tells what it is given, and how far the price has moved since. */
export function createObservedQuoteStore(
  store: MemoryQuoteStore,
  { onStored, onDrift }: QuoteStoreObserver,
): MemoryQuoteStore {
  return {
    get: store.get,
    set(key, quote) {
      const previous = store.get(key)
      store.set(key, quote)
      onStored(quote)
      if (previous === undefined) return
      const { pair, price } = read(quote)
      onDrift(pair, price / read(previous).price - 1)
    },
    forget: store.forget,
    get entries() {
      return store.entries
    },
    get bytes() {
      return store.bytes
    },
  }
}

/**
 * Read again from its bytes, which costs microseconds on a way that has just waited for the provider; to keep the
 * price with every quote would cost memory for all those that are never replaced. Doubles do: it is a statistic.
 */
function read({ body }: StoredQuote): { pair: string; price: number } {
  // What is stored has been found to be a quote.
  const { pairId, fromAmount, toAmount } = JSON.parse(body) as {
    pairId: string
    fromAmount: { value: string }
    toAmount: { value: string }
  }
  return { pair: pairId, price: Number(toAmount.value) / Number(fromAmount.value) }
}
