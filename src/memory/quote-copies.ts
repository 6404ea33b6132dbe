import { randomBytes } from 'node:crypto'
import { type Clock, lookAt, type Now, orderLeftMs } from '../clock.ts'
import { headLines } from '../http/answer.ts'
import { type createOneList, repeatableHeaders } from '../http/headers.ts'
import { type End, serveLeftMs } from '../quotes/ends.ts'
import type { QuoteOrLock } from '../quotes/ports.ts'
import { type StoredQuote, storedQuote } from '../quotes/quote.ts'
import type { ValkeyClient } from './client.ts'
import {
  forgetScript,
  getOrLockScript,
  setScript,
  unlockScript,
} from './quote-scripts.ts'
import type { SharedStore } from './store.ts'

/** What is used of the store here. */
export type QuoteStore = Pick<SharedStore, 'keyPrefix' | 'run' | 'insist' | 'up'>

/** What the copies of a replica have in common. */
interface CopyParts {
  sharedStore: QuoteStore
  clock: Clock
  oneList: ReturnType<typeof createOneList>
}

interface Wanted {
  /** The quote must have a later expiry than this. */
  expiresAfterMs: number
  /** The quote must be served for longer than this. */
  minLeftMs: number
  /** How long the lock lasts that is taken if the store has no such quote. 0: none is taken. */
  lockMs: number
}

/** The copy that the store has of the quote of one cache key, or the lock on it, as one call finds them. */
export class QuoteCopy implements QuoteOrLock {
  readonly #parts: CopyParts
  readonly #key: string
  readonly #token: string
  /** Its end is what was left of it, less what the store's clock has gone on since. */
  quote: StoredQuote | undefined
  spare: StoredQuote | undefined
  waited = false
  /** The token that has the lock. */
  lockHolder: string | undefined
  /** How far the store's clock is ahead of our steady one, or slightly less. Undefined: the store failed. */
  #storeAheadMs: number | undefined

  constructor(
    parts: CopyParts,
    key: string,
    token = randomBytes(12).toString('base64url'),
  ) {
    this.#parts = parts
    this.#key = key
    this.#token = token
  }

  get isLocked(): boolean {
    return this.lockHolder === this.#token
  }

