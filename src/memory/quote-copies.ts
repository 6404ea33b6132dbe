import { type Clock, lookAt } from '../clock.ts'
import { createOneList, repeatableHeaders } from '../http/headers.ts'
import { endIn, leftOf } from '../quotes/ends.ts'
import { type Quote, quoteOf } from '../quotes/quote.ts'
import type { ValkeyClient } from './client.ts'
import {
  forgetScript,
  getOrLockScript,
  setScript,
  unlockScript,
} from './quote-scripts.ts'
import { decodeCopy, encodeCopy, idLine } from './records.ts'
import type { SharedStore } from './store.ts'

export type QuoteStore = Pick<SharedStore, 'keyPrefix' | 'run' | 'insist' | 'up'>

interface Wanted {
  /** The quote must have a later expiry than this. */
  readonly expiresAfterMs: number
  /** How long the lock lasts if the store has no such quote. 0: the lock is not taken. */
  readonly lockMs: number
}

/** The lock of a cache key without a usable quote. */
export interface StoreLock {
  readonly kind: 'lock'
  /** The token of the call that has the lock. */
  readonly holder: string
  /** The store's clock minus our steady clock, or slightly less. */
  readonly storeAheadMs: number
}

type StoreAnswer = { readonly kind: 'quote'; readonly quote: Quote } | StoreLock

/** The copies of quotes in the store, with a lock for each key. `token` identifies a call. */
export class QuoteCopies {
  readonly #store: QuoteStore
  readonly #clock: Clock
  readonly #oneList = createOneList()

  constructor(store: QuoteStore, clock: Clock) {
    this.#store = store
    this.#clock = clock
  }

  /** Finds a usable quote, or takes the lock if it is free. Undefined: the store failed. */
  async look(
    key: string,
    token: string,
    { expiresAfterMs, lockMs }: Wanted,
  ): Promise<StoreAnswer | undefined> {
    // Before the answer comes: counted from an earlier time, the quote has less life left.
    const before = lookAt(this.#clock)
    const wasUp = this.#store.up
    // The quote must live by our clock too: the store's clock may have been set back.
    const expiresAfterUsMs = Math.max(expiresAfterMs, before.nowMs)
    const parameters = [expiresAfterUsMs, 0, token, lockMs]
    const answer = await this.#store.run('quote-get', (client) =>
      getOrLockScript(client, this.#at(key), parameters),
    )
    if (answer === undefined) {
      // A frozen store takes the lock later. Other replicas would then wait for a call that goes on without the lock.
      if (wasUp && lockMs > 0) void this.#store.insist('unlock', this.#unlock(key, token))
      return undefined
    }
    const [storeNowMs, bytes, serveMs, orderMs] = answer
    const now = lookAt(this.#clock)
    if (serveMs === undefined || orderMs === undefined)
      return {
        kind: 'lock',
        holder: bytes.toString('latin1'),
        storeAheadMs: storeNowMs - now.steadyMs,
      }
    const copy = decodeCopy(bytes, endIn({ serveMs, orderMs }, now, before))
    if (copy !== undefined) return { kind: 'quote', quote: this.#ours(copy) }
    // A damaged copy is removed. The call goes on as if the store had failed, so that it puts nothing there.
    void this.#forget(key, bytes.subarray(0, bytes.indexOf('\n') + 1))
    return undefined
  }

  #ours(copy: Quote): Quote {
    // A copy by another version of quotegate may have headers that must not be repeated.
    const headers = this.#oneList(repeatableHeaders(copy.headers))
    // The store's clock may have been set back.
    const servedUntilMs = Math.min(copy.end.servedUntilMs, copy.expiresAtMs)
    return quoteOf(copy, { ...copy, headers, end: { ...copy.end, servedUntilMs } })
  }

  /** Writes the quote and releases the lock in one step. False: only the lock was released. */
  async put(
    key: string,
    token: string,
    { quote, storeAheadMs }: { quote: Quote; storeAheadMs: number },
  ): Promise<boolean> {
    const now = lookAt(this.#clock)
    const left = leftOf(quote.end, now)
    // The store's clock is cut to milliseconds, so each time gets a margin of one.
    const serveMs = left.serveMs - 1
    const orderMs = left.orderMs + 1
    const servedUntilMs = Math.floor(now.steadyMs + storeAheadMs + serveMs)
    const parameters = [
      encodeCopy(quote),
      quote.expiresAtMs,
      token,
      serveMs,
      servedUntilMs,
      orderMs,
    ]
    const commands = (client: ValkeyClient) =>
      setScript(client, this.#at(key), parameters)
    const isPut =
      serveMs > 0 && (await this.#store.run('quote-set', commands)) !== undefined
    if (!isPut) this.unlock(key, token)
    return isPut
  }

  unlock(key: string, token: string): void {
    void this.#store.run('unlock', this.#unlock(key, token))
  }

  /** Removes the copy, unless another quote is in its place. */
  forget(key: string, id: string): Promise<unknown> {
    return this.#forget(key, idLine(id))
  }

  #forget(key: string, line: string | Buffer): Promise<unknown> {
    return this.#store.run('quote-forget', (client) =>
      forgetScript(client, this.#at(key), [line]),
    )
  }

  #unlock(key: string, token: string) {
    return (client: ValkeyClient): Promise<unknown> =>
      unlockScript(client, this.#at(key), [token])
  }

  #at(key: string): string {
    return `${this.#store.keyPrefix}cache:${key}`
  }
}
