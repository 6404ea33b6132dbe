import { randomBytes } from 'node:crypto'
import { type Clock, lookAt, pause } from '../clock.ts'
import type { Events, Sharing } from '../events.ts'
import { serveLeftMs } from '../quotes/ends.ts'
import type { QuoteOrLock, SharedLook, SharedQuotes } from '../quotes/ports.ts'
import type { StoredQuote } from '../quotes/quote.ts'
import { QuoteCopies, type QuoteOrHolder, type QuoteStore } from './quote-copies.ts'

interface QuotesOfAllParts {
  sharedStore: QuoteStore
  clock: Clock
  events: Events
  minValidityMs: number
  /** How long to wait for another replica's call, and so how long a lock lasts. */
  lockWaitMs: number
  /** An order used this quote, here or at another replica, so no client may have it any more. */
  isUsed(quote: StoredQuote): boolean
}

/** The pauses between two looks for a quote that another replica is fetching. A call takes much longer than 10 ms. */
const minPauseMs = 10
const maxPauseMs = 50
const pauseGrowth = 1.5
/** A lookup is repeated if it found a used quote. With used quotes all the time the store counts as failed. */
const maxLookups = 3
/** Quotes forgotten at a time, of those that many clients were given. More would miss their deadline. */
const forgetBatch = 50

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
  async quoteOrLock(key: string, { signal, waits, known }: SharedLook): Promise<QuoteOrLock> {
    const { clock, events, lockWaitMs } = this.#parts
    const timers = clock.timers
    const held = new Held(this.#copies, key)
    const startedAtMs = timers.steadyMs()
    let awaited: string | undefined
    let sharing: Sharing | undefined
    for (let pauseMs = minPauseMs; !signal.aborted; pauseMs = Math.min(pauseMs * pauseGrowth, maxPauseMs)) {
      const result = await this.#look(key, held.token, known)
      held.found(result)
      if (result === undefined) sharing = 'failed'
      else if (result.quote !== undefined) sharing = held.waited ? 'awaited' : 'found'
      else if (held.isLocked) sharing = held.waited ? 'alone' : 'fetched'
      // The awaited call has failed, was given up or is too slow. The next holder of the lock is not waited for.
      else if (!waits || (awaited ?? result.lockHolder) !== result.lockHolder) sharing = 'alone'
      else if (timers.steadyMs() - startedAtMs >= lockWaitMs) sharing = 'alone'
      if (sharing !== undefined) {
        events.quoteShared(sharing)
        return held
      }
      awaited = result?.lockHolder
      held.waited = true
      await pause(pauseMs, timers)
    }
    return held
  }

  /** Undefined: the store failed. */
  async #look(key: string, token: string, known?: StoredQuote): Promise<QuoteOrHolder | undefined> {
    const { isUsed, clock, minValidityMs, lockWaitMs } = this.#parts
    let expiresAfterMs = known?.expiresAtMs ?? 0
    for (let lookups = 0; lookups < maxLookups; lookups += 1) {
      const result = await this.#copies.getOrLock(key, {
        expiresAfterMs,
        minLeftMs: minValidityMs,
        token,
        lockMs: lockWaitMs,
      })
      if (result?.quote === undefined) return result
      // The provider gave a used quote to another client too, or a slow replica put it there after its order.
      if (isUsed(result.quote)) void this.#copies.forget(key, result.quote.id)
      else if (serveLeftMs(result.quote.end, lookAt(clock)) <= minValidityMs)
        expiresAfterMs = result.quote.expiresAtMs
      else return result
    }
    return undefined
  }

  /** Removes the quote from the store, under all of these keys. */
  async forget(keys: readonly string[], id: string): Promise<void> {
    for (let at = 0; at < keys.length; at += forgetBatch)
      await Promise.all(keys.slice(at, at + forgetBatch).map((key) => this.#copies.forget(key, id)))
  }
}

/** What the looks for one quote brought, and the lock if they took it. */
class Held implements QuoteOrLock {
  readonly token = randomBytes(12).toString('base64url')
  quote: StoredQuote | undefined
  waited = false
  isLocked = false
  readonly #copies: QuoteCopies
  readonly #key: string
  /** Undefined: the store failed, so nothing is put into it. */
  #storeAheadMs: number | undefined

  constructor(copies: QuoteCopies, key: string) {
    this.#copies = copies
    this.#key = key
  }

  found(result: QuoteOrHolder | undefined): void {
    this.quote = result?.quote
    this.isLocked = result?.lockHolder === this.token
    this.#storeAheadMs = result?.storeAheadMs
  }

  put(quote: StoredQuote): void {
    if (this.#storeAheadMs === undefined) return
    this.isLocked = false
    void this.#copies.put(this.#key, quote, { token: this.token, storeAheadMs: this.#storeAheadMs })
  }

  release(): void {
    if (this.isLocked) this.#copies.unlock(this.#key, this.token)
    this.isLocked = false
  }
}
