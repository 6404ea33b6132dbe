import { randomBytes } from 'node:crypto'
import { type Clock, lookAt } from '../clock.ts'
import { serveLeftMs } from '../quotes/ends.ts'
import type { Call, Share, SharedAnswer } from '../quotes/flight.ts'
import type { QuoteAnswer } from '../quotes/quote-answer.ts'
import type { Evictions } from './evictions.ts'
import type { QuoteOrLock, SharedQuoteStore } from './valkey/quote-store.ts'

/**
 * How the replicas shared a call. found: the quote was in the store. awaited: another replica fetched it meanwhile.
 * fetched: this replica got the lock at once and fetches. alone: it waited, and then fetches itself. failed: the store
 * failed, so this replica fetches.
 */
export type Sharing = 'found' | 'awaited' | 'fetched' | 'alone' | 'failed'

/** Counts how calls were shared. */
export interface SharingObserver {
  shared(sharing: Sharing): void
}

export interface SharedQuotesOptions {
  store: SharedQuoteStore
  evictions: Pick<Evictions, 'announcePending' | 'watch' | 'evictedElsewhere' | 'isUsed' | 'evict'>
  clock: Clock
  minValidityMs: number
  /** How long to wait for another replica's call, and so how long a lock lasts. */
  lockWaitMs: number
  pause(ms: number): Promise<unknown>
  observer: SharingObserver
}

/** The pauses between two looks for a quote that another replica is fetching. A call takes much longer than 10 ms. */
const minPauseMs = 10
const maxPauseMs = 50
const pauseGrowth = 1.5

/** A lookup is repeated if its key was evicted meanwhile. With constant evictions the store counts as failed. */
const maxLookups = 3

/**
 * Makes one call to the upstream for all replicas. A quote that another replica has fetched is used; one that another
 * replica is fetching is waited for. If the store or the other replica fails, this replica makes the call.
 */
export function createSharedQuotes(options: SharedQuotesOptions): Share {
  const { store, evictions, clock, minValidityMs, lockWaitMs, observer } = options

  return function share(key, call, { known, waits = true, span } = {}) {
    const token = randomBytes(12).toString('base64url')
    let ownCall: Call | undefined
    let aborted = false
    let waited = false

    async function getOrLock(): Promise<QuoteOrLock | undefined> {
      // A quote that was used while the store was down must be evicted from the store before it is read.
      if (!(await evictions.announcePending(key, span))) return undefined
      let excludeId = known?.id
      for (let lookups = 0; lookups < maxLookups; lookups += 1) {
        const watch = evictions.watch(key)
        const result = await store.getOrLock(key, {
          expiresAfterMs: known?.expiresAtMs ?? 0,
          minLeftMs: minValidityMs,
          excludeId,
          token,
          lockMs: lockWaitMs,
          span,
        })
        watch.end()
        if (result?.quote === undefined) return result
        // The provider gave a used quote to another client too, maybe at a replica that missed the order.
        if (evictions.isUsed(result.quote)) evictions.evict(key, result.quote, span)
        else if (serveLeftMs(result.quote.end, lookAt(clock)) <= minValidityMs) excludeId = result.quote.id
        else if (!watch.evicted) return result
      }
      return undefined
    }

    /** Waits until there is a quote, or no other replica to wait for. Undefined: the store failed. */
    async function waitForQuote(): Promise<QuoteOrLock | undefined> {
      const startedAtMs = performance.now()
      let awaited: string | undefined
      for (let pauseMs = minPauseMs; !aborted; pauseMs = Math.min(pauseMs * pauseGrowth, maxPauseMs)) {
        const result = await getOrLock()
        if (result === undefined) return counted(undefined, 'failed')
        if (result.quote !== undefined) return counted(result, awaited === undefined ? 'found' : 'awaited')
        if (result.lockHolder === token) return counted(result, awaited === undefined ? 'fetched' : 'alone')
        const isOtherHolder = awaited !== undefined && result.lockHolder !== awaited
        // The awaited call has failed, was given up or is too slow. The next holder of the lock is not waited for.
        if (!waits || isOtherHolder || performance.now() - startedAtMs >= lockWaitMs)
          return counted(result, 'alone')
        awaited = result.lockHolder
        waited = true
        await options.pause(pauseMs)
      }
      return undefined
    }

    function counted(result: QuoteOrLock | undefined, sharing: Sharing): QuoteOrLock | undefined {
      observer.shared(sharing)
      return result
    }

    async function takeOrFetch(): Promise<SharedAnswer> {
      const result = await waitForQuote()
      if (result?.quote !== undefined) return { found: true, stored: result.quote, notKept: undefined }
      const unlock = () => {
        // A lookup that failed here may still have taken the lock in the store.
        if (result === undefined || result.lockHolder === token) void store.unlock(key, token, span)
      }
      try {
        if (aborted) throw new Error('no client waits any more')
        ownCall = call()
        const answer = await ownCall.answer
        if (answer.stored === undefined || !answer.shared) unlock()
        else if (evictions.isUsed(answer.stored)) {
          // The cache does not keep a used quote. If the store has it, every replica would hand it out again.
          evictions.evict(key, answer.stored, span)
          unlock()
        }
        // Not awaited, because the client does not need to wait for the write.
        else void keep(answer.stored, result, unlock)
        return answer
      } catch (error) {
        unlock()
        throw error
      }
    }

    async function keep(
      quote: NonNullable<QuoteAnswer['stored']>,
      result: QuoteOrLock | undefined,
      unlock: () => void,
    ): Promise<void> {
      const kept = await store.put(key, quote, { token, storeAheadMs: result?.storeAheadMs, span })
      if (kept === undefined) unlock()
      if (kept === false) evictions.evictedElsewhere(key, quote.id)
    }

    return {
      answer: takeOrFetch(),
      get waited() {
        return waited
      },
      abort() {
        aborted = true
        ownCall?.abort()
      },
    }
  }
}
