import { createServer, type RequestListener } from 'node:http'
import { createApplicationOf } from '../client/application.ts'
import { createClientAddress } from '../client/client-address.ts'
import { createLoggedAddress } from '../client/logged-address.ts'
import type { RateLimiter } from '../client/rate-limiter.ts'
import { type Clock, systemClock } from '../clock.ts'
import { type Config, type LoadedConfig, loadConfig } from '../config/config.ts'
import type { SettingValue } from '../config/parse.ts'
import type { RetiredSettingName } from '../config/retired-settings.ts'
import type { SettingName } from '../config/settings.ts'
import { problemSlugs } from '../http/problem.ts'
import { forEachUpstream, upstreamNames } from '../http/upstreams.ts'
import { createMetrics } from '../metrics/metrics.ts'
import { createActivity } from '../operations/activity.ts'
import { createOperationsApp } from '../operations/operations-app.ts'
import { maxClientConnections } from '../process/fd-limit.ts'
import { completeLogger, type GatewayLogger, type Logger, silentLogger } from '../process/logger.ts'
import { memoryLimits } from '../process/memory.ts'
import { version } from '../process/package-info.ts'
import { createSummedLog } from '../process/summed-log.ts'
import { notKeptReasons } from '../quotes/quote-answer.ts'
import { createApp } from '../routes/app.ts'
import { areas, createAreaReader } from '../routes/area.ts'
import { createExchanges } from '../routes/exchange.ts'
import { createPassThroughRoute } from '../routes/passthrough.ts'
import { createSwapHeaders, suppliedHeaders } from '../routes/swap-headers.ts'
import { createTrafficServer } from '../server/traffic-server.ts'
import { HeldBodies, maxHeldBytes } from '../upstream/held-bodies.ts'
import { checkArguments } from './arguments.ts'
import { createConsoleFeed } from './console-feed.ts'
import { createConsoleView } from './console-view.ts'
import { createLifecycle, type Lifecycle } from './lifecycle.ts'
import { accessLogIfSet, rateLimitIfSet, sandboxIfNeeded, stateIfSet, storeIfSet } from './optional-parts.ts'
import { createSwap } from './swap.ts'
import { createUpstreams } from './upstreams.ts'

export type { RateLimiter, Taken } from '../client/rate-limiter.ts'

