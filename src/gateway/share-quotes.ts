import { setTimeout } from 'node:timers/promises'
import type { Ledger } from '../orders/ledger.ts'
import type { Share } from '../quotes/flight.ts'
import type { MemoryQuoteStore, QuoteListing } from '../quotes/memory-quote-store.ts'
import { createEvictions, type Evictions } from '../replicas/evictions.ts'
import { createSharedQuotes } from '../replicas/shared-quotes.ts'
import type { UsedQuotes } from '../replicas/used-quotes.ts'
import { createValkeyQuoteStore } from '../replicas/valkey/quote-store.ts'
import type { SwapParts } from './swap.ts'

export interface SharedParts {
  memory: MemoryQuoteStore & QuoteListing
  ledger: Ledger
  used: UsedQuotes
}

/** How quotes are shared with the replicas that use the same store, if there is one. */
export function shareQuotes(
  { config, clock, metrics, sharedStore }: Pick<SwapParts, 'config' | 'clock' | 'metrics' | 'sharedStore'>,
  { memory, ledger, used }: SharedParts,
): { evictions: Evictions; share: Share | undefined } {
  const store = sharedStore && createValkeyQuoteStore({ sharedStore, clock })
  const evictions = createEvictions({
    memory,
    store,
    clock,
    cacheKeysOf(quoteId) {
      const quote = ledger.findById(quoteId)
      return quote === undefined ? [] : ledger.cacheKeysOf(quote)
    },
    observer: metrics.evictions,
    used,
  })
  if (store === undefined || config.store === undefined) return { evictions, share: undefined }
  const share = createSharedQuotes({
    store,
    evictions,
    clock,
    minValidityMs: config.quotes.minValidityMs,
    // A lock that outlives its call would make other replicas wait for a quote that will not come.
    lockWaitMs: Math.min(config.store.lockWaitMs, config.upstream.totalTimeoutMs),
    pause: setTimeout,
    observer: metrics.sharing,
  })
  return { evictions, share }
}
