import { LRUCache } from 'lru-cache'
import type { Now } from '../clock.ts'
import type { Events } from '../events.ts'
import { serveLeftMs } from './ends.ts'
import type { Flight } from './flight.ts'
import { minLeftMs, type Quote, quoteOf } from './quote.ts'

interface CacheEntry {
  quote: Quote
  /** How often quotes of this key were served from the cache. */
  hits: number
  /** The price change from the previous quote of this key, as a share. */
  readonly drift: number | undefined
  /** With less time left than this the quote is fetched again. 0 once the provider has repeated it. */
  hitNeedsMs: number
  /**
   * With less time left than this the quote is replaced in the background. 0 once that was tried: a failing upstream is
   * not called at every hit.
   */
  refreshWithinMs: number
}

interface QuoteCacheParts {
  config: {
    quotes: {
      cacheEntries: number
      cacheBytes: number
      minValidityMs: number | undefined
      refreshAheadMs: number
    }
  }
  events: Events
}

/** Sorting 100,000 quotes every second would be slow. Quotes with many hits are among the recently used. */
const maxExamined = 5_000
/** Memory of an entry besides its text: its objects, its slots in the LRU and its slot in the map. */
const entryOverheadBytes = 250

/**
 * The quotes in memory, and the calls under way. The LRU only bounds memory: its ttl is not used, because its clock is
 * monotonic.
 */
export class QuoteCache {
  /** The calls under way, most of them under the key of their quote. */
  readonly flights = new Map<string, Flight>()
  readonly #events: Events
  readonly #minValidityMs: number | undefined
  readonly #refreshAheadMs: number
  readonly #quotes: LRUCache<string, CacheEntry>

