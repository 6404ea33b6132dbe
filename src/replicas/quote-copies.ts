import { type Clock, lookAt, orderLeftMs } from '../clock.ts'
import { headLines } from '../http/answer.ts'
import { createOneList, repeatableHeaders } from '../http/headers.ts'
import { type End, serveLeftMs } from '../quotes/ends.ts'
import { type StoredQuote, storedQuote } from '../quotes/quote.ts'
import type { ValkeyClient } from './client.ts'
import { forgetScript, getOrLockScript, setScript, unlockScript } from './quote-scripts.ts'
import type { SharedStore } from './store.ts'

/** Which quotes a call can use, and the lock that it takes if the store has none of them. */
interface Wanted {
  /** The quote must have a later expiry than this. */
  expiresAfterMs: number
  /** The quote must be served for longer than this. */
  minLeftMs: number
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

/** What is used of the store here. */
export type QuoteStore = Pick<SharedStore, 'keyPrefix' | 'run' | 'post' | 'up'>

/** The quotes that replicas share: the store has a copy of each, by cache key. */
export class QuoteCopies {
  readonly #store: QuoteStore
  readonly #clock: Clock
  readonly #oneList = createOneList()

  constructor(store: QuoteStore, clock: Clock) {
    this.#store = store
    this.#clock = clock
  }

  /** Undefined: the store failed. */
  async getOrLock(key: string, wanted: Wanted): Promise<QuoteOrHolder | undefined> {
    const { expiresAfterMs, minLeftMs, token, lockMs } = wanted
    // Looked at before the answer too: an earlier time gives the quote less life in the cache.
    const before = lookAt(this.#clock)
    const parameters = [expiresAfterMs, minLeftMs, token, lockMs]
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

  /** Writes the quote and releases the lock, atomically. False: the lock alone was released. */
  async put(
    key: string,
    quote: StoredQuote,
    { token, storeAheadMs }: Pick<Wanted & QuoteOrHolder, 'token' | 'storeAheadMs'>,
  ): Promise<boolean> {
    const now = lookAt(this.#clock)
    // The store's clock is cut to milliseconds, so one more on either side.
    const serveMs = Math.floor(serveLeftMs(quote.end, now)) - 1
    const orderMs = Math.ceil(orderLeftMs(quote.end, now)) + 1
    const servedUntilMs = Math.floor(now.steadyMs + storeAheadMs + serveMs)
    const parameters = [encodeQuote(quote), quote.expiresAtMs, token, serveMs, servedUntilMs, orderMs]
    const commands = (client: ValkeyClient) => setScript(client, this.#at(key), parameters)
    const isPut = serveMs > 0 && (await this.#store.run('quote-set', commands)) !== undefined
    if (!isPut) this.unlock(key, token)
    return isPut
  }

  unlock(key: string, token: string): void {
    void this.#store.run('unlock', this.#unlocking(key, token))
  }

  /** Unless there is another quote in its place. */
  forget(key: string, id: string): Promise<unknown> {
    return this.#forget(key, idLine(id))
  }

  #forget(key: string, line: string | Buffer): Promise<unknown> {
    return this.#store.run('quote-forget', (client) => forgetScript(client, this.#at(key), [line]))
  }

  #unlocking(key: string, token: string): (client: ValkeyClient) => Promise<unknown> {
    return (client) => unlockScript(client, this.#at(key), [token])
  }

  #at(key: string): string {
    return `${this.#store.keyPrefix}cache:${key}`
  }
}

/** Other programs can write to the store, and a damaged quote would be handed out until it expires. */
function isWhole(kept: EncodedQuote): boolean {
  const quote = storedQuote(kept)
  return quote?.id === kept.id && quote.expiryMs === kept.expiresAtMs && headLines(kept.headers) !== undefined
}

/** Without its end, which the store keeps by its own clock. */
type EncodedQuote = Omit<StoredQuote, 'end'>

/**
 * Encodes a quote for the shared store: a line with its id, a line with what is needed to serve it, and its body, byte
 * for byte. JSON has no line breaks, so a script can compare the first line to find out which quote this is.
 */
export function encodeQuote({ id, body, headers, lifeMs, expiresAtMs }: EncodedQuote): Buffer {
  const head = `${idLine(id)}${JSON.stringify([lifeMs, expiresAtMs, ...headers])}\n`
  return Buffer.concat([Buffer.from(head), Buffer.from(body, 'latin1')])
}

/** The first line of an encoded quote. */
function idLine(id: string): string {
  return `${JSON.stringify(id)}\n`
}

/** Undefined: the bytes are not what `encodeQuote` writes; another version of quotegate may have written them. */
export function decodeQuote(bytes: Buffer): EncodedQuote | undefined {
  const idEnd = bytes.indexOf(lineBreak)
  const headEnd = bytes.indexOf(lineBreak, idEnd + 1)
  if (idEnd === -1 || headEnd === -1) return undefined
  try {
    const id: unknown = JSON.parse(bytes.toString('utf8', 0, idEnd))
    const head: unknown = JSON.parse(bytes.toString('utf8', idEnd + 1, headEnd))
    if (typeof id !== 'string' || !Array.isArray(head)) return undefined
    const [lifeMs, expiresAtMs, ...headers] = head
    if (!Number.isFinite(lifeMs) || !Number.isFinite(expiresAtMs)) return undefined
    if (headers.length % 2 !== 0 || !headers.every((part) => typeof part === 'string')) return undefined
    return { id, body: bytes.toString('latin1', headEnd + 1), headers, lifeMs, expiresAtMs }
  } catch {
    return undefined
  }
}

const lineBreak = 0x0a
