import { hash } from 'node:crypto'
import { loggedAddresses, Users } from '../client/client-address.ts'
import {
  type ApplicationOf,
  createPartition,
  createPartitionMark,
} from '../client/partition.ts'
import { createMemoryRateLimiter } from '../client/rate-limiter.ts'
import { completeClock } from '../clock.ts'
import type { LoadedConfig } from '../config/load.ts'
import { SettingsError } from '../config/problems.ts'
import { Events } from '../events.ts'
import { createAreaReader } from '../http/area.ts'
import { headerLines } from '../http/headers.ts'
import { forEachUpstream } from '../http/upstreams.ts'
import type { DiskJournal } from '../memory/disk.ts'
import { Holds } from '../memory/holds.ts'
import { type KeyKeeper, keptForMs, OrderKeys } from '../memory/keys.ts'
import { Ledger } from '../memory/ledger.ts'
import { Notes } from '../memory/notes.ts'
import { QuotesOfAll } from '../memory/shared-quotes.ts'
import type { SharedStore } from '../memory/store.ts'
import { createMetrics } from '../metrics/metrics.ts'
import { createAccessLog, createOrderLog } from '../operations/access-log.ts'
import { AddressNotes } from '../operations/address-notes.ts'
import { createEventLog } from '../operations/event-log.ts'
import { History } from '../operations/history.ts'
import { Outages } from '../operations/outages.ts'
import { Recent } from '../operations/recent.ts'
import { KeyedOrders } from '../orders/keyed-orders.ts'
import type { OrderMemory } from '../orders/ports.ts'
import { OrderRoutes } from '../orders/route.ts'
import type { Logger } from '../process/logger.ts'
import { memoryLimits } from '../process/memory.ts'
import { version } from '../process/package-info.ts'
import { SummedLog } from '../process/summed-log.ts'
import { QuoteCache } from '../quotes/cache.ts'
import { ClockDifference } from '../quotes/ends.ts'
import { rates as ratesKind, unheld, unlimited, unnoted } from '../quotes/price-kinds.ts'
import { ProviderLimit } from '../quotes/provider-limit.ts'
import { QuoteRoute } from '../quotes/route.ts'
import { Exchanges } from '../server/app.ts'
import { PassThroughRoute } from '../server/passthrough.ts'
import { RateLimit } from '../server/rate-limit.ts'
import { SwapHeaders, suppliedHeaders } from '../server/swap-headers.ts'
import { serverSpans } from '../tracing/server-spans.ts'
import { maxHeldBytes, RequestBodies } from '../upstream/body.ts'
import { Upstream } from '../upstream/upstream.ts'
import { Secrets } from './secrets.ts'
import type { GatewayOverrides } from './types.ts'

/** Each part gets all of these, and declares which it needs. */
export type Parts = Awaited<ReturnType<typeof makeParts>>

interface MakingParts {
  log: Logger
  overrides: GatewayOverrides
  /** Called with how to close a part, once the part is open. `leftMs`: how long the last spans may take. */
  opened(close: (leftMs: number) => unknown): void
}

