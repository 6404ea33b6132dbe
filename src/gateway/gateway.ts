import { type LoadedConfig, loadConfig } from '../config/load.ts'
import { factsOf, settingNames } from '../config/settings.ts'
import { createOperationsApp } from '../operations/operations-app.ts'
import { completeLogger, silentLogger } from '../process/logger.ts'
import { createApp } from '../server/app.ts'
import { maxConnections } from '../server/listen.ts'
import { createTrafficServer } from '../server/traffic-server.ts'
import { checkArguments } from './arguments.ts'
import { Lifecycle } from './lifecycle.ts'
import { makeParts, type Parts } from './parts.ts'
import type { GatewaySettings } from './settings.ts'
import type { Gateway, GatewayOverrides } from './types.ts'

/**
 * Builds a gateway that does not listen yet. Reads nothing from the environment. Throws a SettingsError that names
 * every wrong setting and every misspelt name, a StateError if STATE_DIRECTORY cannot be used, or a TypeError for a
 * wrong argument.
 */
export async function createGateway(
  settings: GatewaySettings = {},
  overrides: GatewayOverrides = {},
): Promise<Gateway> {
  checkArguments(settings, overrides)
  const { limits } = overrides
  return buildGateway(
    loadConfig({ ...settings }, { by: 'library', ...(limits && { limits }) }),
    overrides,
  )
}

/**
 * If a part fails, the parts opened before it are closed. `operationsFirst`: answers probes while the ledger is read,
 * which may take longer than a supervisor waits.
 * @internal
 */
export async function buildGateway(
  loaded: LoadedConfig,
  overrides: GatewayOverrides = {},
  { operationsFirst = false }: { operationsFirst?: boolean } = {},
): Promise<Gateway> {
  const log =
    overrides.logger === undefined ? silentLogger() : completeLogger(overrides.logger)
  const lifecycle = new Lifecycle(loaded, log)
  try {
    if (operationsFirst) await lifecycle.listenForOperations()
    for (const warning of loaded.warnings) log.warn({}, warning)
    const parts = await makeParts(loaded, { log, overrides, opened: lifecycle.opened })
    return await served(parts, lifecycle)
  } catch (error) {
    const onFailedClose = (cause: unknown) =>
      log.error({ cause }, 'a part could not be closed')
    await lifecycle.closeParts(0).catch(onFailedClose)
    throw error
  }
}

/** Builds the gateway of these parts. Its listeners do not listen yet. */
async function served(parts: Parts, lifecycle: Lifecycle): Promise<Gateway> {
  const {
    clock,
    config,
    events,
    exchanges,
    holds,
    journals,
    keys,
    loaded,
    log,
    metrics,
    notes,
    orders,
  } = parts
  metrics.watch(parts)
  // The folder first, so that what the shared list says counts for more.
  await journals.disk?.read(notes, keys, holds)
  await journals.stream?.start(notes)
  await holds.start()
  const { listener, messages } = createApp(exchanges, parts)
  const traffic = createTrafficServer({
    listener,
    messages,
    events,
    timers: clock.timers,
    headTimeoutMs: config.requests.headTimeoutMs,
    maxConnections: maxConnections(config.requests.connections, log),
  })
  const operations = createOperationsApp({
    ...parts,
    settings: settingNames.map((name) => ({
      name,
      meaning: factsOf(name).meaning,
      ...loaded.sources[name],
    })),
    isReady: () => lifecycle.isReady,
    // The URL for this machine, also if the gateway listens on every address.
    trafficUrl: () =>
      lifecycle.trafficUrl
        ?.replace('//0.0.0.0:', '//127.0.0.1:')
        .replace('//[::]:', '//[::1]:'),
  })
  lifecycle.served = { traffic, operations, exchanges, orders }
  return {
    app: listener,
    listener,
    operations: operations.listener,
    sandboxUrl: parts.sandbox?.url,
    listen: () => lifecycle.listen(),
    close: (options) => lifecycle.close(options),
    metrics: metrics.render,
    readSecretsAgain: () => void parts.secrets.readAgain(),
    [Symbol.asyncDispose]: () => lifecycle.close(),
  }
}
