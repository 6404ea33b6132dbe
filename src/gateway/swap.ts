import { setTimeout } from 'node:timers/promises'
import { type ApplicationOf, applicationAmong } from '../client/application.ts'
import { createPartition, createPartitionMark } from '../client/partition.ts'
import type { Clock } from '../clock.ts'
import type { Config } from '../config/config.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { Activity } from '../operations/activity.ts'
import { createLoneLedger, createQuoteLedger, type QuoteLedger } from '../orders/ledger.ts'
import { createLedgerReach } from '../orders/ledger-reach.ts'
import { createQuoteRecorder } from '../orders/quote-recorder.ts'
import type { Orderer } from '../orders/terms-index.ts'
import { briefText } from '../process/brief-text.ts'
import type { Logger } from '../process/logger.ts'
import { type CoolDowns, createCoolDowns } from '../quotes/cool-downs.ts'
import {
  createMemoryQuoteStore,
  type MemoryQuoteStore,
  type QuoteListing,
} from '../quotes/memory-quote-store.ts'
import { createProviderClock, type ProviderClock } from '../quotes/provider-clock.ts'
import { createQuoteReader } from '../quotes/quote-answer.ts'
import { createQuoteCache, type Share } from '../quotes/quote-cache.ts'
import { createQuoteKey } from '../quotes/quote-key.ts'
import { createEvictions, type Evictions } from '../replicas/evictions.ts'
import { createSharedLedger } from '../replicas/shared-ledger.ts'
import { createSharedQuotes } from '../replicas/shared-quotes.ts'
import type { SharedStore } from '../replicas/store.ts'
import { createValkeyQuoteStore } from '../replicas/valkey/quote-store.ts'
import type { Exchange, Exchanges } from '../routes/exchange.ts'
import { createOrderRoute, type OrderRoute } from '../routes/orders.ts'
import type { PassThroughRoute } from '../routes/passthrough.ts'
import { createQuoteSources } from '../routes/quote-call.ts'
import { createQuoteRequestReader } from '../routes/quote-request.ts'
import { createQuoteRoute, type QuoteRoute } from '../routes/quotes.ts'
import type { RateLimit } from '../routes/rate-limit.ts'
import type { Upstream } from '../upstream/types.ts'
import { showRefusal } from './console-feed.ts'
import { createCoolDownNotes } from './cool-down-notes.ts'

export interface SwapParts {
  config: Config
  clock: Clock
  log: Logger
  metrics: Metrics
  activity: Activity
  upstream: Upstream
  exchanges: Exchanges
  passThrough: PassThroughRoute
  applicationOf: ApplicationOf
  /** What SWAP_… supplies, by header names in lower case. */
  supplied: ReadonlyMap<string, string>
  swapHeaders(exchange: Exchange): string[]
  sharedStore: SharedStore | undefined
  rateLimit: RateLimit | undefined
}

export interface Swap {
  quotes: QuoteRoute
  orders: OrderRoute
  /** For the operations side. */
  inside: {
    memory: MemoryQuoteStore & QuoteListing
    evictions: Evictions
    ledger: QuoteLedger
    providerClock: ProviderClock
    coolDowns: CoolDowns
    /** The orderer whose App-Name a person types in. Where clients have partitions, it has none. */
    ordererTyped(appName: string): Orderer
  }
}