export async function makeParts(
  loaded: LoadedConfig,
  { log, overrides, opened }: MakingParts,
) {
  const basics = makeBasics(loaded, { log, overrides })
  const { applicationOf, clock, config, events, readTarget, summedLog, users } = basics
  opened(() => summedLog.flush())

  // The parts from here on are closed in reverse order.
  const tracing = await tracingIfSet(basics)
  opened((leftMs) => tracing?.close(leftMs))
  const { network } = overrides
  const sharedStore = network?.sharedStore ?? (await storeIfSet(basics))
  opened(() => sharedStore?.close())
  const disk = await diskIfSet(basics, sharedStore)
  opened(() => disk?.close())
  const stream = await streamIfSet(basics, sharedStore)
  opened(() => stream?.close())
  const journals = { disk, stream }
  const shared = await sharedHoldsIfSet(basics, sharedStore)
  const holds = new Holds({ clock, events, disk, shared })
  opened(() => holds.close())
  const keys = new OrderKeys({
    keepers: await keyKeepersIfSet(basics, disk, sharedStore),
    orderMs: config.upstream.totalTimeoutMs,
    clock,
    events,
  })
  // The keys close after the upstreams, when each order has its outcome.
  opened(() => keys.close())
  const sandbox = await sandboxIfNeeded(basics)
  opened(() => sandbox?.close())
  const upstreams = forEachUpstream((name) => {
    const { baseUrl, tls } = config.upstreams[name]
    if (baseUrl === undefined) return undefined
    const url = baseUrl === 'sandbox' && sandbox ? sandbox.url : baseUrl
    return new Upstream({
      name,
      baseUrl: url,
      limits: config.upstream,
      tls,
      proxy: config.proxy,
      connect: network?.connect,
      events,
      timers: clock.timers,
    })
  })
  for (const upstream of Object.values(upstreams)) opened(() => upstream?.close())
  const upstream = upstreams.swap
  if (upstream === undefined) throw new TypeError('SWAP_BASE_URL is required')

  // A new hold refuses at once what is in the queue. What has its connection learns of it as it goes out.
  holds.whenBegun(() => upstream.connections.lookAgain())

  // What the routes share.
  const exchanges = new Exchanges({ readTarget, tracing }, events)
  const { perMinute, by } = config.rateLimit
  const limiter =
    perMinute > 0 && (overrides.rateLimiter ?? (await ownLimiter(perMinute, sharedStore)))
  const rateLimit = limiter
    ? new RateLimit({ limiter, by, applicationOf, users, events })
    : undefined
  const supplied = suppliedHeaders(config.swap)
  // Trusted proxies send CLIENT_IP_HEADER and QUOTE_PARTITION_HEADER to us alone: they do not go on.
  const forUsAlone = new Set([
    config.client.ipHeader,
    ...config.quotes.partition.placeHeaders,
  ])
  const swapHeaders = new SwapHeaders(supplied, forUsAlone, users)
  const bodies = new RequestBodies({
    maxHeldBytes: maxHeldBytes(memoryLimits()),
    idleTimeoutMs: config.requests.bodyIdleTimeoutMs,
    timers: clock.timers,
  })
  const partitionOf = createPartition(config.quotes.partition)
  // The salt of the folder, so that restored quotes keep their partition.
  const markOf = createPartitionMark(disk?.salt ?? sharedStore?.salt)
  const ledger = new Ledger({ ...config.ledger, clock, log })
  const cache = new QuoteCache({ config, events })
  const providerLimit = new ProviderLimit({ clock, events })
  const sharedQuotes: QuotesOfAll | undefined =
    sharedStore &&
    new QuotesOfAll({
      sharedStore,
      clock,
      minValidityMs: config.quotes.minValidityMs,
      // A lock that outlives its call would make other replicas wait for a quote that will not come.
      lockWaitMs: Math.min(config.store?.lockWaitMs ?? 0, config.upstream.totalTimeoutMs),
      isUsed: (quote) => notes.wasUsed(quote),
    })
  const notes: Notes = new Notes({
    ledger,
    clock,
    journals,
    markOf,
    cache,
    sharedQuotes,
    events,
  })

  const secrets = new Secrets({ loaded, log, supplied, upstreams })

  const before = {
    ...basics,
    loaded,
    sharedStore,
    journals,
    sandbox,
    upstreams,
    upstream,
    exchanges,
    rateLimit,
    supplied,
    swapHeaders,
    bodies,
    partitionOf,
    markOf,
    ledger,
    cache,
    providerLimit,
    sharedQuotes,
    notes,
    keys,
    holds,
    secrets,
    clockDifference: new ClockDifference(log),
  }
  const passThrough = new PassThroughRoute(before)
  const quotes = new QuoteRoute(before)
  // Rates must not show as quotes.
  const insteadOfQuotes = {
    events: new Events(),
    notes: unnoted,
    holds: unheld,
    providerLimit: unlimited,
  }
  const rates = config.quotes.shareRates
    ? new QuoteRoute({ ...before, ...insteadOfQuotes }, ratesKind)
    : undefined
  const memory: OrderMemory = {
    known: ledger,
    uses: notes,
    keys,
    holds,
    caughtUp: () => stream?.caughtUp() ?? true,
  }
  const keyed = new KeyedOrders({
    keys: memory.keys,
    salt: `${config.upstreams.swap.baseUrl} ${sharedStore?.salt ?? ''}`,
    events: basics.events,
  })
  const orders = new OrderRoutes({ ...before, passThrough, keyed, memory })
  return { ...before, passThrough, quotes, rates, orders }
}

