import { type Clock, lookAt, pause } from '../clock.ts'
import type { Events, Sharing } from '../events.ts'
import { createOneList } from '../http/headers.ts'
import { serveLeftMs } from '../quotes/ends.ts'
import type { QuoteOrLock, SharedLook, SharedQuotes } from '../quotes/ports.ts'
import { minLeftMs, type StoredQuote } from '../quotes/quote.ts'
import { forgetCopy, idLine, QuoteCopy, type QuoteStore } from './quote-copies.ts'

interface QuotesOfAllParts {
  sharedStore: QuoteStore
  clock: Clock
  events: Events
  minValidityMs: number | undefined
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
  readonly #oneList = createOneList()

  constructor(parts: QuotesOfAllParts) {
    this.#parts = parts
  }

  /** Waits until there is a quote, or no other replica to wait for. */
  async quoteOrLock(
    key: string,
    { flight, waits, known }: SharedLook,
  ): Promise<QuoteOrLock> {
    const { clock, events, lockWaitMs } = this.#parts
    const timers = clock.timers
    const copy = new QuoteCopy({ ...this.#parts, oneList: this.#oneList }, key)
    const startedAtMs = timers.steadyMs()
    let awaited: string | undefined
    let sharing: Sharing | undefined
    let pauseMs = minPauseMs
    while (flight.left === undefined) {
      if (!(await this.#look(copy, key, known))) sharing = 'failed'
      else if (copy.quote !== undefined) sharing = copy.waited ? 'awaited' : 'found'
      else if (copy.isLocked) sharing = copy.waited ? 'alone' : 'fetched'
      // The awaited call has failed, was given up or is too slow. The next holder of the lock is not waited for.
      else if (!waits || (awaited ?? copy.lockHolder) !== copy.lockHolder)
        sharing = 'alone'
      else if (timers.steadyMs() - startedAtMs >= lockWaitMs) sharing = 'alone'
      if (sharing !== undefined) {
        events.quoteShared(sharing)
        return copy
      }
      awaited = copy.lockHolder
      copy.waited = true
      await pause(pauseMs, timers)
      pauseMs = Math.min(pauseMs * pauseGrowth, maxPauseMs)
    }
    return copy
  }

  /** False: the store failed. */
  async #look(copy: QuoteCopy, key: string, known?: StoredQuote): Promise<boolean> {
    const { sharedStore, isUsed, clock, minValidityMs, lockWaitMs: lockMs } = this.#parts
    let expiresAfterMs = Math.max(known?.expiresAtMs ?? 0, copy.spare?.expiresAtMs ?? 0)
    for (let lookups = 0; lookups < maxLookups; lookups += 1) {
      if (!(await copy.look({ expiresAfterMs, minLeftMs: 0, lockMs }))) return false
      const { quote } = copy
      if (quote === undefined) return true
      // The provider gave a used quote to another client too, or a slow replica put it there after its order.
      if (isUsed(quote)) void forgetCopy(sharedStore, key, idLine(quote.id))
      else {
        const leftMs = serveLeftMs(quote.end, lookAt(clock))
        if (leftMs > 0 && leftMs >= minLeftMs(quote, minValidityMs)) return true
        if (leftMs > 0) copy.spare = quote
        expiresAfterMs = quote.expiresAtMs
      }
    }
    copy.forgetLook()
    return false
  }

  /** Removes the quote from the store, under all of these keys. Not tried again: who finds it there forgets it. */
  async forget(keys: readonly string[], id: string): Promise<void> {
    const { sharedStore } = this.#parts
    const line = idLine(id)
    for (let at = 0; at < keys.length; at += forgetBatch)
      await Promise.all(
        keys.slice(at, at + forgetBatch).map((key) => forgetCopy(sharedStore, key, line)),
      )
  }
}
