import { Clients, loggedAddresses } from '../client/client-address.ts'
import { createApplicationOf, createPartition, createPartitionMark } from '../client/partition.ts'
import { completeClock } from '../clock.ts'
import type { LoadedConfig } from '../config/load.ts'
import { Events } from '../events.ts'
import { forEachUpstream } from '../http/upstreams.ts'
import { createMetrics } from '../metrics/metrics.ts'
import { createAccessLog, createOrderLog } from '../operations/access-log.ts'
import { AddressNotes } from '../operations/address-notes.ts'
import { createEventLog } from '../operations/event-log.ts'
import { History } from '../operations/history.ts'
import { Outages } from '../operations/outages.ts'
import { Recent } from '../operations/recent.ts'
import { OrderKeys } from '../orders/keys.ts'
import { Ledger } from '../orders/ledger.ts'
import { Notes } from '../orders/notes.ts'
import { OrderRoutes } from '../orders/route.ts'
import type { Logger } from '../process/logger.ts'
import { memoryLimits } from '../process/memory.ts'
import { version } from '../process/package-info.ts'
import { SummedLog } from '../process/summed-log.ts'
import { QuoteCache } from '../quotes/cache.ts'
import { ClockDifference } from '../quotes/ends.ts'
import { ProviderLimit } from '../quotes/provider-limit.ts'
import { QuoteRoute } from '../quotes/route.ts'
import { QuotesOfAll } from '../replicas/quotes.ts'
import { Exchanges } from '../server/app.ts'
import { createAreaReader } from '../server/area.ts'
import { createRequestIds } from '../server/exchange.ts'
import { PassThroughRoute } from '../server/passthrough.ts'
import { SwapHeaders, suppliedHeaders } from '../server/swap-headers.ts'
import { serverSpans } from '../tracing/server-spans.ts'
import { maxHeldBytes, RequestBodies } from '../upstream/body.ts'
import {
  createUpstreams,
  diskIfSet,
  keyKeepersIfSet,
  rateLimitIfSet,
  sandboxIfNeeded,
  storeIfSet,
  streamIfSet,
  tracingIfSet,
} from './optional-parts.ts'
import type { GatewayOverrides } from './types.ts'

/** What a gateway is made of. Each part is given this, and declares what it needs of it. */
export type Parts = Awaited<ReturnType<typeof makeParts>>

interface MakingParts {
  log: Logger
  overrides: GatewayOverrides
  /** Called once a part is open, with how to close it. `leftMs`: what the last spans may take. */
  opened(close: (leftMs: number) => unknown): void
}

