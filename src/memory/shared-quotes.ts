import { randomUUID } from 'node:crypto'
import { type Clock, lookAt, pause } from '../clock.ts'
import { serveLeftMs } from '../quotes/ends.ts'
import type { Look, LookOptions, SharedQuotes, Turn } from '../quotes/ports.ts'
import { minLeftMs, type Quote } from '../quotes/quote.ts'
import { QuoteCopies, type QuoteStore, type StoreLock } from './quote-copies.ts'

interface QuotesOfAllParts {
  sharedStore: QuoteStore
  clock: Clock
  minValidityMs: number | undefined
  /** How long to wait for another replica's call, and how long a lock lasts. */
  lockWaitMs: number
  /** Whether an order used this quote anywhere, so that it must not be served again. */
  isUsed(quote: Quote): boolean
}

/** The pauses between two looks for another replica's quote. A call takes much longer than 10 ms. */
const minPauseMs = 10
const maxPauseMs = 50
const pauseGrowth = 1.5
/** A lookup is repeated if it found a used quote. After this many used quotes, the store counts as failed. */
const maxLookups = 3
/** How many copies of a quote are forgotten at a time. More would miss their deadline. */
const forgetBatch = 50

/** What a look at the store finds. `spare`: a quote close to its end, for when a younger one cannot be fetched. */
type StoreLook =
  | { readonly kind: 'quote'; readonly quote: Quote }
  | { readonly kind: 'failed'; readonly spare: Quote | undefined }
  | (StoreLock & { readonly spare: Quote | undefined })

/**
 * Makes one call to the provider for all replicas. A quote that another replica has fetched is taken, and one that it
 * is fetching is waited for. If the store or the other replica fails, this replica makes the call.
 */
export class QuotesOfAll implements SharedQuotes {
  readonly #parts: QuotesOfAllParts
  readonly #copies: QuoteCopies

  constructor(parts: QuotesOfAllParts) {
    this.#parts = parts
    this.#copies = new QuoteCopies(parts.sharedStore, parts.clock)
  }

  /** Returns once a quote is there, or no other replica is left to wait for. */
  async look(key: string, { flight, waits, known }: LookOptions): Promise<Look> {
    const { clock, lockWaitMs } = this.#parts
    const timers = clock.timers
    const token = randomUUID()
    const startedAtMs = timers.steadyMs()
    let spare: Quote | undefined
    /** The token of the call that is waited for. */
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
      // Otherwise the awaited call has failed, was given up or is too slow. Its successor is not waited for.
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

  /** `before`: only a quote with a later expiry is of use. */
  async #see(key: string, token: string, before: Quote | undefined): Promise<StoreLook> {
    const { isUsed, clock, minValidityMs, lockWaitMs: lockMs } = this.#parts
    let expiresAfterMs = before?.expiresAtMs ?? 0
    let spare: Quote | undefined
    for (let lookups = 0; lookups < maxLookups; lookups += 1) {
      const answer = await this.#copies.look(key, token, { expiresAfterMs, lockMs })
      if (answer === undefined) return { kind: 'failed', spare }
      if (answer.kind === 'lock') return { ...answer, spare }
      const { quote } = answer
      // The provider gave a used quote to another user too, or a slow replica stored it after its order.
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

  /** The quote may be put even if another call has the lock. */
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

  /** If this fails, a replica that finds the quote there forgets it. */
  async forget(keys: readonly string[], id: string): Promise<void> {
    for (let at = 0; at < keys.length; at += forgetBatch)
      await Promise.all(
        keys.slice(at, at + forgetBatch).map((key) => this.#copies.forget(key, id)),
      )
  }
}

type TurnsLock = Pick<Turn, 'put' | 'release'>

/** The store has failed, or the call is given up. */
const noLock: TurnsLock = { put() {}, release() {} }
