import { type Clock, lookAt } from '../../clock.ts'
import { createOneList } from '../../http/headers.ts'
import { repeatableHeaders } from '../../http/one-exchange-headers.ts'
import { headLines } from '../../http/whole-response.ts'
import { type End, orderLeftMs, serveLeftMs } from '../../quotes/ends.ts'
import { readQuote } from '../../quotes/quote.ts'
import type { QuoteStore, StoredQuote } from '../../quotes/quote-store.ts'
import type { Span } from '../../tracing/observer.ts'
import { decodeQuote, type EncodedQuote, encodeQuote, idLine } from '../quote-codec.ts'
import type { SharedStore } from '../store.ts'
import type { ValkeyClient } from './client.ts'
import {
  evictScript,
  getOrLockScript,
  type QuoteOrLockReply,
  setScript,
  unlockScript,
} from './quote-scripts.ts'

/** Which quotes a call can use, and the lock that it takes if the store has none of them. */
export interface GetOrLockOptions {
  /** The quote must have a later expiry than this. */
  expiresAfterMs: number
  /** By the store's clock: the quote must have more than this left. */
  minLeftMs: number
  /** A quote that the caller has already. */
  excludeId?: string | undefined
  /** The lock's token if this call takes the lock. */
  token: string
  /** How long the lock lasts. 0: no lock is taken. */
  lockMs: number
  span?: Span | undefined
}

/** A quote, or else the lock's token. */
export interface QuoteOrLock {
  /** Its end is what was left of it, less what the store's clock has gone on since. */
  quote?: StoredQuote
  /** The token that has the lock now: the caller's own token if this call took the lock. */
  lockHolder?: string
  /** How far the store's clock is ahead of ours, or slightly less. */
  storeAheadMs: number
}

export interface TakenLock {
  token: string
  storeAheadMs: number | undefined
  span?: Span | undefined
}

/** The quotes of all replicas. Every method resolves with `undefined` if the store failed. */
export interface SharedQuoteStore extends QuoteStore {
  getOrLock(key: string, options: GetOrLockOptions): Promise<QuoteOrLock | undefined>
  /**
   * Writes the quote and releases the lock, atomically. False: the quote was evicted before it came, and is not written.
   * `lock`: the token given to `getOrLock` and the clock difference that `getOrLock` returned.
   */
  put(key: string, quote: StoredQuote, lock?: TakenLock): Promise<boolean | undefined>
  /** Releases the lock at once, or as soon as the store is back. */
  unlock(key: string, token: string, span?: Span): Promise<void>
  /**
   * Forgets the quote, keeps slower replicas from writing it again, and notifies all replicas. The same id with an
   * expiry later than `expiresAtMs` is a different quote.
   */
  evict(key: string, quoteId: string, expiresAtMs?: number, span?: Span): Promise<boolean | undefined>
  subscribe(subscriber: EvictionSubscriber): void
}

export interface EvictionSubscriber {
  /** `usedUntilMs`: the expiry of a quote that was used. Undefined for other evictions, and from version 1.0.0. */
  onEvicted(key: string, quoteId: string, usedUntilMs?: number): void
  /** Evictions may have been missed. */
  onGap(): void
  /** The store answers again. */
  onUp(): void
}

export interface ValkeyQuoteStoreOptions {
  sharedStore: Pick<SharedStore, 'keyPrefix' | 'run' | 'subscribe' | 'onUp'>
  clock: Clock
}

/** How long an entry is kept past its expiry, for clocks that differ a little. */
const graceMs = 1_000

/** How long an evicted quote is refused. Longer than any call in flight that may still return the quote. */
const refusedForMs = 60_000

/** Per outage, the first unlocks that failed. Later calls of an outage do not reach the store, so they lock nothing. */
const maxPendingUnlocks = 100

const anyQuote: GetOrLockOptions = { expiresAfterMs: 0, minLeftMs: -1e15, token: '', lockMs: 0 }

