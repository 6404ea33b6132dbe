import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { type Clock, lookAt } from '../clock.ts'
import type { Events, Sharing } from '../events.ts'
import { serveLeftMs } from '../quotes/ends.ts'
import type { Share, SharedAnswer, ShareOptions } from '../quotes/flight.ts'
import type { StoredQuote } from '../quotes/quote-store.ts'
import { QuoteCopies, type QuoteOrLock } from './quote-copies.ts'
import type { SharedStore } from './store.ts'

export interface SharedQuotesOptions {
  sharedStore: Pick<SharedStore, 'keyPrefix' | 'run' | 'post' | 'up'>
  clock: Clock
  minValidityMs: number
  /** How long to wait for another replica's call, and so how long a lock lasts. */
  lockWaitMs: number
  /** An order used this quote, here or at another replica, so no client may have it any more. */
  isUsed(quote: StoredQuote): boolean
  events: Events
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
export class SharedQuotes {
  readonly #options: SharedQuotesOptions
  readonly #copies: QuoteCopies

  constructor(options: SharedQuotesOptions) {
    this.#options = options
    this.#copies = new QuoteCopies(options.sharedStore, options.clock)
  }

  readonly share: Share = (key, call, options) =>
    new CallOfAll(this.#options, this.#copies, { ...options, key, call }).takeOrFetch()

  /** Removes the quote from the store, under all of these keys. */
  async forget(keys: readonly string[], id: string): Promise<void> {
    for (let at = 0; at < keys.length; at += forgetBatch)
      await Promise.all(keys.slice(at, at + forgetBatch).map((key) => this.#copies.forget(key, id)))
  }
}

interface Asked extends ShareOptions {
  key: string
  call: Parameters<Share>[1]
}

class CallOfAll {
  readonly #options: SharedQuotesOptions
  readonly #copies: QuoteCopies
  readonly #asked: Asked
  readonly #token = randomBytes(12).toString('base64url')

  constructor(options: SharedQuotesOptions, copies: QuoteCopies, asked: Asked) {
    this.#options = options
    this.#copies = copies
    this.#asked = asked
  }

  async takeOrFetch(): Promise<SharedAnswer> {
    const result = await this.#waitForQuote()
    if (result?.quote !== undefined) return { found: true, stored: result.quote, notKept: undefined }
    const { key, signal, call } = this.#asked
    const isOurs = result?.lockHolder === this.#token
    let isKept = false
    try {
      if (signal.aborted) throw new Error('no client waits any more')
      const answer = await call()
      const { stored, shared } = answer
      if (result !== undefined && stored !== undefined && shared && !this.#options.isUsed(stored)) {
        // In one write with the record of it. Its clients need not wait for the store to have it.
        isKept = true
        const lock = { token: this.#token, storeAheadMs: result.storeAheadMs }
        void this.#copies.put(key, stored, lock).then((isPut) => {
          if (!isPut && isOurs) this.#copies.unlock(key, this.#token)
        })
      }
      return answer
    } finally {
      if (isOurs && !isKept) this.#copies.unlock(key, this.#token)
    }
  }

  /** Waits until there is a quote, or no other replica to wait for. Undefined: the store failed. */
  async #waitForQuote(): Promise<QuoteOrLock | undefined> {
    const { lockWaitMs } = this.#options
    const { signal, waited, waits = true } = this.#asked
    const startedAtMs = performance.now()
    let awaited: string | undefined
    for (let pauseMs = minPauseMs; !signal.aborted; pauseMs = Math.min(pauseMs * pauseGrowth, maxPauseMs)) {
      const result = await this.#getOrLock()
      if (result === undefined) return this.#counted(undefined, 'failed')
      if (result.quote !== undefined)
        return this.#counted(result, awaited === undefined ? 'found' : 'awaited')
      if (result.lockHolder === this.#token)
        return this.#counted(result, awaited === undefined ? 'fetched' : 'alone')
      const isOtherHolder = awaited !== undefined && result.lockHolder !== awaited
      // The awaited call has failed, was given up or is too slow. The next holder of the lock is not waited for.
      if (!waits || isOtherHolder || performance.now() - startedAtMs >= lockWaitMs)
        return this.#counted(result, 'alone')
      awaited = result.lockHolder
      waited?.()
      await pause(pauseMs)
    }
    return undefined
  }

  async #getOrLock(): Promise<QuoteOrLock | undefined> {
    const { isUsed, clock, minValidityMs, lockWaitMs } = this.#options
    const { key, known } = this.#asked
    let excludeId = known?.id
    for (let lookups = 0; lookups < maxLookups; lookups += 1) {
      const result = await this.#copies.getOrLock(key, {
        expiresAfterMs: known?.expiresAtMs ?? 0,
        minLeftMs: minValidityMs,
        excludeId,
        token: this.#token,
        lockMs: lockWaitMs,
      })
      if (result?.quote === undefined) return result
      // The provider gave a used quote to another client too, or a slow replica put it there after its order.
      if (isUsed(result.quote)) void this.#copies.forget(key, result.quote.id)
      else if (serveLeftMs(result.quote.end, lookAt(clock)) <= minValidityMs) excludeId = result.quote.id
      else return result
    }
    return undefined
  }

  #counted(result: QuoteOrLock | undefined, sharing: Sharing): QuoteOrLock | undefined {
    this.#options.events.quoteShared(sharing)
    return result
  }
}
