import { setTimeout } from 'node:timers/promises'
import { briefName } from '../client/application.ts'
import { createPartition } from '../client/partition.ts'
import type { Clock } from '../clock.ts'
import type { Config } from '../config/config.ts'
import type { Metrics } from '../metrics/metrics.ts'
import { createQuoteLedger, type QuoteLedger, type Verdict } from '../orders/ledger.ts'
import type { OrderTerms } from '../orders/order-terms.ts'
import { createQuoteNotes } from '../orders/quote-recorder.ts'
import type { Logger } from '../process/logger.ts'
import {
  createMemoryQuoteStore,
  type MemoryQuoteStore,
  type QuoteListing,
} from '../quotes/memory-quote-store.ts'
import { createProviderClock, type ProviderClock } from '../quotes/provider-clock.ts'
import { createQuoteReader } from '../quotes/quote-answer.ts'
import { createQuoteCache, type Share } from '../quotes/quote-cache.ts'
import { createQuoteKey, type QuoteRequest } from '../quotes/quote-key.ts'
import { createEvictions, type Evictions } from '../replicas/evictions.ts'
import { createLoneLedger, createSharedLedger } from '../replicas/shared-ledger.ts'
import { createSharedQuotes } from '../replicas/shared-quotes.ts'
import type { SharedStore } from '../replicas/store.ts'
import { createValkeyQuoteStore } from '../replicas/valkey/quote-store.ts'
import type { Exchange, Exchanges } from '../routes/exchange.ts'
import { createOrderRoute, type OrderRoute } from '../routes/orders.ts'
import type { PassThroughRoute } from '../routes/passthrough.ts'
import { createQuoteCaller } from '../routes/quote-call.ts'
import { createQuoteHeaders } from '../routes/quote-request.ts'
import { createQuoteRoute, type QuoteRoute } from '../routes/quotes.ts'
import type { RateLimit } from '../routes/rate-limit.ts'
import type { Upstream } from '../upstream/upstream.ts'

export interface SwapSideParts {
  config: Config
  clock: Clock
  log: Logger
  metrics: Metrics
  upstream: Upstream
  passThrough: PassThroughRoute
  swapHeaders(exchange: Exchange): string[]
  sharedStore: SharedStore | undefined
  rateLimit: RateLimit | undefined
  fail: Exchanges['fail']
  onOrderRefused(refused: RefusedFloatOrder): void
}

export interface RefusedFloatOrder {
  order: OrderTerms
  exchange: Exchange
  verdict: Verdict
  application: string
}

export interface SwapSide {
  quotes: QuoteRoute
  orders: OrderRoute
  /** For whoever looks in from the operations side. */
  inside: {
    memory: MemoryQuoteStore & QuoteListing
    evictions: Evictions
    ledger: QuoteLedger
    providerClock: ProviderClock
    /** The application as the ledger has it. */
    applicationNamed(name: string): string
  }
}

