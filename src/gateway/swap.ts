import type { Clients } from '../client/client-address.ts'
import {
  type ApplicationOf,
  applicationAmong,
  createPartition,
  createPartitionMark,
} from '../client/partition.ts'
import type { Clock } from '../clock.ts'
import type { Config } from '../config/config.ts'
import type { Events } from '../events.ts'
import { Ledger } from '../orders/ledger.ts'
import type { LedgerReach } from '../orders/ledger-reach.ts'
import { Notes } from '../orders/notes.ts'
import { PlainOrderRoute } from '../orders/plain.ts'
import { createQuoteRecorder } from '../orders/quote-recorder.ts'
import { FloatOrderRoute } from '../orders/route.ts'
import type { ClockDifference } from '../quotes/clock-difference.ts'
import { CoolDowns } from '../quotes/cool-downs.ts'
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
import type { PassThroughRoute } from '../routes/passthrough.ts'
import { createQuoteSources } from '../routes/quote-call.ts'
import { createQuoteRequestReader } from '../routes/quote-request.ts'
import { createQuoteRoute, type QuoteRoute } from '../routes/quotes.ts'
import type { Exchange } from '../server/exchange.ts'
import type { RateLimit } from '../server/rate-limit.ts'
import type { SwapHeaders } from '../server/swap-headers.ts'
import type { RequestBodies } from '../upstream/body.ts'
import type { Upstream } from '../upstream/upstream.ts'
import type { Journals } from './optional-parts.ts'

interface SwapParts {
  config: Config
  clock: Clock
  events: Events
  clients: Clients
  applicationOf: ApplicationOf
  clockDifference: ClockDifference
  reach: LedgerReach
  sharedStore: SharedStore | undefined
  journals: Journals
  rateLimit: RateLimit | undefined
  /** What SWAP_… supplies, by header names in lower case. */
  supplied: ReadonlyMap<string, string>
  swapHeaders: SwapHeaders
  bodies: RequestBodies
  passThrough: PassThroughRoute
  upstream: Upstream
  fail(exchange: Exchange, error: unknown): void
}

export interface Swap {
  quotes: QuoteRoute
  floatOrders: FloatOrderRoute
  plainOrders: PlainOrderRoute
  /** For the operations side. */
  inside: {
    memory: MemoryQuoteStore & QuoteListing
    ledger: Ledger
    notes: Notes
    coolDowns: CoolDowns
  }
}

/** The quote and order routes with what they share: the cache, the ledger and the provider's clock. */
export function createSwap(parts: SwapParts): Swap {
  const { config, clock, events, clients, upstream, sharedStore, journals, rateLimit, supplied } = parts
  const { keyHeaders, partition } = config.quotes
  const { totalTimeoutMs } = config.upstream
  const partitionOf = createPartition(partition)
  const memory = createMemoryQuoteStore({
    maxEntries: config.quotes.cacheEntries,
    maxBytes: config.quotes.cacheBytes,
    clock,
    events,
  })
  const ledger = new Ledger({
    ...config.ledger,
    clock,
    dropped: (expiredForMs) => events.quoteForgotten(expiredForMs),
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
      events,
    })
  const notes: Notes = new Notes({ ...parts, ledger, cache: memory, sharedQuotes: shared })
  const keyOf = createQuoteKey({ salt: sharedStore?.salt })
  // With the salt of the folder, restored quotes know their partition.
  const markOf = createPartitionMark(journals.disk?.salt ?? sharedStore?.salt)
  const coolDowns = new CoolDowns(clock, events)
  const recorder = createQuoteRecorder({
    clock,
    notes,
    keyOf,
    markOf,
    applicationAmong,
  })
  const readAnswer = createQuoteReader({
    clock,
    ends: new Ends(events),
    maxBytes: config.quotes.maxBytes,
    obeyCacheControl: config.quotes.obeyCacheControl,
    recorder,
    events,
  })
  const quotes = createQuoteRoute({
    cache: createQuoteCache({
      store: memory,
      clock,
      minValidityMs: config.quotes.minValidityMs,
      refreshAheadMs: config.quotes.refreshAheadMs,
      events,
      isUsed: (quote) => notes.wasUsed(quote),
      share: shared?.share,
    }),
    readRequest: createQuoteRequestReader({
      keyHeaders,
      supplied,
      clients,
      partitionOf,
      keyOf,
    }),
    sourceFor: createQuoteSources({
      upstream,
      clients,
      clock,
      totalTimeoutMs,
      keyHeaders,
      supplied,
      recorder,
      rateLimit,
      coolDowns,
      readAnswer,
      events,
    }),
    clock,
    totalTimeoutMs,
    rateLimit,
    chosenBy: [
      ...keyHeaders,
      config.client.ipHeader,
      ...(partition.mode === 'header' ? partition.placeHeaders : []),
    ],
    fail: parts.fail,
    events,
  })
  return {
    quotes,
    floatOrders: new FloatOrderRoute({ ...parts, ledger, notes, partitionOf, markOf }),
    plainOrders: new PlainOrderRoute({ ...parts, ledger }),
    inside: { memory, ledger, notes, coolDowns },
  }
}