type Basics = ReturnType<typeof makeBasics>

/** What every other part may need, and the listeners to events. */
function makeBasics(
  { config }: LoadedConfig,
  { log, overrides }: Omit<MakingParts, 'opened'>,
) {
  const clock = completeClock(overrides.clock)
  const summedLog = new SummedLog(log)
  const readTarget = createAreaReader(
    forEachUpstream((name) => config.upstreams[name].paths),
  )
  const applicationOf: ApplicationOf = (rawHeaders) =>
    headerLines(rawHeaders, 'app-name') ?? config.swap.appName
  const loggedAddress = loggedAddresses[config.log.clientAddress]
  const users = new Users(config.client, {
    addressNoted: (user) => events.addressNoted(user),
    proxyJudged: (peer, namesUsers) => events.proxyJudged(peer, namesUsers),
  })
  const metrics = createMetrics({ version, pairs: config.metrics.pairs })
  const history = new History(clock)
  const recent = new Recent(clock)
  const outages = new Outages(clock, recent, log)
  const allShareQuotes = config.quotes.partition.mode === 'none'
  const addressNotes = new AddressNotes({
    log,
    allShareQuotes,
    clientIpHeader: config.client.ipHeader,
  })
  if (config.rateLimit.perMinute === 0 && overrides.rateLimiter !== undefined)
    log.warn({}, idleRateLimiter)
  const forLogs = {
    log,
    summedLog,
    applicationOf,
    readUser: users.read,
    loggedAddress,
    readTarget,
  }
  const { access } = config.log
  const logs = [
    ...(access === 'on' && log.isLevelEnabled('info') ? [createAccessLog(forLogs)] : []),
    ...(access === 'off' ? [] : [createOrderLog(forLogs)]),
    createEventLog(forLogs),
  ]
  const spans = config.traces === undefined ? [] : [serverSpans]
  const heard = overrides.logger === undefined ? [] : logs
  const events = new Events([
    ...spans,
    metrics.listener,
    ...heard,
    history,
    recent,
    outages,
    addressNotes,
  ])
  return {
    version,
    config,
    clock,
    log,
    summedLog,
    events,
    users,
    applicationOf,
    readTarget,
    metrics,
    history,
    recent,
    outages,
    addressNotes,
  }
}

const idleRateLimiter =
  'The override rateLimiter has no effect, because RATE_LIMIT_PER_MINUTE is 0, so no request is limited. Set ' +
  'RATE_LIMIT_PER_MINUTE, or remove the override.'

// Only some settings need these modules. Startup is a fifth faster without them.

async function tracingIfSet({ config: { traces }, events, summedLog, users }: Basics) {
  if (traces === undefined) return undefined
  const { OtlpTracing } = await import('../tracing/otlp.ts').catch((cause) => {
    const packages =
      'the packages of OpenTelemetry, which cannot be loaded (npm install without --omit=optional)'
    const [name, expected] = ['OTEL_EXPORTER_OTLP_ENDPOINT', `${packages}: ${cause}`]
    throw new SettingsError([{ name, value: traces.endpoint, expected }])
  })
  return new OtlpTracing({
    ...traces,
    // Without headers, only `peerTrusted` is of use.
    isTrustedPeer: (address) => users.read(address, []).peerTrusted,
    dropped(spans, reason) {
      events.spansDropped(spans)
      summedLog.say({
        level: 'warn',
        cause: { dropped: reason },
        message: `spans were dropped: ${reason}`,
      })
    },
  })
}

