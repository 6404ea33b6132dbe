import { Clients, createLoggedAddress } from '../client/client-address.ts'
import { createApplicationOf } from '../client/partition.ts'
import { systemClock } from '../clock.ts'
import { type Config, type LoadedConfig, loadConfig } from '../config/config.ts'
import { Events } from '../events.ts'
import { createRequestIds } from '../http/ids.ts'
import { forEachUpstream } from '../http/upstreams.ts'
import { createMetrics } from '../metrics/metrics.ts'
import { AccessLog, OrderLog } from '../operations/access-log.ts'
import { createActivity } from '../operations/activity.ts'
import { AddressNotes } from '../operations/address-notes.ts'
import { ConsoleListener } from '../operations/console-listener.ts'
import { EventLog, RequestLog } from '../operations/event-log.ts'
import { createOperationsApp, type OperationsApp } from '../operations/operations-app.ts'
import { Slowest } from '../operations/slowest.ts'
import { LedgerReach } from '../orders/ledger-reach.ts'
import { completeLogger, type Logger, silentLogger } from '../process/logger.ts'
import { memoryLimits } from '../process/memory.ts'
import { version } from '../process/package-info.ts'
import { createSummedLog } from '../process/summed-log.ts'
import { ClockDifference } from '../quotes/clock-difference.ts'
import { notKeptReasons } from '../quotes/quote.ts'
import { createApp, Exchanges } from '../routes/app.ts'
import { createAreaReader } from '../routes/area.ts'
import { PassThroughRoute } from '../routes/passthrough.ts'
import { SwapHeaders, suppliedHeaders } from '../server/swap-headers.ts'
import { createTrafficServer } from '../server/traffic-server.ts'
import { serverSpans } from '../tracing/server-spans.ts'
import { maxHeldBytes, RequestBodies } from '../upstream/body.ts'
import { checkArguments } from './arguments.ts'
import { createConsoleView, historyOf } from './console-view.ts'
import { closeAll, createLifecycle, type Lifecycle, maxConnections, OperationsListener } from './lifecycle.ts'
import {
  createUpstreams,
  journalsIfSet,
  rateLimitIfSet,
  sandboxIfNeeded,
  storeIfSet,
  tracingIfSet,
} from './optional-parts.ts'
import { createSwap } from './swap.ts'
import type { Gateway, GatewayOverrides, GatewaySettings } from './types.ts'

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
  const operationsListener = new OperationsListener(loaded.config.admin, log)
  const opened = new Opened(operationsListener)
  try {
    if (operationsFirst) await operationsListener.listen()
    return await build(loaded, overrides, { log, operationsListener, opened })
  } catch (error) {
    const onFailedClose = (cause: unknown) => log.error({ cause }, 'a part could not be closed')
    await opened.close(0).catch(onFailedClose)
    throw error
  }
}

/** What has to be closed: the last that was opened first. */
class Opened {
  readonly #closes: ((leftMs: number) => unknown)[]
  readonly #listener: OperationsListener
  operations: OperationsApp | undefined

  constructor(listener: OperationsListener) {
    this.#listener = listener
    this.#closes = []
  }

  /** Remembers how to close it. */
  add(close: (leftMs: number) => unknown): void {
    this.#closes.unshift(close)
  }

  /** `leftMs`: what the last spans may take. The operations listener goes last, so that the end can be watched. */
  async close(leftMs: number): Promise<void> {
    const endsAtMs = performance.now() + leftMs
    await closeAll([
      ...this.#closes.map((close) => () => close(Math.max(0, endsAtMs - performance.now()))),
      // Its live streams would hold up the listener.
      () => this.operations?.close(),
      () => this.#listener.close(),
    ])
  }
}

interface BuildTools {
  log: Logger
  operationsListener: OperationsListener
  opened: Opened
}

