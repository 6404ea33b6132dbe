import type { ProviderClock } from '../quotes/provider-clock.ts'
import { isExpired } from '../quotes/quote.ts'
import type { StoredQuote } from '../quotes/quote-store.ts'
import type { SharedQuoteStore } from './valkey/quote-store.ts'

type UsedQuote = Pick<StoredQuote, 'id' | 'expiresAtMs'>

/** Quotes that are not to be handed out again, by no replica. */
export interface Evictions {
  /** Drops a quote here, in the shared store and at the other replicas. */
  evict(key: string, quote: UsedQuote): void
  /** An order used it: drops it wherever it lies, and keeps it out while it lives; says how many places here had it. */
  use(keys: Iterable<string>, quote: UsedQuote): void
  /**
   * Whether an order that was seen here has used it: what is under way may bring it again. One of its id that expires
   * later is another quote.
   */
  isUsed(quote: UsedQuote): boolean
  /** Evicts those that are here and match. */
  drop(matches: (quote: StoredQuote) => boolean): number
  /** Whether an eviction of this key, or one that was missed, overtook what is being asked of the shared store. */
  watch(key: string): { readonly overtaken: boolean; end(): void }
  /** False: the shared store still has not heard of an eviction of this key. */
  settle(key: string): Promise<boolean>
  /** The shared store knows this quote as evicted: it is dropped here. */
  refused(key: string, quoteId: string): void
}

/** The quotes in this process, as far as evictions need them. */
export interface EvictableStore {
  /** Whether the quote of that id was under this key. */
  forget(key: string, quoteId: string): boolean
  /** How many quotes there were. */
  dropAll(): number
  entriesByKey(): Iterable<readonly [key: string, kept: { readonly quote: StoredQuote }]>
}

/** Receives what is to be counted of evictions. */
export interface EvictionObserver {
  /**
   * order: an order used the quote that was in these places. elsewhere: another replica evicted these quotes. gap:
   * evictions may have been missed.
   */
  dropped(reason: 'order' | 'elsewhere' | 'gap', quotes: number): void
}

export interface EvictionsOptions {
  memory: EvictableStore
  /** Undefined: this replica is alone. */
  store: Pick<SharedQuoteStore, 'evict' | 'listen'> | undefined
  providerClock: Pick<ProviderClock, 'latestMs'>
  /** Where in the cache a quote of this id may lie here, whomever the provider gave it to. */
  placesOf(quoteId: string): Iterable<string>
  observer: EvictionObserver
}

/** What an outage may leave to be said. A key had one quote in the store when it went down. */
const owedKeysMost = 10_000
const owedIdsMost = 4

/** Of what a person drops at once, or a quote that many were given. More would miss the deadline of the store. */
const toldAtOnce = 50

const usedMost = 10_000

