import type { Clock } from '../../clock.ts'
import { createOneList } from '../../http/headers.ts'
import { repeatableHeaders } from '../../http/one-exchange-headers.ts'
import { headLines } from '../../http/whole-response.ts'
import type { ProviderClock } from '../../quotes/provider-clock.ts'
import { readQuote } from '../../quotes/quote.ts'
import type { QuoteStore, StoredQuote } from '../../quotes/quote-store.ts'
import { decodeQuote, encodeQuote, idLine } from '../quote-codec.ts'
import type { SharedStore } from '../store.ts'
import { forgetScript, lookScript, releaseScript, setScript } from './quote-scripts.ts'

/** What would do, and who asks. */
export interface Wanted {
  /** Of the provider's clock: a quote that expires later. */
  expiresAfterMs: number
  leastLeftMs: number
  /** Not this one, which the asker has. */
  exceptId?: string | undefined
  /** Whose the lock will be if there is no such quote and nobody has it; 0 ms: it is not asked for. */
  token: string
  lockMs: number
}

export interface Looked {
  /** Judged by the store's clock too: it expires no later than the replica that stored it thought it would. */
  found?: StoredQuote
  /** Who has the lock now; the asker's own token if he got it. */
  holder?: string
  /** The store's clock less ours, or a little less than that. */
  storeAheadMs: number
}

/** Where the quotes of all replicas are. Each answer is `undefined` when the store failed. */
export interface SharedQuoteStore extends QuoteStore {
  look(key: string, wanted: Wanted): Promise<Looked | undefined>
  /** Writes the quote and gives the lock back, in one step; false: this quote was evicted already. */
  put(
    key: string,
    quote: StoredQuote,
    asked?: { token: string; storeAheadMs: number | undefined },
  ): Promise<boolean | undefined>
  /** At once, or as soon as the store is back. */
  release(key: string, token: string): Promise<void>
  /**
   * As `forget`, and a slower replica does not bring the quote back; all replicas are told. One of its id that expires
   * later than `expiresAtMs` is another quote.
   */
  evict(key: string, quoteId: string, expiresAtMs?: number): Promise<boolean | undefined>
  listen(listener: StoreListener): void
}

export interface StoreListener {
  /** `usedUntilMs`: it was used, or a person dropped it, and this is when it expires; 1.0.0 does not say. */
  onEvicted(key: string, quoteId: string, usedUntilMs?: number): void
  /** Evictions may have been missed. */
  onGap(): void
  /** The store answers again. */
  onUp(): void
}

export interface ValkeyQuoteStoreOptions {
  sharedStore: Pick<SharedStore, 'keyPrefix' | 'run' | 'subscribe' | 'onUp'>
  clock: Clock
  providerClock: Pick<ProviderClock, 'latestMs'>
}

/** How long an entry is kept past its expiry: enough for clocks that differ a little, no more. */
const graceMs = 1_000

/** Longer than any call takes that may still bring the quote. */
const usedForMs = 60_000

/** Of one outage the first: what is asked for later does not reach the store any more. */
const locksOwedMost = 100

const anyQuote: Wanted = { expiresAfterMs: 0, leastLeftMs: -1e15, token: '', lockMs: 0 }

