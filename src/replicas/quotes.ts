import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { type Clock, lookAt } from '../clock.ts'
import type { Events, Sharing } from '../events.ts'
import { serveLeftMs } from '../quotes/ends.ts'
import type { QuoteOrLock, SharedLook, SharedQuotes } from '../quotes/ports.ts'
import type { StoredQuote } from '../quotes/quote.ts'
import { QuoteCopies, type QuoteOrHolder } from './quote-copies.ts'
import type { SharedStore } from './store.ts'

export interface QuotesOfAllParts {
  sharedStore: Pick<SharedStore, 'keyPrefix' | 'run' | 'post' | 'up'>
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
  async quoteOrLock(key: string, look: SharedLook): Promise<QuoteOrLock> {
    const { lockWaitMs } = this.#parts
    const token = randomBytes(12).toString('base64url')
    const startedAtMs = performance.now()
    let awaited: string | undefined
    const answer = (result: QuoteOrHolder | undefined, sharing: Sharing): QuoteOrLock => {
      this.#parts.events.quoteShared(sharing)
      return new Held(this.#copies, { key, token, result, waited: awaited !== undefined })
    }
    for (
      let pauseMs = minPauseMs;
      !look.signal.aborted;
      pauseMs = Math.min(pauseMs * pauseGrowth, maxPauseMs)
    ) {
      const result = await this.#look(key, token, look.known)
      if (result === undefined) return answer(undefined, 'failed')
      if (result.quote !== undefined) return answer(result, awaited === undefined ? 'found' : 'awaited')
      if (result.lockHolder === token) return answer(result, awaited === undefined ? 'fetched' : 'alone')
      const isOtherHolder = awaited !== undefined && result.lockHolder !== awaited
      // The awaited call has failed, was given up or is too slow. The next holder of the lock is not waited for.
      if (!look.waits || isOtherHolder || performance.now() - startedAtMs >= lockWaitMs)
        return answer(result, 'alone')
      awaited = result.lockHolder
      await pause(pauseMs)
    }
    return new Held(this.#copies, { key, token, result: undefined, waited: awaited !== undefined })
  }

  /** Undefined: the store failed. */
  async #look(
    key: string,
    token: string,
    known: StoredQuote | undefined,
  ): Promise<QuoteOrHolder | undefined> {
    const { isUsed, clock, minValidityMs, lockWaitMs } = this.#parts
    let excludeId = known?.id
    for (let lookups = 0; lookups < maxLookups; lookups += 1) {
      const result = await this.#copies.getOrLock(key, {
        expiresAfterMs: known?.expiresAtMs ?? 0,
        minLeftMs: minValidityMs,
        excludeId,
        token,
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

  /** Removes the quote from the store, under all of these keys. */
  async forget(keys: readonly string[], id: string): Promise<void> {
    for (let at = 0; at < keys.length; at += forgetBatch)
      await Promise.all(keys.slice(at, at + forgetBatch).map((key) => this.#copies.forget(key, id)))
  }
}

/** What one look brought, and the lock if it took one. */
class Held implements QuoteOrLock {
  readonly quote: StoredQuote | undefined
  readonly waited: boolean
  readonly #copies: QuoteCopies
  readonly #key: string
  readonly #token: string
  /** Undefined: the store failed, so nothing is put into it. */
  readonly #storeAheadMs: number | undefined
  #isLocked: boolean

  constructor(
    copies: QuoteCopies,
    from: { key: string; token: string; result: QuoteOrHolder | undefined; waited: boolean },
  ) {
    this.#copies = copies
    this.#key = from.key
    this.#token = from.token
    this.quote = from.result?.quote
    this.waited = from.waited
    this.#storeAheadMs = from.result?.storeAheadMs
    this.#isLocked = from.result?.lockHolder === from.token
  }

  put(quote: StoredQuote): void {
    if (this.#storeAheadMs === undefined) return
    const wasLocked = this.#isLocked
    this.#isLocked = false
    const lock = { token: this.#token, storeAheadMs: this.#storeAheadMs }
    void this.#copies.put(this.#key, quote, lock).then((isPut) => {
      if (!isPut && wasLocked) this.#copies.unlock(this.#key, this.#token)
    })
  }

  release(): void {
    if (this.#isLocked) this.#copies.unlock(this.#key, this.#token)
    this.#isLocked = false
  }
}
