import { type LoadedConfig, loadConfig } from '../config/load.ts'
import { factsOf, settingNames } from '../config/settings.ts'
import { createOperationsApp, type OperationsApp } from '../operations/operations-app.ts'
import { completeLogger, type Logger, silentLogger } from '../process/logger.ts'
import { createApp } from '../routes/app.ts'
import { maxConnections } from '../server/connection-limits.ts'
import { createTrafficServer } from '../server/traffic-server.ts'
import { checkArguments } from './arguments.ts'
import { closeAll, createLifecycle, type Lifecycle, OperationsListener } from './lifecycle.ts'
import { makeParts } from './parts.ts'
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
  const { limits } = overrides
  return buildGateway(loadConfig({ ...settings }, { by: 'library', ...(limits && { limits }) }), overrides)
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

/**
 * What has to be closed: the last that was opened first, and the operations listener last, so that the end can be
 * watched.
 */
class Opened {
  readonly #closes: ((leftMs: number) => unknown)[] = []
  readonly #listener: OperationsListener
  operations: OperationsApp | undefined

  constructor(listener: OperationsListener) {
    this.#listener = listener
  }

  add(close: (leftMs: number) => unknown): void {
    this.#closes.unshift(close)
  }

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

async function build(
  loaded: LoadedConfig,
  overrides: GatewayOverrides,
  { log, operationsListener, opened }: BuildTools,
): Promise<Gateway> {
  const { config } = loaded
  for (const warning of loaded.warnings) log.warn({}, warning)
  const parts = await makeParts(loaded, {
    log,
    overrides,
    opened: (close) => opened.add(close),
  })
  const { events, exchanges, metrics, orderSender, sandbox } = parts
  metrics.watch(parts)
  await parts.journals.start(parts.notes)
  await parts.keys.start()

  const { listener, messages } = createApp(exchanges, parts)
  const operations = createOperationsApp(parts, {
    settings: settingNames.map((name) => ({
      ...{ name, meaning: factsOf(name).meaning },
      ...loaded.sources[name],
    })),
    isReady: () => lifecycle.ready,
    // Reached from this machine, also where it listens on every address.
    trafficUrl: () =>
      lifecycle.trafficUrl?.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:'),
  })
  opened.operations = operations
  const lifecycle: Lifecycle = createLifecycle({
    config,
    log,
    traffic: createTrafficServer({
      ...{ listener, messages, events, timers: parts.clock.timers },
      headTimeoutMs: config.requests.headTimeoutMs,
      maxConnections: maxConnections(config.requests.connections, log),
    }),
    operations: operationsListener,
    inFlight: () => exchanges.inFlight,
    ordersSent: () => orderSender.sent,
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