export interface Gateway {
  /** The whole service: what `listen()` serves, and what may be mounted in another Express app. */
  readonly app: RequestListener
  /** The same function as `app`. */
  readonly listener: RequestListener
  /** Metrics, health and the console. */
  readonly operations: RequestListener
  /** Where the built-in sandbox listens, when one of the upstreams is the sandbox. */
  readonly sandboxUrl: string | undefined
  /** Opens both listeners, at HOST and PORT and at ADMIN_HOST and ADMIN_PORT; once, however often it is called. */
  listen(): Promise<{ trafficUrl: string; operationsUrl: string }>
  /**
   * Ends it: requests in flight are answered, within DRAIN_TIMEOUT_MS. For `delayMs` before that new connections
   * are still served, while /readyz says that they should go elsewhere. A further call without `delayMs` cuts that
   * short; one with it changes nothing.
   */
  close(options?: { delayMs?: number }): Promise<void>
  /** The page that Prometheus reads. */
  metrics(): Promise<string>
  /** `close()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>
}

/** By the names that they have in the environment. A list may also be an array. */
export type GatewaySettings = {
  readonly [Name in SettingName | RetiredSettingName]?: SettingValue | undefined
}

export interface GatewayOverrides {
  /** The clock of the gateway and of the built-in sandbox. */
  clock?: Clock
  /** Nothing is logged unless one is given. */
  logger?: GatewayLogger
  /** Counts for RATE_LIMIT_PER_MINUTE in place of this process's memory. */
  rateLimiter?: RateLimiter
}

/**
 * Builds a gateway that does not listen yet. Reads nothing from the environment. Throws a SettingsError that names
 * every setting that is wrong, and every name that is nearly a setting's; a StateError where STATE_DIRECTORY cannot be
 * used; a TypeError where an argument is not what is declared here.
 */
export async function createGateway(
  settings: GatewaySettings = {},
  overrides: GatewayOverrides = {},
): Promise<Gateway> {
  checkArguments(settings, overrides)
  return buildGateway(loadConfig({ ...settings }), overrides)
}

export async function buildGateway(loaded: LoadedConfig, overrides: GatewayOverrides = {}): Promise<Gateway> {
  const { config } = loaded
  const log = overrides.logger === undefined ? silentLogger() : completeLogger(overrides.logger)
  for (const warning of loaded.warnings) log.warn({}, warning)
  const summedLog = createSummedLog(log)
  const loggedAddress = createLoggedAddress(config.log.clientAddress)
  const clock = overrides.clock ?? systemClock
  const metrics = createMetrics({
    version,
    areas,
    upstreams: upstreamNames,
    problems: problemSlugs,
    notKeptReasons,
    pairs: config.metrics.pairs,
  })
  const sandbox = await sandboxIfNeeded(config, clock)
  const activity = createActivity({
    watchedChanged(watched) {
      exchanges.watcher = watched ? consoleFeed : undefined
    },
    upstreamFailures: () =>
      Object.values(upstreams).reduce((sum, upstream) => sum + (upstream?.failures ?? 0), 0),
  })
  const consoleFeed = createConsoleFeed(activity, clock)
  const upstreams = createUpstreams(config, { sandbox, metrics, log, summedLog })
  const applicationOf = createApplicationOf(config.swap.appName)
  const readClientAddress = createClientAddress(config.client)

  const exchanges = createExchanges({
    log,
    summedLog,
    accessLog: accessLogIfSet(config, { log, applicationOf, readClientAddress, loggedAddress }),
    observer: metrics.exchanges,
    readTarget: createAreaReader(forEachUpstream((name) => config.upstreams[name].paths)),
    readClientAddress,
    allShareQuotes: config.quotes.partition.mode === 'none',
  })
  metrics.watchRequests(exchanges)
  const sharedStore = await storeIfSet(config, { metrics, log })
  const state = await stateIfSet(config, { clock, metrics, log, sharedStore }).catch(async (error) => {
    await closeUpstreams()
    throw error
  })
  const rateLimit = await rateLimitIfSet(config, {
    metrics,
    applicationOf,
    sharedStore,
    limiter: overrides.rateLimiter,
  })
  const supplied = suppliedHeaders(config.swap)
  const swapHeaders = createSwapHeaders(supplied, headersForUsAlone(config))
  const heldBodies = new HeldBodies(maxHeldBytes(memoryLimits()), metrics.requestBodies)
  metrics.requestBodies.watch(heldBodies)
  const passThrough = createPassThroughRoute({
    upstreams,
    paymentsPaths: config.upstreams.payments.paths,
    swapHeaders,
    bodyIdleTimeoutMs: config.requests.bodyIdleTimeoutMs,
    heldBodies,
    stallMs: config.upstream.bodyTimeoutMs,
    rateLimit,
    exchanges,
  })
  const swap = createSwap({
    config,
    clock,
    log,
    summedLog,
    loggedAddress,
    metrics,
    activity,
    upstream: upstreams.swap,
    exchanges,
    passThrough,
    heldBodies,
    applicationOf,
    supplied,
    swapHeaders,
    sharedStore,
    state,
    rateLimit,
  })
  const { listener, messages } = createApp(exchanges, { ...swap, passThrough })

  async function closeUpstreams(): Promise<void> {
    await Promise.all(Object.values(upstreams).map((upstream) => upstream?.close()))
    await sharedStore?.close()
    await sandbox?.close()
  }

  const operations = createOperationsApp({
    page: metrics,
    activity,
    isReady: () => lifecycle.ready,
    access: { ...config.admin, production: config.production },
    view: createConsoleView({
      loaded,
      clock,
      version,
      exchanges,
      upstreams,
      swap,
      sandbox,
      sharedStore,
      state,
      trafficUrl: () => lifecycle.trafficUrl,
    }),
  })
  const trafficServer = createTrafficServer({
    listener,
    messages,
    headTimeoutMs: config.requests.headTimeoutMs,
    maxConnections: maxConnections(config, log),
    log: summedLog,
    observer: metrics.server,
  })
  const lifecycle: Lifecycle = createLifecycle({
    config,
    log,
    traffic: trafficServer,
    operations: createServer(operations.listener),
    inFlight: () => exchanges.inFlight,
    ordersSent: () => swap.orders.sent,
    opensAfter: Promise.all([sharedStore?.firstProbe, operations.filesRead]),
    async closeUpstreams() {
      await closeUpstreams()
      swap.stop()
      await state?.close()
      summedLog.flush()
    },
    beforeOperationsClose: operations.close,
  })

  return {
    app: listener,
    listener,
    operations: operations.listener,
    sandboxUrl: sandbox?.url,
    listen: lifecycle.listen,
    close: lifecycle.close,
    metrics: metrics.render,
    [Symbol.asyncDispose]: () => lifecycle.close(),
  }
}

/** CLIENT_IP_HEADER and QUOTE_PARTITION_HEADER: believed from trusted proxies, which send them only to us. */
function headersForUsAlone({ client, quotes }: Config): ReadonlySet<string> {
  return new Set([client.ipHeader, ...quotes.partition.placeHeaders])
}

function maxConnections(config: Config, log: Logger): number {
  const { connections } = config.requests
  const possible = maxClientConnections() ?? connections
  if (possible < connections) {
    log.warn(
      { connections: possible },
      `CLIENT_CONNECTIONS=${connections} needs more file descriptors than this process may have: fewer clients are accepted. Raise ulimit -n.`,
    )
  }
  return Math.min(connections, possible)
}