  constructor({ config, events }: QuoteCacheParts) {
    const { cacheEntries, cacheBytes, minValidityMs, refreshAheadMs } = config.quotes
    this.#events = events
    this.#minValidityMs = minValidityMs
    this.#refreshAheadMs = refreshAheadMs
    this.#quotes = new LRUCache<string, CacheEntry>({
      max: cacheEntries,
      maxSize: cacheBytes,
      sizeCalculation: ({ quote }, key) => bytesOf(quote, key),
      disposeAfter: (_kept, _key, reason) => {
        if (reason === 'evict') events.quotesDropped('capacity', 1)
      },
    })
  }

  hit(key: string | undefined, at: Now): Quote | undefined {
    const kept = key === undefined ? undefined : this.#quotes.get(key)
    if (kept === undefined) return undefined
    const leftMs = serveLeftMs(kept.quote.end, at)
    if (leftMs <= 0 || leftMs < kept.hitNeedsMs) return undefined
    kept.hits += 1
    return kept.quote
  }

  /** The live quote, however close its end is: for when a younger one cannot be fetched. */
  live(key: string | undefined, at: Now): Quote | undefined {
    const quote = key === undefined ? undefined : this.get(key)
    return quote !== undefined && serveLeftMs(quote.end, at) > 0 ? quote : undefined
  }

  /** The quote that was last kept, even if it has expired. */
  get(key: string): Quote | undefined {
    return this.#quotes.get(key)?.quote
  }

  /** Why `hit` gave no quote. */
  missOf(key: string | undefined): 'bypass' | 'miss' | 'expired' {
    if (key === undefined) return 'bypass'
    return this.get(key) === undefined ? 'miss' : 'expired'
  }

  /** False: the new quote does not fit, and the key has none now. */
  keep(key: string, quote: Quote, at: Now, { isRefresh = false } = {}): boolean {
    const before = this.#quotes.peek(key)
    if (before !== undefined && isLiveRepeat(before, quote, at)) {
      const isNear = serveLeftMs(before.quote.end, at) < before.hitNeedsMs
      if (isNear || isRefresh) {
        before.hitNeedsMs = 0
        before.refreshWithinMs = 0
        return true
      }
    }
    const drift = before && priceOf(quote) / priceOf(before.quote) - 1
    const leftMs = Math.max(0, serveLeftMs(quote.end, at))
    // The next refresh is at least half a life away: a quote that lives shorter than the setting must not be refreshed
    // without a pause.
    const needsMs = minLeftMs(quote, this.#minValidityMs)
    const aheadMs = isRefresh
      ? Math.min(Math.floor((leftMs - needsMs) / 2), this.#refreshAheadMs)
      : this.#refreshAheadMs
    const kept = {
      quote,
      hits: before?.hits ?? 0,
      drift,
      hitNeedsMs: needsMs,
      refreshWithinMs: needsMs + aheadMs,
    }
    this.#quotes.set(key, kept)
    if (this.#quotes.peek(key) !== kept) return false
    if (!isRates(quote)) this.#events.quoteKept(leftMs)
    return true
  }

  /** The provider gave the quote again. The earlier end counts, as it does for orders. */
  takeEarlierEnd(key: string, { id, expiresAtMs, end }: Quote, at: Now): void {
    const kept = this.#quotes.peek(key)
    if (kept?.quote.id !== id || kept.quote.expiresAtMs !== expiresAtMs) return
    if (serveLeftMs(end, at) < serveLeftMs(kept.quote.end, at))
      kept.quote = quoteOf(kept.quote, { ...kept.quote, end })
  }

  /** Whether a live quote should be replaced in the background. */
  isRefreshDue(key: string, at: Now): boolean {
    if (this.#refreshAheadMs === 0 || this.flights.has(key)) return false
    const kept = this.#quotes.peek(key)
    return kept !== undefined && serveLeftMs(kept.quote.end, at) < kept.refreshWithinMs
  }

  /** The quote of this key is being replaced, which is tried once. */
  refreshes(key: string): void {
    const kept = this.#quotes.peek(key)
    if (kept !== undefined) kept.refreshWithinMs = 0
  }

  /** Drops the quote of this id from these keys. Returns how many had it. */
  forgetAll(keys: readonly string[], quoteId: string): number {
    // A newer quote may be under the key.
    const had = keys.filter(
      (key) => this.#quotes.peek(key)?.quote.id === quoteId && this.#quotes.delete(key),
    )
    return had.length
  }

  /** The quotes without the rates, the most recently used first. */
  list(): (readonly [key: string, kept: Pick<CacheEntry, 'quote'>])[] {
    return [...this.#quotes.entries()].filter(([, { quote }]) => !isRates(quote))
  }

  /** The live quotes with the most hits, for the console. */
  mostHit(maxQuotes: number, now: Now) {
    const live: CacheEntry[] = []
    let examined = 0
    for (const kept of this.#quotes.values()) {
      if (serveLeftMs(kept.quote.end, now) > 0 && !isRates(kept.quote)) live.push(kept)
      examined += 1
      if (examined === maxExamined) break
    }
    live.sort((left, right) => right.hits - left.hits)
    return live.slice(0, maxQuotes).map(({ quote, hits, drift }) => ({
      id: quote.id,
      pair: quote.pairId,
      amount: quote.fromValue,
      toAmount: quote.toValue,
      toAsset: quote.toAsset,
      hits,
      drift: Number.isNaN(drift) ? undefined : drift,
      leftMs: serveLeftMs(quote.end, now),
      lifeMs: Math.max(1, quote.lifeMs),
    }))
  }

  get entries(): number {
    return this.#quotes.size
  }

  get bytes(): number {
    return this.#quotes.calculatedSize
  }
}

/** Rates have no id. */
function isRates({ id }: Quote): boolean {
  return id === ''
}

function isLiveRepeat({ quote }: CacheEntry, { id, expiresAtMs }: Quote, at: Now) {
  return (
    quote.id === id && quote.expiresAtMs === expiresAtMs && serveLeftMs(quote.end, at) > 0
  )
}

function bytesOf(quote: Quote, key: string): number {
  const { id, pairId, fromValue, toValue, toAsset, body, headers } = quote
  let bytes = entryOverheadBytes + key.length
  for (const text of [id, pairId, fromValue, toValue, toAsset, body]) bytes += text.length
  for (const part of headers) bytes += part.length
  return bytes
}

/** What one unit of the source asset gives. A double is exact enough for statistics. */
function priceOf({ fromValue, toValue }: Quote): number {
  return Number(toValue) / Number(fromValue)
}