export function createEvictions(options: EvictionsOptions): Evictions {
  const { memory, store, providerClock, placesOf, observer } = options
  const watches = new Set<{ key: string; overtaken: boolean }>()
  /** What the store has not heard of: ids by key, with their expiries where these are known. */
  const owed = new Map<string, Map<string, number | undefined>>()
  let paying = false
  /** When each expires, the oldest use first. */
  const used = new Map<string, number>()

  function evict(key: string, { id, expiresAtMs }: UsedQuote): void {
    // One that was found in the store is taken to expire a little sooner than it says.
    evictAll([key], { id, expiresAtMs: Math.max(expiresAtMs, used.get(id) ?? 0) })
  }

  function use(keys: Iterable<string>, { id, expiresAtMs }: UsedQuote): void {
    markUsed(id, expiresAtMs)
    observer.dropped('order', evictAll([...keys], { id, expiresAtMs }))
  }

  function markUsed(id: string, expiresAtMs: number): void {
    // Of other terms it may have been ordered before, and expire later.
    const untilMs = Math.max(expiresAtMs, used.get(id) ?? 0)
    used.delete(id)
    used.set(id, untilMs)
    const [oldest = id] = used.keys()
    if (used.size > usedMost) used.delete(oldest)
  }

  function isUsed({ id, expiresAtMs }: UsedQuote): boolean {
    return expiresAtMs <= (used.get(id) ?? 0)
  }

  function evictAll(places: readonly string[], { id, expiresAtMs }: UsedQuote): number {
    const wereHere = places.filter((key) => evictHere(key, id)).length
    void tellAll(places.map((key) => [key, id, expiresAtMs]))
    return wereHere
  }

  function evictHere(key: string, quoteId: string): boolean {
    for (const watch of watches) if (watch.key === key) watch.overtaken = true
    return memory.forget(key, quoteId)
  }

  async function tell(key: string, quoteId: string, expiresAtMs?: number): Promise<boolean> {
    if (store === undefined) return true
    if ((await store.evict(key, quoteId, expiresAtMs)) === undefined) {
      owe(key, quoteId, expiresAtMs)
      return false
    }
    const ids = owed.get(key)
    if (ids?.get(quoteId) === expiresAtMs && ids?.delete(quoteId) && ids.size === 0) owed.delete(key)
    return true
  }

  function owe(key: string, quoteId: string, expiresAtMs: number | undefined): void {
    const ids = owed.get(key) ?? new Map<string, number | undefined>()
    if (ids.size < owedIdsMost || ids.has(quoteId)) owed.set(key, ids.set(quoteId, expiresAtMs))
    for (const oldest of owed.keys()) {
      if (owed.size <= owedKeysMost) break
      owed.delete(oldest)
    }
  }

  async function settle(key: string): Promise<boolean> {
    for (const [quoteId, expiresAtMs] of owed.get(key) ?? [])
      if (!(await tell(key, quoteId, expiresAtMs))) return false
    if (owed.size > 0) void payAll()
    return true
  }

  async function payAll(): Promise<void> {
    if (paying) return
    paying = true
    for (const [key, ids] of owed) {
      let isUp = true
      for (const [quoteId, expiresAtMs] of ids) isUp &&= await tell(key, quoteId, expiresAtMs)
      if (!isUp) break
    }
    paying = false
  }

  function drop(matches: (quote: StoredQuote) => boolean): number {
    const found = [...memory.entriesByKey()].filter(([, { quote }]) => matches(quote))
    for (const [key, { quote }] of found) evictHere(key, quote.id)
    const latestMs = providerClock.latestMs()
    const live = found.filter(([, { quote }]) => !isExpired(quote.expiresAtMs, latestMs))
    void tellAll(live.map(([key, { quote }]) => [key, quote.id]))
    return found.length
  }

  async function tellAll(
    dropped: (readonly [key: string, quoteId: string, expiresAtMs?: number])[],
  ): Promise<void> {
    for (let next = 0; next < dropped.length; next += toldAtOnce) {
      await Promise.all(dropped.slice(next, next + toldAtOnce).map((told) => tell(...told)))
    }
  }

  function dropForAnother(key: string, quoteId: string): void {
    if (evictHere(key, quoteId)) observer.dropped('elsewhere', 1)
  }

  /** The provider may have given it to a client of this replica too, of which the one that had the order knows nothing. */
  function useForAnother(key: string, quoteId: string, expiresAtMs: number): void {
    // Told once for each of its places there; the first time is enough for all of those here.
    const isNews = !isUsed({ id: quoteId, expiresAtMs })
    markUsed(quoteId, expiresAtMs)
    dropForAnother(key, quoteId)
    if (!isNews) return
    // Told on: a replica that starts now has not heard of the order, and would find it in the store.
    const others = [...placesOf(quoteId)].filter((place) => place !== key)
    observer.dropped('elsewhere', evictAll(others, { id: quoteId, expiresAtMs }))
  }

  store?.listen({
    onEvicted(key, quoteId, usedUntilMs) {
      if (usedUntilMs === undefined) dropForAnother(key, quoteId)
      else useForAnother(key, quoteId, usedUntilMs)
    },
    onGap() {
      for (const watch of watches) watch.overtaken = true
      // What is still good comes back from the store at its next use.
      observer.dropped('gap', memory.dropAll())
    },
    onUp: () => void payAll(),
  })

  return {
    evict,
    use,
    isUsed,
    drop,
    watch(key) {
      const watch = { key, overtaken: false }
      watches.add(watch)
      return {
        get overtaken() {
          return watch.overtaken
        },
        end: () => watches.delete(watch),
      }
    },
    settle,
    refused: dropForAnother,
  }
}
