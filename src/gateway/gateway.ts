import { createClientAddress, createLoggedAddress } from '../client/client-address.ts'
import { createApplicationOf } from '../client/partition.ts'
import { systemClock } from '../clock.ts'
import { type Config, type LoadedConfig, loadConfig } from '../config/config.ts'
import { problemSlugs } from '../http/problem.ts'
import { forEachUpstream, upstreamNames } from '../http/upstreams.ts'
import { createMetrics } from '../metrics/metrics.ts'
import { createActivity } from '../operations/activity.ts'
import { createOperationsApp } from '../operations/operations-app.ts'
import { completeLogger, type Logger, silentLogger } from '../process/logger.ts'
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
import { maxHeldBytes, RequestBodies } from '../upstream/body.ts'
import { checkArguments } from './arguments.ts'
import { closeAll, closeParts, type OpenedParts } from './close-all.ts'
import { createConsoleFeed } from './console-feed.ts'
import { createConsoleHistory } from './console-history.ts'
import { createConsoleView } from './console-view.ts'
import { createLifecycle, type Lifecycle } from './lifecycle.ts'
import { maxConnections } from './max-connections.ts'
import { createOperationsListener, type OperationsListener } from './operations-listener.ts'
import {
  accessLogIfSet,
  journalsIfSet,
  rateLimitIfSet,
  sandboxIfNeeded,
  storeIfSet,
  tracingIfSet,
} from './optional-parts.ts'
import { createSwap } from './swap.ts'
import type { Gateway, GatewayOverrides, GatewaySettings } from './types.ts'
import { createUpstreams } from './upstreams.ts'

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
  return buildGateway(loadConfig({ ...settings }, { listens: false }), overrides)
}

interface BuildOptions {
  /** Answers probes before the ledger is read, which may take longer than a supervisor waits for any answer. */
  operationsFirst?: boolean
}

/**
 * If a part fails, what was opened before it is closed.
 * @internal
 */
export async function buildGateway(
  loaded: LoadedConfig,
  overrides: GatewayOverrides = {},
  { operationsFirst = false }: BuildOptions = {},
): Promise<Gateway> {
  const log = overrides.logger === undefined ? silentLogger() : completeLogger(overrides.logger)
  const onLateError = (error: Error) =>
    log.error({ cause: error }, 'a listener could not accept a connection')
  const listener = createOperationsListener(loaded.config.admin, onLateError)
  const opened: OpenedParts = {}
  try {
    if (operationsFirst) await listener.listen()
    return await build(loaded, overrides, { log, onLateError, listener, opened })
  } catch (error) {
    const onFailedClose = (cause: unknown) => log.error({ cause }, 'a part could not be closed')
    await closeAll([() => closeParts(opened, 0), listener.close]).catch(onFailedClose)
    throw error
  }
}

interface BuildTools {
  log: Logger
  onLateError(error: Error): void
  listener: OperationsListener
  /** Each part that has to be closed is entered here as soon as it is open. */
  opened: OpenedParts
}

