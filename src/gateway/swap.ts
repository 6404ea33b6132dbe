import type { LoggedAddress } from '../client/client-address.ts'
import {
  type ApplicationOf,
  applicationAmong,
  createPartition,
  createPartitionMark,
  isAddress,
} from '../client/partition.ts'
import type { Clock } from '../clock.ts'
import type { Config } from '../config/config.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { Activity } from '../operations/activity.ts'
import { Ledger } from '../orders/ledger.ts'
import { LedgerReach } from '../orders/ledger-reach.ts'
import { Notes } from '../orders/notes.ts'
import type { Orderer } from '../orders/order-terms.ts'
import { createQuoteRecorder } from '../orders/quote-recorder.ts'
import { briefText } from '../process/brief-text.ts'
import type { Logger } from '../process/logger.ts'
import type { SummedLog } from '../process/summed-log.ts'
import { ClockDifference } from '../quotes/clock-difference.ts'
import { type CoolDown, CoolDowns } from '../quotes/cool-downs.ts'
import { Ends } from '../quotes/ends.ts'
import {
  createMemoryQuoteStore,
  type MemoryQuoteStore,
  type QuoteListing,
} from '../quotes/memory-quote-store.ts'
import { createQuoteReader } from '../quotes/quote-answer.ts'
import { createQuoteCache } from '../quotes/quote-cache.ts'
import { createQuoteKey } from '../quotes/quote-key.ts'
import { SharedQuotes } from '../replicas/quotes.ts'
import type { SharedStore } from '../replicas/store.ts'
import type { Exchange, Exchanges } from '../routes/exchange.ts'
import { createOrderLog } from '../routes/order-decisions.ts'
import { createOrderRoute, type OrderRoute } from '../routes/orders.ts'
import type { PassThroughRoute } from '../routes/passthrough.ts'
import { createQuoteSources } from '../routes/quote-call.ts'
import { createQuoteRequestReader } from '../routes/quote-request.ts'
import { createQuoteRoute, type QuoteRoute } from '../routes/quotes.ts'
import type { RateLimit } from '../routes/rate-limit.ts'
import type { RequestBodies } from '../upstream/body.ts'
import type { Upstream } from '../upstream/upstream.ts'
import { createConsoleOrders } from './console-orders.ts'
import type { Journals } from './journals.ts'

interface SwapParts {
  config: Config
  clock: Clock
  log: Logger
  summedLog: SummedLog
  loggedAddress: LoggedAddress
  metrics: Metrics
  activity: Activity
  upstream: Upstream
  exchanges: Exchanges
  passThrough: PassThroughRoute
  bodies: RequestBodies
  applicationOf: ApplicationOf
  /** What SWAP_… supplies, by header names in lower case. */
  supplied: ReadonlyMap<string, string>
  swapHeaders(exchange: Exchange): string[]
  sharedStore: SharedStore | undefined
  journals: Journals
  rateLimit: RateLimit | undefined
}

export interface Swap {
  quotes: QuoteRoute
  orders: OrderRoute
  /** For the operations side. */
  inside: {
    memory: MemoryQuoteStore & QuoteListing
    ledger: Ledger
    notes: Notes
    clockDifference: ClockDifference
    coolDowns: CoolDowns
    /** The orderer whose App-Name a person types in. Where clients have partitions, it has none. */
    ordererTyped(appName: string): Orderer
  }
}

