import { randomBytes } from 'node:crypto'
import { type Clock, lookAt, pause } from '../clock.ts'
import { serveLeftMs } from '../quotes/ends.ts'
import type { Look, LookOptions, SharedQuotes, Turn } from '../quotes/ports.ts'
import { minLeftMs, type Quote } from '../quotes/quote.ts'
import { QuoteCopies, type QuoteStore, type StoreLock } from './quote-copies.ts'

interface QuotesOfAllParts {
  sharedStore: QuoteStore
  clock: Clock
  minValidityMs: number | undefined
  /** How long to wait for another replica's call, and so how long a lock lasts. */
  lockWaitMs: number
  /** An order used this quote, here or at another replica, so no client may have it any more. */
  isUsed(quote: Quote): boolean
}

/** The pauses between two looks for a quote that another replica is fetching. A call takes much longer than 10 ms. */
const minPauseMs = 10
const maxPauseMs = 50
const pauseGrowth = 1.5
/** A lookup is repeated if it found a used quote. With used quotes all the time the store counts as failed. */
const maxLookups = 3
/** Quotes forgotten at a time, of those that many clients were given. More would miss their deadline. */
const forgetBatch = 50

/** What a look at the store sees. `spare`: a quote that is close to its end, for when no younger one can be had. */
type StoreLook =
  | { readonly kind: 'quote'; readonly quote: Quote }
  | { readonly kind: 'failed'; readonly spare: Quote | undefined }
  | (StoreLock & { readonly spare: Quote | undefined })

/**
 * Makes one call to the upstream for all replicas. A quote that another replica has fetched is used; one that another
 * replica is fetching is waited for. If the store or the other replica fails, this replica makes the call.
 */
export class QuotesOfAll implements SharedQuotes {
  readonly #parts: QuotesOfAllParts
  readonly #copies: QuoteCopies

  constructor(parts: QuotesOfAllParts) {
    this.#parts = parts
    this.#copies = new QuoteCopies(parts.sharedStore, parts.clock)
  }

  /** Waits until there is a quote, or no other replica to wait for. */
  async look(key: string, { flight, waits, known }: LookOptions): Promise<Look> {
    const { clock, lockWaitMs } = this.#parts
    const timers = clock.timers
    const token = randomBytes(12).toString('base64url')
    const startedAtMs = timers.steadyMs()
    let spare: Quote | undefined
    /** Who has the lock that is waited for. */
    let awaited: string | undefined
    let pauseMs = minPauseMs
    while (flight.left === undefined) {
      const seen = await this.#see(key, token, spare ?? known)
      const waited = awaited !== undefined
      if (seen.kind === 'quote') return { kind: 'found', quote: seen.quote }
      spare = seen.spare ?? spare
      if (seen.kind === 'failed') return { kind: 'turn', spare, waited, ...noLock }
      const { holder } = seen
      const isHeld = holder === token
      // Else the awaited call has failed, was given up or is too slow. The next holder of the lock is not waited for.
      const isAwaited =
        waits &&
        (awaited ?? holder) === holder &&
        timers.steadyMs() - startedAtMs < lockWaitMs
      if (isHeld || !isAwaited)
        return { kind: 'turn', spare, waited, ...this.#lock(key, token, seen) }
      awaited = holder
      await pause(pauseMs, timers)
      pauseMs = Math.min(pauseMs * pauseGrowth, maxPauseMs)
    }
    return { kind: 'turn', spare, waited: awaited !== undefined, ...noLock }
  }

  /** `before`: a quote with a later expiry is looked for. */
  async #see(key: string, token: string, before: Quote | undefined): Promise<StoreLook> {
    const { isUsed, clock, minValidityMs, lockWaitMs: lockMs } = this.#parts
    let expiresAfterMs = before?.expiresAtMs ?? 0
    let spare: Quote | undefined
    for (let lookups = 0; lookups < maxLookups; lookups += 1) {
      const answer = await this.#copies.look(key, token, { expiresAfterMs, lockMs })
      if (answer === undefined) return { kind: 'failed', spare }
      if (answer.kind === 'lock') return { ...answer, spare }
      const { quote } = answer
      // The provider gave a used quote to another client too, or a slow replica put it there after its order.
      if (isUsed(quote)) void this.#copies.forget(key, quote.id)
      else {
        const leftMs = serveLeftMs(quote.end, lookAt(clock))
        if (leftMs > 0 && leftMs >= minLeftMs(quote, minValidityMs)) return answer
        if (leftMs > 0) spare = quote
        expiresAfterMs = quote.expiresAtMs
      }
    }
    return { kind: 'failed', spare }
  }

  /** A quote may be put whether this call has the lock or not. */
  #lock(key: string, token: string, { holder, storeAheadMs }: StoreLock): TurnsLock {
    let isHeld = holder === token
    return {
      put: (quote) => {
        isHeld = false
        void this.#copies.put(key, token, { quote, storeAheadMs })
      },
      release: () => {
        if (isHeld) this.#copies.unlock(key, token)
        isHeld = false
      },
    }
  }

  /** Removes the quote from the store, under all of these keys. Not tried again: who finds it there forgets it. */
  async forget(keys: readonly string[], id: string): Promise<void> {
    for (let at = 0; at < keys.length; at += forgetBatch)
      await Promise.all(
        keys.slice(at, at + forgetBatch).map((key) => this.#copies.forget(key, id)),
      )
  }
}

type TurnsLock = Pick<Turn, 'put' | 'release'>

/** The store has failed, or the call is given up: there is nothing to put, and no lock to give back. */
const noLock: TurnsLock = { put() {}, release() {} }
