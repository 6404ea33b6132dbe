import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createApp, type Routes } from './app.ts'
import { createClientAddress } from './client/client-address.ts'
import { type Clock, systemClock } from './clock.ts'
import { type Config, loadConfig, type SettingValue } from './config.ts'
import { createFastLane, type Listener } from './fast-lane.ts'
import { type Logger, silentLogger } from './logger.ts'
import { createMetrics, type Metrics } from './metrics.ts'
import { createOperationsApp } from './operations/operations-app.ts'
import { notKeptReasons } from './quotes/quote-call.ts'
import { createAreaReader } from './routes/area.ts'
import { createExchanges } from './routes/exchange.ts'
import { createPassThroughRoute } from './routes/passthrough.ts'
import { type Sandbox, startSandbox } from './sandbox/sandbox.ts'
import { createTrafficServer } from './server.ts'
import { createSwapSide } from './swap-side.ts'
import { createUpstream, type Upstream, type UpstreamName } from './upstream/upstream.ts'
import { version } from './version.ts'

export interface Gateway {
  readonly config: Config
  /** The whole service as an Express app. */
  readonly app: Listener
  /** The app with the fast lane in front of it; what `listen()` serves. */
  readonly listener: Listener
  readonly operations: Listener
  /** Where the built-in sandbox listens, when one of the upstreams is the sandbox. */
  readonly sandboxUrl: string | undefined
  listen(): Promise<{ trafficUrl: string; operationsUrl: string }>
  close(): Promise<void>
  metrics(): Promise<string>
}

export interface GatewayOverrides {
  clock?: Clock
  logger?: Logger
}

/** Builds a gateway from settings by their environment names; reads nothing from the environment itself. */
export async function createGateway(
  settings: Readonly<Record<string, SettingValue | undefined>> = {},
  overrides: GatewayOverrides = {},
): Promise<Gateway> {
  return buildGateway(loadConfig(settings).config, overrides)
}

export async function buildGateway(config: Config, overrides: GatewayOverrides = {}): Promise<Gateway> {
  const log = overrides.logger ?? silentLogger()
  const clock = overrides.clock ?? systemClock
  const metrics = createMetrics({ version, notKeptReasons, pairs: config.metrics.pairs })
  const sandbox = await sandboxIfNeeded(config, clock)
  const upstreams = createUpstreams(config, { sandbox, metrics, log })

  const exchanges = createExchanges({
    log,
    metrics,
    readTarget: createAreaReader(config.payments.paths),
    readClientAddress: createClientAddress(config.client),
  })
  const passThrough = createPassThroughRoute({
    ...upstreams,
    paymentsPaths: config.payments.paths,
    swapDefaults: config.swap,
    bodyIdleTimeoutMs: config.requests.bodyIdleTimeoutMs,
    stallMs: config.upstream.bodyTimeoutMs,
    fail: exchanges.fail,
  })
  const swapSide = createSwapSide({
    config,
    clock,
    log,
    metrics,
    passThrough,
    upstream: upstreams.swap,
    fail: exchanges.fail,
  })
  const routes: Routes = { ...swapSide, passThrough }
  const app: Listener = createApp(exchanges, routes)
  const listener = config.fastLane ? createFastLane(app, exchanges, routes) : app

  let ready = false
  const operations: Listener = createOperationsApp({ metrics, isReady: () => ready })
  const trafficServer = createTrafficServer({
    listener,
    headTimeoutMs: config.requests.headTimeoutMs,
    log,
    metrics,
  })
  const operationsServer = createServer(operations)

  return {
    config,
    app,
    listener,
    operations,
    sandboxUrl: sandbox?.url,
    async listen() {
      const operationsUrl = await listen(operationsServer, config.admin, 'ADMIN_PORT')
      const trafficUrl = await listen(trafficServer, config.traffic, 'PORT')
      ready = true
      return { trafficUrl, operationsUrl }
    },
    async close() {
      ready = false
      await closeServer(trafficServer)
      await Promise.all(Object.values(upstreams).map((upstream) => upstream?.close()))
      await sandbox?.close()
      await closeServer(operationsServer)
    },
    metrics: metrics.render,
  }
}

async function sandboxIfNeeded(config: Config, clock: Clock): Promise<Sandbox | undefined> {
  const needed = config.swap.baseUrl === 'sandbox' || config.payments.baseUrl === 'sandbox'
  return needed ? startSandbox({ clock }) : undefined
}

function createUpstreams(
  config: Config,
  { sandbox, metrics, log }: { sandbox: Sandbox | undefined; metrics: Metrics; log: Logger },
) {
  function upstream(name: UpstreamName, baseUrl: string): Upstream {
    const created = createUpstream({
      name,
      baseUrl: baseUrl === 'sandbox' && sandbox ? sandbox.url : baseUrl,
      limits: config.upstream,
      observer: {
        ...metrics.upstreams[name],
        onBreaker(state) {
          metrics.upstreams[name].onBreaker(state)
          log.warn({ upstream: name, state }, `the breaker of the ${name} upstream is ${state}`)
        },
      },
    })
    metrics.upstreams[name].watch(created)
    return created
  }
  const { swap, payments, webhooks } = config
  return {
    swap: upstream('swap', swap.baseUrl),
    payments: payments.baseUrl === undefined ? undefined : upstream('payments', payments.baseUrl),
    webhooks: webhooks.baseUrl === undefined ? undefined : upstream('webhooks', webhooks.baseUrl),
  }
}

/** A port that could not be taken, told in one line. */
export class ListenError extends Error {
  override readonly name = 'ListenError'
}

const listenFailures: Record<string, string> = {
  EADDRINUSE: 'is already in use',
  EACCES: 'may not be listened on by this user',
  EADDRNOTAVAIL: 'is no address of this machine',
  ENOTFOUND: 'is no address of this machine',
}

export function listenError(
  error: NodeJS.ErrnoException,
  { host, port }: { host: string; port: number },
  setting: 'PORT' | 'ADMIN_PORT',
): ListenError {
  const why = listenFailures[error.code ?? ''] ?? `cannot be listened on (${error.code})`
  const byAddress = setting === 'PORT' ? 'HOST' : 'HOST or ADMIN_HOST'
  const other = why === listenFailures.EADDRNOTAVAIL ? byAddress : setting
  return new ListenError(`${host}:${port} ${why}: choose another ${other}`, { cause: error })
}

function listen(
  server: Server,
  at: { host: string; port: number },
  setting: 'PORT' | 'ADMIN_PORT',
): Promise<string> {
  return new Promise((resolve, reject) => {
    const onError = (error: Error) => reject(listenError(error, at, setting))
    server.once('error', onError)
    server.listen(at.port, at.host, () => {
      server.off('error', onError)
      const { address, port, family } = server.address() as AddressInfo
      resolve(`http://${family === 'IPv6' ? `[${address}]` : address}:${port}`)
    })
  })
}

const closeWithinMs = 5_000

function closeServer(server: Server): Promise<void> {
  if (!server.listening) return Promise.resolve()
  return new Promise((resolve) => {
    // An answer that finishes during the close leaves its kept connection idle; it has to be closed as well.
    const sweep = setInterval(() => server.closeIdleConnections(), 50)
    const cut = setTimeout(() => server.closeAllConnections(), closeWithinMs)
    server.close(() => {
      clearInterval(sweep)
      clearTimeout(cut)
      resolve()
    })
    server.closeIdleConnections()
  })
}