  /** Finds a quote that is wanted, or takes the lock, unless another call has it. False: the store failed. */
  async look({ expiresAfterMs, minLeftMs, lockMs }: Wanted): Promise<boolean> {
    const { sharedStore, clock } = this.#parts
    this.forgetLook()
    // Looked at before the answer too: an earlier time gives the quote less life in the cache.
    const before = lookAt(clock)
    const wasUp = sharedStore.up
    // By our clock it lives as well: that of the store may have been set back.
    const expiresAfterUsMs = Math.max(expiresAfterMs, before.nowMs + minLeftMs)
    const parameters = [expiresAfterUsMs, minLeftMs, this.#token, lockMs]
    const answer = await sharedStore.run('quote-get', (client) =>
      getOrLockScript(client, atKey(sharedStore, this.#key), parameters),
    )
    if (answer === undefined) {
      // A store that was frozen still runs what it was sent. All would wait for the holder of a lock that has gone on.
      if (wasUp && lockMs > 0) void sharedStore.insist('unlock', this.#unlocking)
      return false
    }
    const [storeNowMs, quoteOrLock, serveMs, orderMs] = answer
    const now = lookAt(clock)
    if (serveMs === undefined || orderMs === undefined)
      this.lockHolder = quoteOrLock.toString('latin1')
    else {
      this.quote = this.#read(quoteOrLock, { before, now, serveMs, orderMs })
      // No client can use it, and nothing is put in its place by a call that the store has failed.
      if (this.quote === undefined) {
        void forgetCopy(
          sharedStore,
          this.#key,
          quoteOrLock.subarray(0, quoteOrLock.indexOf('\n') + 1),
        )
        return false
      }
    }
    this.#storeAheadMs = storeNowMs - now.steadyMs
    return true
  }

  #read(
    bytes: Buffer,
    {
      before,
      now,
      serveMs,
      orderMs,
    }: { before: Now; now: Now; serveMs: number; orderMs: number },
  ): StoredQuote | undefined {
    const quote = decodeQuote(bytes)
    if (quote === undefined || !isWhole(quote)) return undefined
    const wallAheadMs = now.nowMs - now.steadyMs
    const end: End = {
      servedUntilMs: Math.min(
        Math.floor(Math.min(before.nowMs, before.steadyMs + wallAheadMs) + serveMs),
        quote.expiresAtMs,
      ),
      refusedFromMs: Math.ceil(now.nowMs + orderMs),
      wallAheadMs,
    }
    // Another version of quotegate may store headers that this one must not repeat.
    return {
      ...quote,
      headers: this.#parts.oneList(repeatableHeaders(quote.headers)),
      end,
    }
  }

  forgetLook(): void {
    this.quote = this.lockHolder = this.#storeAheadMs = undefined
  }

  /** Writes the quote and releases the lock, atomically. False: the lock alone was released. */
  async put(quote: StoredQuote): Promise<boolean> {
    if (this.#storeAheadMs === undefined) return false
    const { sharedStore, clock } = this.#parts
    const now = lookAt(clock)
    // The store's clock is cut to milliseconds, so one more on either side.
    const serveMs = Math.floor(serveLeftMs(quote.end, now)) - 1
    const orderMs = Math.ceil(orderLeftMs(quote.end, now)) + 1
    const servedUntilMs = Math.floor(now.steadyMs + this.#storeAheadMs + serveMs)
    const parameters = [
      encodeQuote(quote),
      quote.expiresAtMs,
      this.#token,
      serveMs,
      servedUntilMs,
      orderMs,
    ]
    this.lockHolder = undefined
    const commands = (client: ValkeyClient) =>
      setScript(client, atKey(sharedStore, this.#key), parameters)
    const isPut =
      serveMs > 0 && (await sharedStore.run('quote-set', commands)) !== undefined
    if (!isPut) void sharedStore.run('unlock', this.#unlocking)
    return isPut
  }

  release(): void {
    if (this.isLocked) void this.#parts.sharedStore.run('unlock', this.#unlocking)
    this.lockHolder = undefined
  }

  readonly #unlocking = (client: ValkeyClient): Promise<unknown> =>
    unlockScript(client, atKey(this.#parts.sharedStore, this.#key), [this.#token])
}

/** Removes the copy with this id line, unless there is another quote in its place. */
export function forgetCopy(
  store: QuoteStore,
  key: string,
  line: string | Buffer,
): Promise<unknown> {
  return store.run('quote-forget', (client) =>
    forgetScript(client, atKey(store, key), [line]),
  )
}

function atKey({ keyPrefix }: QuoteStore, key: string): string {
  return `${keyPrefix}cache:${key}`
}

/** Other programs can write to the store, and a damaged quote would be handed out until it expires. */
function isWhole(kept: EncodedQuote): boolean {
  const quote = storedQuote(kept)
  return (
    quote?.id === kept.id &&
    quote.expiryMs === kept.expiresAtMs &&
    headLines(kept.headers) !== undefined
  )
}

/** Without its end, which the store keeps by its own clock. */
type EncodedQuote = Omit<StoredQuote, 'end'>

/**
 * Encodes a quote for the shared store: a line with its id, a line with what is needed to serve it, and its body, byte
 * for byte. JSON has no line breaks, so a script can compare the first line to find out which quote this is.
 */
export function encodeQuote({
  id,
  body,
  headers,
  lifeMs,
  expiresAtMs,
}: EncodedQuote): Buffer {
  const head = `${idLine(id)}${JSON.stringify([lifeMs, expiresAtMs, ...headers])}\n`
  return Buffer.concat([Buffer.from(head), Buffer.from(body, 'latin1')])
}

/** The first line of an encoded quote. */
export function idLine(id: string): string {
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
    if (headers.length % 2 !== 0 || !headers.every((part) => typeof part === 'string'))
      return undefined
    return {
      id,
      body: bytes.toString('latin1', headEnd + 1),
      headers,
      lifeMs,
      expiresAtMs,
    }
  } catch {
    return undefined
  }
}

const lineBreak = 0x0a