/** Makes each part out of those before it. */
export async function makeParts(loaded: LoadedConfig, { log, overrides, opened }: MakingParts) {
  const { config } = loaded
  const clock = completeClock(overrides.clock)
  const summedLog = new SummedLog(log)
  opened(() => summedLog.flush())

  // What listens to all others.
  const readTarget = createAreaReader(forEachUpstream((name) => config.upstreams[name].paths))
  const applicationOf = createApplicationOf(config.swap.appName)
  const loggedAddress = loggedAddresses[config.log.clientAddress]
  const clients = new Clients(config.client, (client) => events.addressNoted(client))
  const metrics = createMetrics({ version, pairs: config.metrics.pairs })
  const history = new History(clock)
  const recent = new Recent(clock)
  const outages = new Outages(clock, recent)
  const addressNotes = new AddressNotes({
    log,
    allShareQuotes: config.quotes.partition.mode === 'none',
    clientIpHeader: config.client.ipHeader,
  })
  const clockDifference = new ClockDifference(log)
  const forLogs = { log, summedLog, applicationOf, readClient: clients.read, loggedAddress, readTarget }
  const { access } = config.log
  const logs = [
    ...(access === 'on' && log.isLevelEnabled('info') ? [createAccessLog(forLogs)] : []),
    ...(access === 'off' ? [] : [createOrderLog(forLogs)]),
    createEventLog(forLogs),
  ]
  const events = new Events([
    ...(config.traces === undefined ? [] : [serverSpans]),
    metrics.listener,
    ...(overrides.logger === undefined ? [] : logs),
    history,
    recent,
    outages,
    addressNotes,
  ])

  // What has to be closed, in the other order.
  const basics = { config, clock, events, log, clients, applicationOf }
  const tracing = await tracingIfSet(basics, summedLog)
  opened((leftMs) => tracing?.close(leftMs))
  const { network } = overrides
  const sharedStore = network?.sharedStore ?? (await storeIfSet(basics))
  opened(() => sharedStore?.close())
  const disk = await diskIfSet(basics, sharedStore)
  opened(() => disk?.close())
  const stream = await streamIfSet(basics, sharedStore)
  opened(() => stream?.close())
  const journals = { disk, stream }
  // Once the upstreams are closed, each order has its outcome.
  let keys: OrderKeys | undefined
  opened(() => keys?.close())
  const sandbox = await sandboxIfNeeded(basics)
  opened(() => sandbox?.close())
  const upstreams = createUpstreams(basics, { connect: network?.connect, sandbox })
  for (const upstream of Object.values(upstreams)) opened(() => upstream?.close())

  // What the ways of requests share.
  const exchanges = new Exchanges({ readTarget, nextId: createRequestIds(), tracing }, events)
  const rateLimit = await rateLimitIfSet(basics, { sharedStore, limiter: overrides.rateLimiter })
  const supplied = suppliedHeaders(config.swap)
  // CLIENT_IP_HEADER and QUOTE_PARTITION_HEADER: believed from trusted proxies, which send them only to us.
  const forUsAlone = new Set([config.client.ipHeader, ...config.quotes.partition.placeHeaders])
  const swapHeaders = new SwapHeaders(supplied, forUsAlone, clients)
  const bodies = new RequestBodies({
    maxHeldBytes: maxHeldBytes(memoryLimits()),
    idleTimeoutMs: config.requests.bodyIdleTimeoutMs,
    events,
    timers: clock.timers,
  })
  const partitionOf = createPartition(config.quotes.partition)
  // With the salt of the folder, restored quotes know their partition.
  const markOf = createPartitionMark(disk?.salt ?? sharedStore?.salt)
  const ledger = new Ledger({ ...config.ledger, clock, log })
  const cache = new QuoteCache({ config, events })
  const providerLimit = new ProviderLimit({ clock, events })
  const sharedQuotes: QuotesOfAll | undefined =
    sharedStore &&
    new QuotesOfAll({
      sharedStore,
      clock,
      events,
      minValidityMs: config.quotes.minValidityMs,
      // A lock that outlives its call would make other replicas wait for a quote that will not come.
      lockWaitMs: Math.min(config.store?.lockWaitMs ?? 0, config.upstream.totalTimeoutMs),
      isUsed: (quote) => notes.wasUsed(quote),
    })
  keys = new OrderKeys({
    salt: `${config.upstreams.swap.baseUrl} ${sharedStore?.salt ?? ''}`,
    keepers: await keyKeepersIfSet(basics, { disk, sharedStore }),
    orderMs: config.upstream.totalTimeoutMs,
    clock,
    events,
  })
  const notes: Notes = new Notes({ ledger, clock, journals, markOf, cache, sharedQuotes, events })

  // The ways themselves.
  const before = {
    ...{ loaded, config, clock, log, version, events, metrics, history, recent, outages, addressNotes },
    ...{ sharedStore, journals, sandbox, upstreams, upstream: upstreams.swap, exchanges, clients },
    ...{ applicationOf, rateLimit, supplied, swapHeaders, bodies, partitionOf, markOf, ledger, cache },
    ...{ providerLimit, sharedQuotes, notes, keys, clockDifference },
  }
  const passThrough = new PassThroughRoute(before)
  const quotes = new QuoteRoute(before)
  const orders = new OrderRoutes({ ...before, passThrough })
  return { ...before, passThrough, quotes, orders }
}