async function build(
  loaded: LoadedConfig,
  overrides: GatewayOverrides,
  { log, onLateError, listener: operationsListener, opened }: BuildTools,
): Promise<Gateway> {
  const { config } = loaded
  for (const warning of loaded.warnings) log.warn({}, warning)
  if (overrides.rateLimiter !== undefined && config.rateLimit.perMinute === 0) log.warn({}, idleRateLimiter)
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
  const readClientAddress = createClientAddress(config.client)
  const tracing = await tracingIfSet(config, { metrics, log: summedLog, readClientAddress })
  opened.tracing = tracing
  const sandbox = await sandboxIfNeeded(config, clock)
  opened.sandbox = sandbox
  const activity = createActivity()
  const consoleHistory = createConsoleHistory(metrics, clock)
  const { history } = consoleHistory
  const breakerChanged = () => operations.look()
  const upstreams = createUpstreams(config, { sandbox, metrics, log, summedLog, history, breakerChanged })
  opened.upstreams = upstreams
  const applicationOf = createApplicationOf(config.swap.appName)

  const readTarget = createAreaReader(forEachUpstream((name) => config.upstreams[name].paths))
  const accessLog = accessLogIfSet(config, {
    log,
    applicationOf,
    readClientAddress,
    loggedAddress,
    readTarget,
  })
  const exchanges = createExchanges({
    tracing,
    log,
    summedLog,
    watchers: [createConsoleFeed(activity, clock), ...(accessLog === undefined ? [] : [accessLog.ended])],
    observer: consoleHistory.observer,
    readTarget,
    readClientAddress,
    allShareQuotes: config.quotes.partition.mode === 'none',
    clientIpHeader: config.client.ipHeader,
  })
  metrics.watchRequests(exchanges)
  const sharedStore = await storeIfSet(config, { metrics, log })
  opened.sharedStore = sharedStore
  const journals = await journalsIfSet(config, { clock, metrics, log, sharedStore })
  opened.journals = journals
  const rateLimit = await rateLimitIfSet(config, {
    metrics,
    applicationOf,
    sharedStore,
    limiter: overrides.rateLimiter,
  })
  const supplied = suppliedHeaders(config.swap)
  const swapHeaders = createSwapHeaders(supplied, headersForUsAlone(config))
  const bodies = new RequestBodies({
    maxHeldBytes: maxHeldBytes(memoryLimits()),
    idleTimeoutMs: config.requests.bodyIdleTimeoutMs,
    observer: metrics.requestBodies,
  })
  metrics.requestBodies.watch(bodies)
  const passThrough = createPassThroughRoute({
    upstreams,
    paymentsPaths: config.upstreams.payments.paths,
    swapHeaders,
    bodies,
    stallMs: config.upstream.bodyTimeoutMs,
    // No longer than quotes: what may wait longer than they gets every connection that both wait for.
    swapWaitMs: Math.min(config.upstream.headersTimeoutMs, config.upstream.totalTimeoutMs / 2),
    rateLimit,
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
    bodies,
    applicationOf,
    supplied,
    swapHeaders,
    sharedStore,
    journals,
    rateLimit,
  })
  await journals.start(swap.inside.notes)
  const { listener, messages } = createApp(exchanges, { ...swap, passThrough })

  const operations = createOperationsApp({
    page: metrics,
    activity,
    history,
    nowMs: clock.nowMs,
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
      journals,
      consoleHistory,
      metrics,
      trafficUrl: () => lifecycle.trafficUrl,
    }),
  })
  opened.operations = operations
  const trafficServer = createTrafficServer({
    listener,
    messages,
    headTimeoutMs: config.requests.headTimeoutMs,
    maxConnections: maxConnections(config, log),
    log: summedLog,
    observer: metrics.server,
    refused: accessLog?.refused,
  })
  const lifecycle: Lifecycle = createLifecycle({
    config,
    log,
    traffic: trafficServer,
    operations: operationsListener,
    onLateError,
    inFlight: () => exchanges.inFlight,
    ordersSent: () => swap.orders.sent,
    opensAfter: operations.filesRead,
    closeParts: (leftMs) => closeAll([() => closeParts(opened, leftMs), summedLog.flush]),
  })
  operationsListener.serve(operations.listener)

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

const idleRateLimiter =
  'The override rateLimiter has no effect, because RATE_LIMIT_PER_MINUTE is 0, so no client is limited. Set ' +
  'RATE_LIMIT_PER_MINUTE, or remove the override.'

/** CLIENT_IP_HEADER and QUOTE_PARTITION_HEADER: believed from trusted proxies, which send them only to us. */
function headersForUsAlone({ client, quotes }: Config): ReadonlySet<string> {
  return new Set([client.ipHeader, ...quotes.partition.placeHeaders])
}