async function storeIfSet({ config, clock, events, log }: Basics) {
  if (config.store === undefined) return undefined
  const { Valkey } = await import('../memory/valkey.ts')
  return new Valkey({ ...config.store, log, events, clock }).start()
}

async function diskIfSet(
  { config, clock, log, events }: Basics,
  sharedStore: SharedStore | undefined,
) {
  const { state, upstreams, production, store } = config
  if (state === undefined) {
    if (production && store === undefined)
      log.info(
        {},
        'STATE_DIRECTORY is not set: a restart forgets the ledger, and late orders are then sent',
      )
    return undefined
  }
  const { DiskJournal } = await import('../memory/disk.ts')
  return DiskJournal.open({
    ...state,
    swapBaseUrl: upstreams.swap.baseUrl ?? '',
    salt: sharedStore?.salt,
    clock,
    log,
    events,
  })
}

async function streamIfSet(
  { config, clock, log, events }: Basics,
  sharedStore: SharedStore | undefined,
) {
  if (sharedStore === undefined) return undefined
  const { StreamJournal } = await import('../memory/stream.ts')
  return new StreamJournal({
    store: sharedStore,
    key: journalKey(config, sharedStore),
    maxEntries: config.ledger.entries,
    timeoutMs: config.store?.timeoutMs ?? 0,
    clock,
    log,
    events,
  })
}

/** Replicas of one provider have one journal. */
function journalKey({ upstreams }: Basics['config'], { keyPrefix }: SharedStore): string {
  const ofUpstream = hash('sha256', upstreams.swap.baseUrl ?? '', 'base64url')
  return `${keyPrefix}journal:${ofUpstream.slice(0, 22)}`
}

async function sharedHoldsIfSet(
  { config, clock }: Basics,
  sharedStore: SharedStore | undefined,
) {
  if (sharedStore === undefined) return undefined
  const { SharedHolds } = await import('../memory/shared-holds.ts')
  // In a Cluster, the braces put this key beside the journal.
  const key = `${sharedStore.keyPrefix}holds:{${journalKey(config, sharedStore)}}`
  return new SharedHolds(sharedStore, key, clock)
}

async function sandboxIfNeeded({ config, clock }: Basics) {
  if (!Object.values(config.upstreams).some(({ baseUrl }) => baseUrl === 'sandbox'))
    return undefined
  const { startSandbox } = await import('../sandbox/sandbox.ts')
  return startSandbox({ clock, unref: true })
}

async function ownLimiter(perMinute: number, sharedStore: SharedStore | undefined) {
  const inMemory = createMemoryRateLimiter(perMinute)
  if (sharedStore === undefined) return inMemory
  const { createSharedRateLimiter } = await import('../memory/shared-rate-limit.ts')
  return createSharedRateLimiter({ sharedStore, fallback: inMemory })
}

/** Where the keys of orders outlive the process, and where other replicas find them. */
async function keyKeepersIfSet(
  { clock }: Basics,
  disk: DiskJournal | undefined,
  sharedStore: SharedStore | undefined,
): Promise<readonly KeyKeeper[]> {
  const keepers: KeyKeeper[] = []
  if (disk !== undefined) keepers.push(disk.keeper)
  if (sharedStore !== undefined) {
    const { SharedOrderKeys } = await import('../memory/shared-keys.ts')
    keepers.push(new SharedOrderKeys(sharedStore, keptForMs, clock.timers))
  }
  return keepers
}
