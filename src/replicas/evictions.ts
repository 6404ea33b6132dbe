import { type Clock, lookAt } from '../clock.ts'
import { serveLeftMs } from '../quotes/ends.ts'
import type { StoredQuote } from '../quotes/quote-store.ts'
import type { Span } from '../tracing/observer.ts'
import { createUsedQuotes, type UsedQuote, type UsedQuotes } from './used-quotes.ts'
import type { SharedQuoteStore } from './valkey/quote-store.ts'

/** Removes quotes that no replica may hand out again. `span`: of the request for which it is done, if that is sampled. */
export interface Evictions {
  /** Drops a quote here, in the shared store and at the other replicas. */
  evict(key: string, quote: UsedQuote, span?: Span): void
  /** Drops a quote that an order used, under all of these keys and at all replicas, and refuses it until it expires. */
  use(keys: Iterable<string>, quote: UsedQuote, span?: Span): void
  /**
   * Whether an order has used this quote, here or at another replica. An in-flight call may still return the quote. The
   * same id with a later expiry is a different quote.
   */
  isUsed(quote: UsedQuote): boolean
  /** Evicts every quote in this process that matches. Returns how many. */
  drop(matches: (quote: StoredQuote) => boolean): number
  /** `evicted`: since this call the key was evicted, or an eviction may have been missed. */
  watch(key: string): { readonly evicted: boolean; end(): void }
  /** Sends this key's pending evictions to the shared store. False: the store failed, so some are still pending. */
  announcePending(key: string, span?: Span): Promise<boolean>
  /** Drops a quote here that another replica evicted: the shared store has refused it. */
  evictedElsewhere(key: string, quoteId: string): void
}

/** What evictions need of the store of quotes in this process. */
export interface EvictableStore {
  /** Removes the quote of this id wherever it is under one of these keys. Returns under how many it was. */
  forgetAll(keys: readonly string[], quoteId: string): number
  /** Removes all quotes. Returns how many there were. */
  dropAll(): number
  entriesByKey(): Iterable<readonly [key: string, kept: { readonly quote: StoredQuote }]>
}

/** Counts the quotes that this process drops because of orders and of the other replicas. */
export interface EvictionObserver {
  /**
   * order: an order used the quote. elsewhere: another replica evicted the quotes. gap: messages about evictions may
   * have been missed.
   */
  dropped(reason: 'order' | 'elsewhere' | 'gap', quotes: number): void
}

export interface EvictionsOptions {
  memory: EvictableStore
  /** Undefined without a shared store. */
  store: Pick<SharedQuoteStore, 'evict' | 'subscribe'> | undefined
  clock: Clock
  /** All cache keys here of a quote id. The provider may give one quote to several clients, each with its own key. */
  cacheKeysOf(quoteId: string): Iterable<string>
  observer: EvictionObserver
  used?: UsedQuotes
}

/** How many evictions are kept while the store is down. A few ids per key do: the store had one quote for each key. */
const maxPendingKeys = 10_000
const maxPendingIdsPerKey = 4

/** Evictions sent to the store at a time, for a quote that many clients were given. More would miss its deadline. */
const announceBatch = 50

