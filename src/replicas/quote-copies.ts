import { type Clock, lookAt, orderLeftMs } from '../clock.ts'
import { headLines } from '../http/answer.ts'
import { createOneList, repeatableHeaders } from '../http/headers.ts'
import { type End, serveLeftMs } from '../quotes/ends.ts'
import type { StoredQuote } from '../quotes/quote.ts'
import { readQuote } from '../quotes/quote.ts'
import type { ValkeyClient } from './client.ts'
import { decodeQuote, type EncodedQuote, encodeQuote, idLine } from './quote-codec.ts'
import { forgetScript, getOrLockScript, setScript, unlockScript } from './quote-scripts.ts'
import type { SharedStore } from './store.ts'

/** Which quotes a call can use, and the lock that it takes if the store has none of them. */
interface Wanted {
  /** The quote must have a later expiry than this. */
  expiresAfterMs: number
  /** The quote must be served for longer than this. */
  minLeftMs: number
  /** A quote that the caller has already. */
  excludeId?: string | undefined
  /** The lock's token if this call takes the lock. */
  token: string
  /** How long the lock lasts. 0: no lock is taken. */
  lockMs: number
}

/** A quote, or else the lock's token. */
export interface QuoteOrHolder {
  /** Its end is what was left of it, less what the store's clock has gone on since. */
  quote?: StoredQuote
  /** The token that has the lock now: the caller's own token if this call took the lock. */
  lockHolder?: string
  /** How far the store's clock is ahead of our steady one, or slightly less. */
  storeAheadMs: number
}

interface TakenLock extends Pick<QuoteOrHolder, 'storeAheadMs'> {
  token: string
}

/** The quotes that replicas share: the store has a copy of each, by cache key. */
export class QuoteCopies {
  readonly #store: Pick<SharedStore, 'keyPrefix' | 'run' | 'post' | 'up'>
  readonly #clock: Clock
  readonly #oneList = createOneList()

  constructor(store: Pick<SharedStore, 'keyPrefix' | 'run' | 'post' | 'up'>, clock: Clock) {
    this.#store = store
    this.#clock = clock
  }

  /** Undefined: the store failed. */
  async getOrLock(key: string, wanted: Wanted): Promise<QuoteOrHolder | undefined> {
    const { expiresAfterMs, minLeftMs, excludeId, token, lockMs } = wanted
    // Looked at before the answer too: an earlier time gives the quote less life in the cache.
    const before = lookAt(this.#clock)
    const excludedLine = excludeId === undefined ? '' : idLine(excludeId)
    const parameters = [expiresAfterMs, minLeftMs, excludedLine, token, lockMs]
    const wasUp = this.#store.up
    const answer = await this.#store.run('quote-get', (client) =>
      getOrLockScript(client, this.#at(key), parameters),
    )
    if (answer === undefined) {
      // A store that was frozen still runs what it was sent. All would wait for the holder of a lock that has gone on.
      if (wasUp && lockMs > 0) this.#store.post('unlock', this.#unlocking(key, token))
      return undefined
    }
    const [storeNowMs, quoteOrLock, serveMs, orderMs] = answer
    const now = lookAt(this.#clock)
    const storeAheadMs = storeNowMs - now.steadyMs
    if (serveMs === undefined) return { lockHolder: quoteOrLock.toString('latin1'), storeAheadMs }
    const quote = decodeQuote(quoteOrLock)
    if (quote === undefined || orderMs === undefined || !isWhole(quote)) {
      // No client can use it, and nothing is put in its place by a call that the store has failed.
      void this.#forget(key, quoteOrLock.subarray(0, quoteOrLock.indexOf('\n') + 1))
      return undefined
    }
    const wallAheadMs = now.nowMs - now.steadyMs
    const end: End = {
      servedUntilMs: Math.floor(Math.min(before.nowMs, before.steadyMs + wallAheadMs) + serveMs),
      refusedFromMs: Math.ceil(now.nowMs + orderMs),
      wallAheadMs,
    }
    // Another version of quotegate may store headers that this one must not repeat.
    return {
      quote: { ...quote, headers: this.#oneList(repeatableHeaders(quote.headers)), end },
      storeAheadMs,
    }
  }

  /** Writes the quote and releases the lock, atomically. False: the store failed. */
  async put(key: string, quote: StoredQuote, { token, storeAheadMs }: TakenLock): Promise<boolean> {
    const now = lookAt(this.#clock)
    // The store's clock is cut to milliseconds, so one more on either side.
    const serveMs = Math.floor(serveLeftMs(quote.end, now)) - 1
    const orderMs = Math.ceil(orderLeftMs(quote.end, now)) + 1
    if (serveMs <= 0) return false
    const servedUntilMs = Math.floor(now.steadyMs + storeAheadMs + serveMs)
    const parameters = [encodeQuote(quote), quote.expiresAtMs, token, serveMs, servedUntilMs, orderMs]
    const commands = (client: ValkeyClient) => setScript(client, this.#at(key), parameters)
    return (await this.#store.run('quote-set', commands)) !== undefined
  }

  unlock(key: string, token: string): void {
    void this.#store.run('unlock', this.#unlocking(key, token))
  }

  /** Unless there is another quote in its place. */
  forget(key: string, id: string): Promise<unknown> {
    return this.#forget(key, idLine(id))
  }

  #forget(key: string, line: string | Buffer): Promise<unknown> {
    const commands = (client: ValkeyClient) => forgetScript(client, this.#at(key), [line])
    return this.#store.run('quote-forget', commands)
  }

  #unlocking(key: string, token: string): (client: ValkeyClient) => Promise<unknown> {
    return (client) => unlockScript(client, this.#at(key), [token])
  }

  #at(key: string): string {
    return `${this.#store.keyPrefix}cache:${key}`
  }
}

/** Other programs can write to the store, and a damaged quote would be handed out until it expires. */
function isWhole({ id, body, headers, expiresAtMs }: EncodedQuote): boolean {
  const { quote } = readQuote(Buffer.from(body, 'latin1'))
  if (quote?.id !== id || quote.expiryMs !== expiresAtMs) return false
  return headLines(headers) !== undefined
}