/** The quote and order routes with what they share: the cache, the ledger and the provider's clock. */
export function createSwap(parts: SwapParts): Swap {
  const { config, clock, log, metrics, upstream, sharedStore, journals, rateLimit, exchanges, supplied } =
    parts
  const { keyHeaders, partition } = config.quotes
  const { totalTimeoutMs } = config.upstream
  const partitionOf = createPartition(partition)
  const clockDifference = new ClockDifference(log)
  const memory = createMemoryQuoteStore({
    maxEntries: config.quotes.cacheEntries,
    maxBytes: config.quotes.cacheBytes,
    observer: metrics.memoryStore(clock),
  })
  const reach = new LedgerReach({ ...config.ledger, clock, log })
  const ledger = new Ledger({
    ...config.ledger,
    clock,
    dropped: (expiredForMs) => reach.dropped(expiredForMs),
  })
  const shared: SharedQuotes | undefined =
    sharedStore &&
    new SharedQuotes({
      sharedStore,
      clock,
      minValidityMs: config.quotes.minValidityMs,
      // A lock that outlives its call would make other replicas wait for a quote that will not come.
      lockWaitMs: Math.min(config.store?.lockWaitMs ?? 0, config.upstream.totalTimeoutMs),
      isUsed: (quote) => notes.wasUsed(quote),
      observer: metrics.sharing,
    })
  const notes: Notes = new Notes({
    ledger,
    clock,
    journal: journals,
    dropFromCache: (keys, id) => memory.forgetAll(keys, id),
    dropFromStore: shared && ((keys, id) => shared.forget(keys, id)),
    observer: metrics.evictions,
  })
  const keyOf = createQuoteKey({ salt: sharedStore?.salt })
  // With the salt of the folder, restored quotes know their partition.
  const markOf = createPartitionMark(journals.disk?.salt ?? sharedStore?.salt)
  const whoseOf = (own: string | undefined) => ({ partition: markOf(own), isAddress: isAddress(own) })
  metrics.observe({
    cacheEntries: () => memory.entries,
    cacheBytes: () => memory.bytes,
    ledgerEntries: () => ledger.size,
    ledgerReachMs: () => reach.ms,
    clockOffsetMs: () => clockDifference.newestMs,
    isClockUnknown: () => clockDifference.saysNoTime,
  })

  function coolDownBegan({ application, address, leftMs }: CoolDown): void {
    metrics.coolDowns.began()
    const message =
      'the provider answered a quote with 429: quotes of this application and this client are not requested until its Retry-After is over'
    parts.summedLog.say({ level: 'warn', cause: { coolDown: 'address' }, message }, () => ({
      application,
      client: parts.loggedAddress(address),
      forMs: leftMs,
    }))
  }
  const coolDowns = new CoolDowns({ clock, began: coolDownBegan })
  metrics.coolDowns.watch(coolDowns)

  const recorder = createQuoteRecorder({
    clock,
    notes,
    keyOf,
    markOf,
    applicationAmong,
  })
  const readAnswer = createQuoteReader({
    clock,
    ends: new Ends((bounds, now) => clockDifference.heard(bounds, now)),
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
      clock,
      minValidityMs: config.quotes.minValidityMs,
      refreshAheadMs: config.quotes.refreshAheadMs,
      observer: metrics.quoteCache,
      isUsed: (quote) => notes.wasUsed(quote),
      share: shared?.share,
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
      keyHeaders,
      supplied,
      recorder,
      rateLimit,
      coolDowns,
      readAnswer,
      observer: metrics.quotes,
    }),
    clock,
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
  const { applicationOf } = parts
  const orderLog = config.log.orders ? createOrderLog({ log, applicationOf }) : undefined
  const showOrder = createConsoleOrders(parts)
  const orders = createOrderRoute({
    ...config.orders,
    upstream,
    rateLimit,
    ledger,
    journal: journals,
    clock,
    totalTimeoutMs,
    applicationOf,
    partitionOf: ({ client, request }) => whoseOf(partitionOf(client, request.rawHeaders)),
    swapHeaders: parts.swapHeaders,
    passThrough: parts.passThrough,
    bodies: parts.bodies,
    useQuote: config.quotes.evictOnOrder ? (quote) => notes.use(quote) : undefined,
    observer: {
      decided(decided, quoteAgeMs) {
        metrics.orders.decided(decided, quoteAgeMs)
        orderLog?.(decided)
        showOrder(decided)
      },
    },
  })
  const ordererTyped = (appName: string): Orderer => ({
    application: briefText((appName === '' ? config.swap.appName : appName) ?? ''),
    ...whoseOf(partitionOf({ address: undefined, peerTrusted: false }, [])),
  })
  return {
    quotes,
    orders,
    inside: { memory, ledger, notes, clockDifference, coolDowns, ordererTyped },
  }
}
