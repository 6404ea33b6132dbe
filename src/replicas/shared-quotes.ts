import { randomBytes } from 'node:crypto'
import type { Call, SharedAnswer } from '../quotes/flight.ts'
import type { ProviderClock } from '../quotes/provider-clock.ts'
import type { QuoteAnswer } from '../quotes/quote-answer.ts'
import type { Share } from '../quotes/quote-cache.ts'
import type { Evictions } from './evictions.ts'
import type { Looked, SharedQuoteStore } from './valkey/quote-store.ts'

/** How the replicas shared a call, or did not. */
export type Sharing = 'found' | 'awaited' | 'fetched' | 'alone' | 'failed'

/** Receives what is to be counted of sharing. */
export interface SharingObserver {
  shared(sharing: Sharing): void
}

export interface SharedQuotesOptions {
  store: SharedQuoteStore
  evictions: Pick<Evictions, 'settle' | 'watch' | 'refused' | 'isUsed' | 'evict'>
  providerClock: Pick<ProviderClock, 'latestMs'>
  minValidityMs: number
  /** How long a call of another replica is waited for, and so the longest that a lock makes sense. */
  lockWaitMs: number
  pause(ms: number): Promise<unknown>
  observer: SharingObserver
}

/** Between two looks for what another replica is fetching: a call takes much longer than the first. */
const firstPauseMs = 10
const longestPauseMs = 50
const pauseGrowth = 1.5

/** A look that an eviction of its key overtook is made again, but nobody is kept busy by evictions alone. */
const looksMost = 3

/**
 * One call to the upstream for all replicas: what another one has fetched is taken, what another one is fetching
 * is waited for. Whatever fails, the call is made.
 */
export function createSharedQuotes(options: SharedQuotesOptions): Share {
  const { store, evictions, providerClock, minValidityMs, lockWaitMs, observer } = options

  return function share(key, call, known) {
    const token = randomBytes(12).toString('base64url')
    let own: Call | undefined
    let givenUp = false

    async function look(): Promise<Looked | undefined> {
      // A quote that was used while the store was down must be gone from it before anything is taken from there.
      if (!(await evictions.settle(key))) return undefined
      for (let looks = 0; looks < looksMost; looks += 1) {
        const watch = evictions.watch(key)
        const looked = await store.look(key, {
          expiresAfterMs: Math.max(providerClock.latestMs() + minValidityMs, known?.expiresAtMs ?? 0),
          leastLeftMs: minValidityMs,
          exceptId: known?.id,
          token,
          lockMs: lockWaitMs,
        })
        watch.end()
        if (looked?.found === undefined) return looked
        // The provider gave it to another client too, maybe at a replica that has not heard of the order.
        if (evictions.isUsed(looked.found)) evictions.evict(key, looked.found)
        else if (!watch.overtaken) return looked
      }
      return undefined
    }

    /** Until there is a quote, or nobody to wait for. */
    async function lookAndWait(): Promise<Looked | undefined> {
      const startedAtMs = performance.now()
      let holder: string | undefined
      for (let pauseMs = firstPauseMs; !givenUp; pauseMs = Math.min(pauseMs * pauseGrowth, longestPauseMs)) {
        const looked = await look()
        if (looked === undefined) return counted(undefined, 'failed')
        if (looked.found !== undefined) return counted(looked, holder === undefined ? 'found' : 'awaited')
        if (looked.holder === token) return counted(looked, holder === undefined ? 'fetched' : 'alone')
        const isAnother = holder !== undefined && looked.holder !== holder
        // Whoever was waited for has failed, or left, or is too slow: no second wait for the next one.
        if (isAnother || performance.now() - startedAtMs >= lockWaitMs) return counted(looked, 'alone')
        holder = looked.holder
        await options.pause(pauseMs)
      }
      return undefined
    }

    function counted(looked: Looked | undefined, sharing: Sharing): Looked | undefined {
      observer.shared(sharing)
      return looked
    }

    async function bring(): Promise<SharedAnswer> {
      const looked = await lookAndWait()
      if (looked?.found !== undefined) return { found: true, stored: looked.found, notKept: undefined }
      const release = () => {
        // A look that failed here may have got the lock there.
        if (looked === undefined || looked.holder === token) void store.release(key, token)
      }
      try {
        if (givenUp) throw new Error('nobody waits any more')
        own = call()
        const answer = await own.answer
        if (answer.stored === undefined || !answer.shared) release()
        else if (evictions.isUsed(answer.stored)) {
          // It is not kept here, and what lies in the store would be handed out again by every replica.
          evictions.evict(key, answer.stored)
          release()
        }
        // Not awaited: whoever asked has his answer.
        else void keep(answer.stored, looked, release)
        return answer
      } catch (error) {
        release()
        throw error
      }
    }

    async function keep(
      quote: NonNullable<QuoteAnswer['stored']>,
      looked: Looked | undefined,
      release: () => void,
    ): Promise<void> {
      const kept = await store.put(key, quote, { token, storeAheadMs: looked?.storeAheadMs })
      if (kept === undefined) release()
      if (kept === false) evictions.refused(key, quote.id)
    }

    return {
      answer: bring(),
      abort() {
        givenUp = true
        own?.abort()
      },
    }
  }
}