export function createValkeyQuoteStore(options: ValkeyQuoteStoreOptions): SharedQuoteStore {
  const { sharedStore, clock } = options
  const oneList = createOneList()
  const channel = `${sharedStore.keyPrefix}evicted`
  const storeKeyOf = (key: string) => `${sharedStore.keyPrefix}quote:${key}`
  /** The keys of locks whose release failed, by token. */
  const pendingUnlocks = new Map<string, string>()

  function runGetOrLock(key: string, options: GetOrLockOptions): Promise<QuoteOrLockReply | undefined> {
    const { expiresAfterMs, minLeftMs, excludeId, token, lockMs, span } = options
    const excludedLine = excludeId === undefined ? '' : idLine(excludeId)
    const parameters = [expiresAfterMs, minLeftMs, excludedLine, token, lockMs]
    const commands = (client: ValkeyClient) => getOrLockScript(client, storeKeyOf(key), parameters)
    return sharedStore.run('quote-get', commands, span)
  }

  async function put(key: string, quote: StoredQuote, lock?: TakenLock): Promise<boolean | undefined> {
    const storeAheadMs = lock?.storeAheadMs ?? (await readStoreAhead(key))
    if (storeAheadMs === undefined) return undefined
    const now = lookAt(clock)
    const storeNowMs = now.nowMs + storeAheadMs
    const serveMs = serveLeftMs(quote.end, now)
    const deadlineMs = Math.floor(storeNowMs + Math.max(0, serveMs))
    const parameters = [
      idLine(quote.id),
      encodeQuote(quote),
      quote.expiresAtMs,
      deadlineMs,
      graceMs,
      lock?.token ?? '',
      // The store's clock is cut to milliseconds, so one more on either side.
      Math.floor(storeNowMs + serveMs) - 1,
      Math.floor(serveMs) - 1,
      Math.ceil(orderLeftMs(quote.end, now)) + 1,
    ]
    const commands = (client: ValkeyClient) => setScript(client, storeKeyOf(key), parameters)
    const kept = await sharedStore.run('quote-set', commands, lock?.span)
    return kept === undefined ? undefined : kept === 1
  }

  async function readStoreAhead(key: string): Promise<number | undefined> {
    const answer = await runGetOrLock(key, anyQuote)
    return answer && answer[0] - clock.nowMs()
  }

  async function evict(
    key: string,
    quoteId: string,
    expiresAtMs?: number,
    span?: Span,
  ): Promise<boolean | undefined> {
    const message = JSON.stringify([key, quoteId, expiresAtMs])
    const parameters = [idLine(quoteId), refusedForMs, channel, message, expiresAtMs ?? '']
    const commands = (client: ValkeyClient) => evictScript(client, storeKeyOf(key), parameters)
    const held = await sharedStore.run('quote-forget', commands, span)
    return held === undefined ? undefined : held === 1
  }

  async function unlock(key: string, token: string, span?: Span): Promise<void> {
    const commands = (client: ValkeyClient) => unlockScript(client, storeKeyOf(key), [token])
    const answer = await sharedStore.run('unlock', commands, span)
    if (answer === undefined && pendingUnlocks.size < maxPendingUnlocks) pendingUnlocks.set(token, key)
  }

  async function getOrLock(key: string, options: GetOrLockOptions): Promise<QuoteOrLock | undefined> {
    // Looked at before the answer too: an earlier time gives the quote less life in the cache.
    const before = lookAt(clock)
    const answer = await runGetOrLock(key, options)
    if (answer === undefined) return undefined
    const [storeNowMs, quoteOrLock, leftMs, fromLeftMs, untilLeftMs] = answer
    const now = lookAt(clock)
    const storeAheadMs = storeNowMs - now.nowMs
    if (leftMs === undefined) return { lockHolder: quoteOrLock.toString('latin1'), storeAheadMs }
    const quote = decodeQuote(quoteOrLock)
    if (quote === undefined || untilLeftMs === undefined || !isWhole(quote)) return undefined
    const wallAheadMs = now.nowMs - now.steadyMs
    const end: End = {
      servedUntilMs: Math.floor(
        Math.min(before.nowMs, before.steadyMs + wallAheadMs) + Math.min(leftMs, fromLeftMs ?? leftMs),
      ),
      refusedFromMs: Math.ceil(now.nowMs + untilLeftMs),
      wallAheadMs,
    }
    // Another version of quotegate may store headers that this one must not repeat.
    return { quote: { ...quote, headers: oneList(repeatableHeaders(quote.headers)), end }, storeAheadMs }
  }

  // A store that was frozen first runs the commands it received before. It may grant a lock to a call that has long gone
  // on without it, and other replicas would wait for a quote that no call will write.
  sharedStore.onUp(() => {
    const pending = [...pendingUnlocks]
    pendingUnlocks.clear()
    for (const [token, key] of pending) void unlock(key, token)
  })

  return {
    async get(key) {
      const { quote } = (await getOrLock(key, anyQuote)) ?? {}
      return quote
    },
    async set(key, quote) {
      await put(key, quote)
    },
    async forget(key, quoteId) {
      return (await evict(key, quoteId)) ?? false
    },
    getOrLock,
    put,
    unlock,
    evict,
    subscribe({ onEvicted, onGap, onUp }) {
      sharedStore.onUp(onUp)
      sharedStore.subscribe(channel, {
        onMessage(message) {
          const evicted = readMessage(message)
          if (evicted === undefined) onGap()
          else onEvicted(...evicted)
        },
        onGap,
      })
    },
  }
}

/** Other programs can write to the store, and a damaged quote would be handed out until it expires. */
function isWhole({ id, body, headers, expiresAtMs }: EncodedQuote): boolean {
  const { quote } = readQuote(Buffer.from(body, 'latin1'))
  if (quote?.id !== id || quote.expiryMs !== expiresAtMs) return false
  return headLines(headers) !== undefined
}

/** Undefined: another version of quotegate sent a message that this one cannot read. */
function readMessage(message: string): [key: string, quoteId: string, usedUntilMs?: number] | undefined {
  try {
    const [key, quoteId, usedUntilMs] = JSON.parse(message)
    if (typeof key !== 'string' || typeof quoteId !== 'string') return undefined
    return typeof usedUntilMs === 'number' ? [key, quoteId, usedUntilMs] : [key, quoteId]
  } catch {
    return undefined
  }
}
