import type { QuoteOrLock, SharedQuotes } from '../../src/quotes/ports.ts'
import type { StoredQuote } from '../../src/quotes/quote.ts'
import type { VirtualTime } from './virtual-time.ts'

export interface SharedStore extends SharedQuotes {
  /** Look-ups that found a quote, or waited for the call of another replica. */
  readonly found: number
}

/**
 * The shared store as it should behave: a replica without the quote in memory looks here first, and for each key only
 * one replica calls the upstream. A look-up that finds nothing also takes the lock.
 */
export function createSharedStore({
  time,
  latencyMs,
  refreshAheadMs,
}: {
  time: VirtualTime
  latencyMs: number
  refreshAheadMs: number
}): SharedStore {
  const kept = new Map<string, StoredQuote>()
  /** What each holder of a lock will put. The simulated provider answers with quotes only. */
  const locks = new Map<string, Promise<StoredQuote>>()
  let found = 0

  const roundTrip = () => new Promise<void>((resolve) => time.at(time.nowMs() + latencyMs, () => resolve()))

  /** A refresh must not be answered with the quote that it replaces. */
  function liveQuote(key: string): StoredQuote | undefined {
    const quote = kept.get(key)
    return quote !== undefined && quote.expiresAtMs - time.nowMs() > refreshAheadMs ? quote : undefined
  }

  function lock(key: string): QuoteOrLock {
    let bring: (quote: StoredQuote) => void = () => {}
    const brought = new Promise<StoredQuote>((resolve) => {
      bring = resolve
    })
    locks.set(key, brought)
    return {
      ...nothing,
      put(quote) {
        kept.set(key, quote)
        locks.delete(key)
        bring(quote)
      },
    }
  }

  return {
    get found() {
      return found
    },
    async quoteOrLock(key) {
      await roundTrip()
      // No await from here to the lock, because SET NX is one step.
      const live = liveQuote(key)
      const underWay = locks.get(key)
      if (live !== undefined || underWay !== undefined) found += 1
      if (live !== undefined) return { ...nothing, quote: live }
      if (underWay === undefined) return lock(key)
      const quote = await underWay
      await roundTrip()
      return { ...nothing, quote, waited: true }
    },
  }
}

const nothing: QuoteOrLock = { quote: undefined, waited: false, put() {}, release() {} }