export function createValkeyQuoteStore(options: ValkeyQuoteStoreOptions): SharedQuoteStore {
  const { sharedStore, clock, providerClock } = options
  const oneList = createOneList()
  const channel = `${sharedStore.keyPrefix}evicted`
  const nameOf = (key: string) => `${sharedStore.keyPrefix}quote:${key}`
  /** Keys by the token of a lock that could not be given back. */
  const locksOwed = new Map<string, string>()

  function look(key: string, wanted: Wanted): Promise<[now: number, Buffer, leftMs?: number] | undefined> {
    const { expiresAfterMs, leastLeftMs, exceptId, token, lockMs } = wanted
    const except = exceptId === undefined ? '' : idLine(exceptId)
    const parameters = [expiresAfterMs, leastLeftMs, except, token, lockMs]
    return sharedStore.run('quote-get', (client) => lookScript(client, nameOf(key), parameters))
  }

  async function put(
    key: string,
    quote: StoredQuote,
    asked?: { token: string; storeAheadMs: number | undefined },
  ): Promise<boolean | undefined> {
    const storeAheadMs = asked?.storeAheadMs ?? (await readStoreAhead(key))
    if (storeAheadMs === undefined) return undefined
    const providerAheadMs = providerClock.latestMs() - clock.nowMs()
    const deadlineMs = Math.floor(quote.expiresAtMs - providerAheadMs + storeAheadMs)
    const parameters = [
      idLine(quote.id),
      encodeQuote(quote),
      quote.expiresAtMs,
      deadlineMs,
      graceMs,
      asked?.token ?? '',
    ]
    const kept = await sharedStore.run('quote-set', (client) => setScript(client, nameOf(key), parameters))
    return kept === undefined ? undefined : kept === 1
  }

  async function readStoreAhead(key: string): Promise<number | undefined> {
    const answer = await look(key, anyQuote)
    return answer && answer[0] - clock.nowMs()
  }

  async function evict(key: string, quoteId: string, expiresAtMs?: number): Promise<boolean | undefined> {
    const message = JSON.stringify([key, quoteId, expiresAtMs])
    const parameters = [idLine(quoteId), usedForMs, channel, message, expiresAtMs ?? '']
    const held = await sharedStore.run('quote-forget', (client) =>
      forgetScript(client, nameOf(key), parameters),
    )
    return held === undefined ? undefined : held === 1
  }

  async function release(key: string, token: string): Promise<void> {
    const answer = await sharedStore.run('unlock', (client) => releaseScript(client, nameOf(key), [token]))
    if (answer === undefined && locksOwed.size < locksOwedMost) locksOwed.set(token, key)
  }

  // A store that was frozen does first what it was asked before: it lends a lock to whoever has long gone on without
  // it, and the other replicas would wait for a quote that nobody fetches.
  sharedStore.onUp(() => {
    const owed = [...locksOwed]
    locksOwed.clear()
    for (const [token, key] of owed) void release(key, token)
  })

  return {
    async get(key) {
      const [, quote, leftMs] = (await look(key, anyQuote)) ?? []
      return quote === undefined || leftMs === undefined ? undefined : decodeQuote(quote)
    },
    async set(key, quote) {
      await put(key, quote)
    },
    async forget(key, quoteId) {
      return (await evict(key, quoteId)) ?? false
    },
    async look(key, wanted) {
      // Before the answer and not after it, since that is on the safe side.
      const latestMs = providerClock.latestMs()
      const answer = await look(key, wanted)
      if (answer === undefined) return undefined
      const [storeNowMs, text, leftMs] = answer
      const storeAheadMs = storeNowMs - clock.nowMs()
      if (leftMs === undefined) return { holder: text.toString('latin1'), storeAheadMs }
      const quote = decodeQuote(text)
      if (quote === undefined || !isWhole(quote)) return undefined
      // Our clock may be wrong, and we may never have seen the provider's: how long a quote lives is what the
      // replica that asked for it knew, and the store's clock tells how much of that is over.
      const expiresAtMs = Math.min(quote.expiresAtMs, Math.floor(latestMs + leftMs))
      // Another version may keep more than this one may repeat.
      const headers = oneList(repeatableHeaders(quote.headers))
      return { found: { ...quote, headers, expiresAtMs }, storeAheadMs }
    },
    put,
    release,
    evict,
    listen({ onEvicted, onGap, onUp }) {
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

/** Others can write to the store, and what is damaged there would be handed out until it expires. */
function isWhole({ id, body, headers, expiresAtMs }: StoredQuote): boolean {
  const { quote } = readQuote(Buffer.from(body, 'latin1'), expiresAtMs)
  if (quote?.id !== id || quote.expiryMs !== expiresAtMs) return false
  return headLines(headers) !== undefined
}

/** Undefined: another version of this program says something that is not understood here. */
function readMessage(message: string): [key: string, quoteId: string, usedUntilMs?: number] | undefined {
  try {
    const [key, quoteId, usedUntilMs] = JSON.parse(message)
    if (typeof key !== 'string' || typeof quoteId !== 'string') return undefined
    return typeof usedUntilMs === 'number' ? [key, quoteId, usedUntilMs] : [key, quoteId]
  } catch {
    return undefined
  }
}
