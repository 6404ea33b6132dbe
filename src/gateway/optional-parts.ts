import { randomUUID } from 'node:crypto'
import type { ApplicationOf } from '../client/application.ts'
import type { ReadClientAddress } from '../client/client-address.ts'
import type { RateLimiter, TracedRateLimiter } from '../client/rate-limiter.ts'
import type { Clock } from '../clock.ts'
import type { Config } from '../config/config.ts'
import { SettingsError } from '../config/parse.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { Logger } from '../process/logger.ts'
import { version } from '../process/package-info.ts'
import type { SummedLog } from '../process/summed-log.ts'
import type { SharedStore } from '../replicas/store.ts'
import { type AccessLog, type AccessLogOptions, createAccessLog } from '../routes/access-log.ts'
import { createRateLimit, type RateLimit } from '../routes/rate-limit.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { State } from '../state/state.ts'
import type { Tracing } from '../tracing/observer.ts'

// What only some settings need is imported where they are set, because startup is a fifth faster without it.

export async function sandboxIfNeeded(config: Config, clock: Clock): Promise<Sandbox | undefined> {
  const needed = Object.values(config.upstreams).some(({ baseUrl }) => baseUrl === 'sandbox')
  if (!needed) return undefined
  const { startSandbox } = await import('../sandbox/sandbox.ts')
  return startSandbox({ clock, unref: true })
}

/** The access log, if there is one. */
export function accessLogIfSet(config: Config, options: AccessLogOptions): AccessLog | undefined {
  return config.log.access && options.log.isLevelEnabled('info') ? createAccessLog(options) : undefined
}

export async function tracingIfSet(
  { traces }: Config,
  parts: { metrics: Metrics; log: SummedLog; readClientAddress: ReadClientAddress },
): Promise<Tracing | undefined> {
  if (traces === undefined) return undefined
  const { metrics, log, readClientAddress } = parts
  const { createOtlpTracing } = await import('../tracing/otlp.ts').catch((cause) => {
    throw new SettingsError([
      {
        name: 'OTEL_EXPORTER_OTLP_ENDPOINT',
        value: traces.endpoint,
        expected: `the packages of OpenTelemetry, which cannot be loaded (npm install without --omit=optional): ${cause}`,
      },
    ])
  })
  return createOtlpTracing({
    ...traces,
    resource: { 'service.version': version, 'service.instance.id': randomUUID(), ...traces.resource },
    version,
    log,
    observer: metrics.traces,
    // Without its headers, the reading of an address says no more than whether the peer is trusted.
    isTrustedPeer: (address) => readClientAddress(address, []).peerTrusted,
  })
}

/** An embedder's limiter is called with what its interface has, and nothing more. */
function ofEmbedder(limiter: RateLimiter): TracedRateLimiter {
  return {
    perMinute: limiter.perMinute,
    take: (bucket) => limiter.take(bucket),
    giveBack: (bucket, taken) => limiter.giveBack(bucket, taken),
  }
}

export async function rateLimitIfSet(
  { rateLimit: { perMinute, by, countsHits } }: Config,
  parts: {
    metrics: Metrics
    applicationOf: ApplicationOf
    sharedStore: SharedStore | undefined
    limiter: RateLimiter | undefined
  },
): Promise<RateLimit | undefined> {
  if (perMinute === 0) return undefined
  const { metrics, applicationOf, sharedStore } = parts
  const { createMemoryRateLimiter } = await import('../client/memory-rate-limiter.ts')
  const { createSharedRateLimiter } = await import('../replicas/shared-rate-limiter.ts')
  const inMemory = createMemoryRateLimiter({ perMinute })
  return createRateLimit({
    limiter:
      (parts.limiter && ofEmbedder(parts.limiter)) ??
      (sharedStore ? createSharedRateLimiter({ sharedStore, fallback: inMemory }) : inMemory),
    by,
    countsHits,
    applicationOf,
    observer: metrics.rateLimits,
  })
}

export async function storeIfSet({ store }: Config, { metrics, log }: { metrics: Metrics; log: Logger }) {
  if (store === undefined) return undefined
  const { createValkey } = await import('../replicas/valkey/valkey.ts')
  const sharedStore = createValkey({ ...store, log, observer: metrics.store })
  metrics.store.watch(sharedStore)
  return sharedStore
}

/** Throws a StateError where the folder cannot be used. */
export async function stateIfSet(
  { state, upstreams, production, store, ledger }: Config,
  parts: { clock: Clock; metrics: Metrics; log: Logger; sharedStore: SharedStore | undefined },
): Promise<State | undefined> {
  const { clock, metrics, log, sharedStore } = parts
  if (state === undefined) {
    if (production && store === undefined) {
      log.info({}, 'STATE_DIRECTORY is not set: a restart forgets the ledger, and late orders are then sent')
    }
    return undefined
  }
  const { openState } = await import('../state/open-state.ts')
  const opened = await openState({
    directory: state.directory,
    swapBaseUrl: upstreams.swap.baseUrl ?? '',
    salt: sharedStore?.salt,
    maxQuotes: ledger.entries,
    clock,
    log,
    observer: metrics.state,
  })
  metrics.state.watch(opened.facts)
  return opened
}