/** The quote and order routes with what they share: the cache, the ledger and the provider's clock. */
export function createSwapSide(parts: SwapSideParts): SwapSide {
  const { config, clock, log, metrics, upstream, sharedStore, rateLimit, fail } = parts
  const providerClock = createProviderClock({ clock, log })
  const memory = createMemoryQuoteStore({
    entriesMost: config.quotes.cacheEntries,
    bytesMost: config.quotes.cacheBytes,
    onEvicted: () => metrics.cacheEvictions.capacity.inc(),
    onStored(quote, move) {
      metrics.quoteStored(Math.max(0, quote.expiresAtMs - providerClock.latestMs()))
      if (move !== undefined && Number.isFinite(move.share)) metrics.quoteDrifted(move.pair, move.share)
    },
  })
  const ledger = createQuoteLedger(config.ledger)
  const ledgerParts = { ...config.ledger, ledger, clock, providerClock }
  const sharedLedger = sharedStore
    ? createSharedLedger({ ...ledgerParts, sharedStore })
    : createLoneLedger(ledgerParts)
  const keyOf = createQuoteKey({ salt: sharedStore?.salt })
  const { share, evictions } = shareQuotes(parts, { memory, ledger, providerClock })
  const quoteHeaders = createQuoteHeaders(config.quotes.keyHeaders, config.swap)
  metrics.observe({
    cacheEntries: () => memory.entries,
    cacheBytes: () => memory.bytes,
    ledgerEntries: () => ledger.size,
    clockOffsetMs: () => providerClock.offset().estimateMs,
  })

  const notes = createQuoteNotes({ clock, providerClock, ledger, sharedLedger, keyOf, applicationOf })
  const readAnswer = createQuoteReader({
    clock,
    providerClock,
    maxBytes: config.quotes.maxBytes,
    obeyCacheControl: config.quotes.obeyCacheControl,
    onQuote: notes.noteQuote,
    onUnread: notes.noteUnread,
    onIgnoredCacheControl: once((directive: string) =>
      log.info(
        { directive },
        'the provider marks its quotes with Cache-Control; their own expiry decides (QUOTE_OBEY_CACHE_CONTROL)',
      ),
    ),
  })
  const cache = createQuoteCache({
    store: memory,
    providerClock,
    minValidityMs: config.quotes.minValidityMs,
    refreshAheadMs: config.quotes.refreshAheadMs,
    onLookup: (result) => metrics.cacheLookups[result].inc(),
    onNotKept: metrics.quotesNotKept,
    onRefresh: (outcome) => metrics.refreshes[outcome].inc(),
    isUsed: evictions.isUsed,
    share,
  })
  const quotes = createQuoteRoute({
    cache,
    keyOf,
    partitionOf: createPartition(config.quotes.partition),
    quoteHeaders,
    providerClock,
    rateLimit,
    fail,
    onServed: metrics.quoteServed,
    onFound: share && notes.noteFound,
    callUpstream: createQuoteCaller({
      upstream,
      clock,
      totalTimeoutMs: config.upstream.totalTimeoutMs,
      providerClock,
      quoteHeaders,
      readAnswer,
      onCalled: metrics.quoteCalled,
    }),
  })
  const orders = createOrderRoute({
    ...config.orders,
    upstream,
    rateLimit,
    ledger,
    recall: sharedLedger.recall,
    clock,
    providerClock,
    totalTimeoutMs: config.upstream.totalTimeoutMs,
    bodyIdleTimeoutMs: config.requests.bodyIdleTimeoutMs,
    applicationOf: (exchange) => briefName(quoteHeaders.application(exchange) ?? ''),
    swapHeaders: parts.swapHeaders,
    passThrough: parts.passThrough,
    onUsed: (quote) => {
      if (!config.quotes.evictOnOrder) return
      metrics.cacheEvictions.order.inc(evictions.use(ledger.cacheKeysOf(quote), quote))
    },
    onDecision: metrics.countFloatOrder,
    onRefused(order, exchange, verdict) {
      parts.onOrderRefused({
        order,
        exchange,
        verdict,
        application: quoteHeaders.application(exchange) ?? '',
      })
    },
  })
  const applicationNamed = (name: string) => briefName(name === '' ? (config.swap.appName ?? '') : name)
  return { quotes, orders, inside: { memory, evictions, ledger, providerClock, applicationNamed } }
}

/** How quotes are shared with the replicas that use the same store, if there is one. */
function shareQuotes(
  { config, clock, metrics, sharedStore }: SwapSideParts,
  {
    memory,
    ledger,
    providerClock,
  }: { memory: MemoryQuoteStore & QuoteListing; ledger: QuoteLedger; providerClock: ProviderClock },
): { evictions: Evictions; share: Share | undefined } {
  const store = sharedStore && createValkeyQuoteStore({ sharedStore, clock, providerClock })
  const evictions = createEvictions({
    memory,
    store,
    providerClock,
    placesOf(quoteId) {
      const quote = ledger.findById(quoteId)
      return quote === undefined ? [] : ledger.cacheKeysOf(quote)
    },
    onDropped: (reason, count) => metrics.cacheEvictions[reason].inc(count),
  })
  if (store === undefined || config.store === undefined) return { evictions, share: undefined }
  const share = createSharedQuotes({
    store,
    evictions,
    providerClock,
    minValidityMs: config.quotes.minValidityMs,
    // A lock that outlives the call that it stands for holds up everybody for nothing.
    lockWaitMs: Math.min(config.store.lockWaitMs, config.upstream.totalTimeoutMs),
    pause: setTimeout,
    onShared: (sharing) => metrics.quoteSharing[sharing].inc(),
  })
  return { evictions, share }
}

function applicationOf({ keyedHeaders }: QuoteRequest): string {
  return briefName(keyedHeaders.find(([name]) => name === 'app-name')?.[1] ?? '')
}

function once<Argument>(action: (argument: Argument) => void): (argument: Argument) => void {
  let done = false
  return (argument) => {
    if (done) return
    done = true
    action(argument)
  }
}