/** Makes every part, each out of those before it. */
async function build(
  loaded: LoadedConfig,
  overrides: GatewayOverrides,
  { log, operationsListener, opened }: BuildTools,
): Promise<Gateway> {
  const { config } = loaded
  for (const warning of loaded.warnings) log.warn({}, warning)
  const clock = overrides.clock ?? systemClock
  const summedLog = createSummedLog(log)
  opened.add(() => summedLog.flush())

  // What listens to all others.
  const readTarget = createAreaReader(forEachUpstream((name) => config.upstreams[name].paths))
  const applicationOf = createApplicationOf(config.swap.appName)
  const loggedAddress = createLoggedAddress(config.log.clientAddress)
  const clients = new Clients(config.client, (client) => events.addressNoted(client))
  const metrics = createMetrics({ version, notKeptReasons, pairs: config.metrics.pairs })
  const activity = createActivity()
  const history = historyOf(clock)
  const slowest = new Slowest()
  const look = () => opened.operations?.look()
  const consoleListener = new ConsoleListener({ activity, history, clock, applicationOf, look })
  const addressNotes = new AddressNotes({
    log,
    allShareQuotes: config.quotes.partition.mode === 'none',
    clientIpHeader: config.client.ipHeader,
  })
  const clockDifference = new ClockDifference(log)
  const reach = new LedgerReach({ ...config.ledger, clock, log })
  const accessLog = { log, applicationOf, readClient: clients.read, loggedAddress, readTarget }
  const logs = config.log.access && log.isLevelEnabled('info') ? [new AccessLog(accessLog)] : []
  const events = new Events([
    ...(config.traces === undefined ? [] : [serverSpans]),
    ...metrics.listeners,
    ...logs,
    ...(config.log.orders ? [new OrderLog(accessLog)] : []),
    ...(log.isLevelEnabled('debug') ? [new RequestLog(log)] : []),
    new EventLog({ log, summedLog, loggedAddress }),
    slowest,
    consoleListener,
    addressNotes,
    clockDifference,
    reach,
  ])

  // What has to be closed, in the other order.
  const tracing = await tracingIfSet(config, { events, log: summedLog, clients })
  opened.add((leftMs) => tracing?.close(leftMs))
  const sharedStore = await storeIfSet(config, { events, log })
  opened.add(() => sharedStore?.close())
  const journals = await journalsIfSet(config, { clock, log, events, sharedStore })
  opened.add(() => journals.close())
  const sandbox = await sandboxIfNeeded(config, clock)
  opened.add(() => sandbox?.close())
  const upstreams = createUpstreams(config, sandbox, events)
  for (const upstream of Object.values(upstreams)) opened.add(() => upstream?.close())

  // The ways of requests.
  const exchanges = new Exchanges({ readTarget, nextId: createRequestIds(), tracing }, events)
  const rateLimit = await rateLimitIfSet(config, {
    ...{ events, clients, applicationOf, sharedStore },
    limiter: overrides.rateLimiter,
    log,
  })
  const supplied = suppliedHeaders(config.swap)
  const swapHeaders = new SwapHeaders(supplied, headersForUsAlone(config), clients)
  const bodies = new RequestBodies({
    maxHeldBytes: maxHeldBytes(memoryLimits()),
    idleTimeoutMs: config.requests.bodyIdleTimeoutMs,
    events,
  })
  const passThrough = new PassThroughRoute({ config, upstreams, swapHeaders, bodies, rateLimit })
  const swap = createSwap({
    ...{ config, clock, events, clients, applicationOf, clockDifference, reach },
    ...{ sharedStore, journals, rateLimit, supplied, swapHeaders, bodies, passThrough },
    upstream: upstreams.swap,
    fail: (exchange, error) => exchanges.fail(exchange, error),
  })
  const { memory, ledger, coolDowns } = swap.inside
  metrics.watch({
    ...{ exchanges, bodies, upstreams, journals, sharedStore },
    ...{ memory, ledger, coolDowns, clockDifference, reach },
  })
  await journals.start(swap.inside.notes)
  const { listener, messages } = createApp(exchanges, { ...swap, passThrough })

  // The listeners.
  const operations = createOperationsApp({
    page: metrics,
    activity,
    history,
    nowMs: clock.nowMs,
    isReady: () => lifecycle.ready,
    access: { ...config.admin, production: config.production },
    view: createConsoleView({
      ...{ loaded, clock, version, exchanges, upstreams, swap, sandbox, sharedStore, journals, metrics },
      ...{ history, consoleListener, addressNotes, slowest, clockDifference },
      trafficUrl: () => lifecycle.trafficUrl,
    }),
  })
  opened.operations = operations
  const lifecycle: Lifecycle = createLifecycle({
    config,
    log,
    traffic: createTrafficServer({
      ...{ listener, messages, events },
      headTimeoutMs: config.requests.headTimeoutMs,
      maxConnections: maxConnections(config, log),
    }),
    operations: operationsListener,
    inFlight: () => exchanges.inFlight,
    ordersSent: () => swap.floatOrders.sent,
    opensAfter: operations.filesRead,
    closeParts: (leftMs) => opened.close(leftMs),
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

/** CLIENT_IP_HEADER and QUOTE_PARTITION_HEADER: believed from trusted proxies, which send them only to us. */
function headersForUsAlone({ client, quotes }: Config): ReadonlySet<string> {
  return new Set([client.ipHeader, ...quotes.partition.placeHeaders])
}