/** The quote and order routes with what they share: the cache, the ledger and the provider's clock. */
export function createSwap(parts: SwapParts): Swap {
  const { config, clock, log, metrics, upstream, sharedStore, rateLimit, exchanges, supplied } = parts
  const { keyHeaders, partition } = config.quotes
  const { totalTimeoutMs } = config.upstream
  const partitionOf = createPartition(partition)
  const providerClock = createProviderClock({ clock, log })
  const memory = createMemoryQuoteStore({
    maxEntries: config.quotes.cacheEntries,
    maxBytes: config.quotes.cacheBytes,
    observer: metrics.memoryStore(providerClock),
  })
  const reach = createLedgerReach({ ...config.ledger, clock, log })
  const ledger = createQuoteLedger({
    ...config.ledger,
    clock,
    leftNow: providerClock.orderLeftNow,
    dropped: reach.dropped,
  })
  const sharedLedger = sharedStore
    ? createSharedLedger({ ...config.ledger, ledger, clock, providerClock, sharedStore })
    : createLoneLedger(ledger)
  const keyOf = createQuoteKey({ salt: sharedStore?.salt })
  const markOf = createPartitionMark(sharedStore?.salt)
  const { share, evictions } = shareQuotes(parts, { memory, ledger, providerClock })
  metrics.observe({
    cacheEntries: () => memory.entries,
    cacheBytes: () => memory.bytes,
    ledgerEntries: () => ledger.size,
    ledgerReachMs: () => reach.reachMs(ledger.droppedForMs),
    clockOffsetMs: () => providerClock.offset().estimateMs,
    isClockUnknown: () => providerClock.saysNoTime,
  })

  const coolDowns = createCoolDowns({ clock, observer: createCoolDownNotes(log, metrics.coolDowns) })
  metrics.coolDowns.watch(coolDowns)

  const recorder = createQuoteRecorder({
    clock,
    providerClock,
    ledger,
    sharedLedger,
    keyOf,
    markOf,
    applicationAmong,
  })
  const readAnswer = createQuoteReader({
    clock,
    providerClock,
    maxBytes: config.quotes.maxBytes,
    obeyCacheControl: config.quotes.obeyCacheControl,
    recorder,
    cacheControlIgnored: (directive) =>
      log.info(
        { directive },
        'the provider marks its quotes with Cache-Control; their own expiry decides (QUOTE_OBEY_CACHE_CONTROL)',
      ),
  })
  const quotes = createQuoteRoute({
    cache: createQuoteCache({
      store: memory,
      providerClock,
      minValidityMs: config.quotes.minValidityMs,
      refreshAheadMs: config.quotes.refreshAheadMs,
      observer: metrics.quoteCache,
      isUsed: evictions.isUsed,
      share,
    }),
    readRequest: createQuoteRequestReader({
      keyHeaders,
      supplied,
      partitionOf,
      keyOf,
    }),
    sourceFor: createQuoteSources({
      upstream,
      clock,
      totalTimeoutMs,
      providerClock,
      keyHeaders,
      supplied,
      recorder,
      rateLimit,
      coolDowns,
      readAnswer,
      observer: metrics.quotes,
    }),
    providerClock,
    totalTimeoutMs,
    rateLimit,
    chosenBy: [
      ...keyHeaders,
      config.client.ipHeader,
      ...(partition.mode === 'header' ? partition.placeHeaders : []),
    ],
    exchanges,
    observer: metrics.quotes,
  })
  const orders = createOrderRoute({
    ...config.orders,
    upstream,
    rateLimit,
    ledger,
    sharedLedger,
    clock,
    providerClock,
    totalTimeoutMs,
    bodyIdleTimeoutMs: config.requests.bodyIdleTimeoutMs,
    applicationOf: parts.applicationOf,
    partitionOf: ({ client, request }) => markOf(partitionOf(client, request.rawHeaders)),
    swapHeaders: parts.swapHeaders,
    passThrough: parts.passThrough,
    useQuote: config.quotes.evictOnOrder ? evictions.use : undefined,
    observer: {
      decided: metrics.orders.decided,
      refused(refused) {
        const application = parts.applicationOf(refused.exchange.request.rawHeaders) ?? ''
        showRefusal(parts.activity, { ...refused, application, nowMs: clock.nowMs() })
      },
    },
  })
  const ordererTyped = (appName: string): Orderer => ({
    application: briefText((appName === '' ? config.swap.appName : appName) ?? ''),
    partition: markOf(partitionOf({ address: undefined, peerTrusted: false }, [])),
  })
  return { quotes, orders, inside: { memory, evictions, ledger, providerClock, coolDowns, ordererTyped } }
}

/** How quotes are shared with the replicas that use the same store, if there is one. */
function shareQuotes(
  { config, clock, metrics, sharedStore }: SwapParts,
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
    cacheKeysOf(quoteId) {
      const quote = ledger.findById(quoteId)
      return quote === undefined ? [] : ledger.cacheKeysOf(quote)
    },
    observer: metrics.evictions,
  })
  if (store === undefined || config.store === undefined) return { evictions, share: undefined }
  const share = createSharedQuotes({
    store,
    evictions,
    providerClock,
    minValidityMs: config.quotes.minValidityMs,
    // A lock that outlives its call would make other replicas wait for a quote that will not come.
    lockWaitMs: Math.min(config.store.lockWaitMs, config.upstream.totalTimeoutMs),
    pause: setTimeout,
    observer: metrics.sharing,
  })
  return { evictions, share }
}