export function createEvictions(options: EvictionsOptions): Evictions {
  const { memory, store, clock, cacheKeysOf, observer, used = createUsedQuotes() } = options
  const watches = new Set<{ key: string; evicted: boolean }>()
  /** Evictions that the store has not received: by key, the ids with their expiries, where those are known. */
  const pending = new Map<string, Map<string, number | undefined>>()
  let announcingPending = false

  function evict(key: string, { id, expiresAtMs }: UsedQuote, span?: Span): void {
    // A quote read from the store may have an earlier expiry here than when it was marked as used.
    evictEverywhere([key], { id, expiresAtMs: Math.max(expiresAtMs, used.untilMs(id)) }, span)
  }

  function use(keys: Iterable<string>, { id, expiresAtMs }: UsedQuote, span?: Span): void {
    used.mark(id, expiresAtMs)
    observer.dropped('order', evictEverywhere([...keys], { id, expiresAtMs }, span))
  }

  function evictEverywhere(keys: readonly string[], { id, expiresAtMs }: UsedQuote, span?: Span): number {
    const droppedHere = evictHere(keys, id)
    void announceAll(keys.map((key) => [key, id, expiresAtMs, span]))
    return droppedHere
  }

  function evictHere(keys: readonly string[], quoteId: string): number {
    for (const watch of watches) if (keys.includes(watch.key)) watch.evicted = true
    return memory.forgetAll(keys, quoteId)
  }

  /** Evicts a quote in the shared store, which notifies the other replicas. False: the store failed. */
  async function announce(key: string, quoteId: string, expiresAtMs?: number, span?: Span): Promise<boolean> {
    if (store === undefined) return true
    if ((await store.evict(key, quoteId, expiresAtMs, span)) === undefined) {
      addPending(key, quoteId, expiresAtMs)
      return false
    }
    const ids = pending.get(key)
    if (ids?.get(quoteId) === expiresAtMs && ids?.delete(quoteId) && ids.size === 0) pending.delete(key)
    return true
  }

  function addPending(key: string, quoteId: string, expiresAtMs: number | undefined): void {
    const ids = pending.get(key) ?? new Map<string, number | undefined>()
    if (ids.size < maxPendingIdsPerKey || ids.has(quoteId)) pending.set(key, ids.set(quoteId, expiresAtMs))
    for (const oldest of pending.keys()) {
      if (pending.size <= maxPendingKeys) break
      pending.delete(oldest)
    }
  }

  async function announcePending(key: string, span?: Span): Promise<boolean> {
    for (const [quoteId, expiresAtMs] of pending.get(key) ?? [])
      if (!(await announce(key, quoteId, expiresAtMs, span))) return false
    if (pending.size > 0) void announceAllPending()
    return true
  }

  async function announceAllPending(): Promise<void> {
    if (announcingPending) return
    announcingPending = true
    for (const [key, ids] of pending) {
      let isUp = true
      for (const [quoteId, expiresAtMs] of ids) isUp &&= await announce(key, quoteId, expiresAtMs)
      if (!isUp) break
    }
    announcingPending = false
  }

  function drop(matches: (quote: StoredQuote) => boolean): number {
    const found = [...memory.entriesByKey()].filter(([, { quote }]) => matches(quote))
    for (const [key, { quote }] of found) evictHere([key], quote.id)
    const now = lookAt(clock)
    const live = found.filter(([, { quote }]) => serveLeftMs(quote.end, now) > 0)
    void announceAll(live.map(([key, { quote }]) => [key, quote.id]))
    return found.length
  }

  async function announceAll(
    evicted: (readonly [key: string, quoteId: string, expiresAtMs?: number, span?: Span | undefined])[],
  ): Promise<void> {
    for (let next = 0; next < evicted.length; next += announceBatch) {
      await Promise.all(evicted.slice(next, next + announceBatch).map((eviction) => announce(...eviction)))
    }
  }

  function evictedElsewhere(key: string, quoteId: string): void {
    if (evictHere([key], quoteId) > 0) observer.dropped('elsewhere', 1)
  }

  /**
   * Another replica's order used this quote. The provider may have given the same quote to clients of this replica,
   * under cache keys that the other replica does not have.
   */
  function usedElsewhere(key: string, quoteId: string, expiresAtMs: number): void {
    // One message comes for each cache key at the other replica. The first one is enough for all keys here.
    const isFirst = !used.isUsed({ id: quoteId, expiresAtMs })
    used.mark(quoteId, expiresAtMs)
    evictedElsewhere(key, quoteId)
    if (!isFirst) return
    // In the store too: a replica that starts now has missed the message, and would find the quote under these keys.
    const others = [...cacheKeysOf(quoteId)].filter((other) => other !== key)
    observer.dropped('elsewhere', evictEverywhere(others, { id: quoteId, expiresAtMs }))
  }

  store?.subscribe({
    onEvicted(key, quoteId, usedUntilMs) {
      if (usedUntilMs === undefined) evictedElsewhere(key, quoteId)
      else usedElsewhere(key, quoteId, usedUntilMs)
    },
    onGap() {
      for (const watch of watches) watch.evicted = true
      // Quotes that are still good are read from the store again at their next use.
      observer.dropped('gap', memory.dropAll())
    },
    onUp: () => void announceAllPending(),
  })

  return {
    evict,
    use,
    isUsed: used.isUsed,
    drop,
    watch(key) {
      const watch = { key, evicted: false }
      watches.add(watch)
      return {
        get evicted() {
          return watch.evicted
        },
        end: () => watches.delete(watch),
      }
    },
    announcePending,
    evictedElsewhere,
  }
}
