import { hash, randomUUID } from 'node:crypto'
import type { ReadClientAddress } from '../client/client-address.ts'
import type { ApplicationOf } from '../client/partition.ts'
import type { RateLimiter } from '../client/rate-limiter.ts'
import type { Clock } from '../clock.ts'
import type { Config } from '../config/config.ts'
import { SettingsError } from '../config/parse.ts'
import type { DiskJournal } from '../journal/disk.ts'
import type { StreamJournal } from '../journal/stream.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { Logger } from '../process/logger.ts'
import { version } from '../process/package-info.ts'
import type { Tracing } from '../process/span.ts'
import type { SummedLog } from '../process/summed-log.ts'
import type { SharedStore } from '../replicas/store.ts'
import { type AccessLog, type AccessLogOptions, createAccessLog } from '../routes/access-log.ts'
import { createRateLimit, type RateLimit } from '../routes/rate-limit.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import { Journals } from './journals.ts'

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
  const { createSharedRateLimiter } = await import('../replicas/rate-limit.ts')
  const inMemory = createMemoryRateLimiter({ perMinute })
  return createRateLimit({
    limiter:
      parts.limiter ??
      (sharedStore ? createSharedRateLimiter({ sharedStore, fallback: inMemory }) : inMemory),
    by,
    countsHits,
    applicationOf,
    observer: metrics.rateLimits,
  })
}

export async function storeIfSet({ store }: Config, { metrics, log }: { metrics: Metrics; log: Logger }) {
  if (store === undefined) return undefined
  const { Valkey } = await import('../replicas/valkey.ts')
  const sharedStore = new Valkey({ ...store, log, observer: metrics.store })
  metrics.store.watch(sharedStore)
  return sharedStore
}

/** Throws a StateError where the folder cannot be used. */
export async function journalsIfSet(
  { state, upstreams, production, store, ledger }: Config,
  parts: { clock: Clock; metrics: Metrics; log: Logger; sharedStore: SharedStore | undefined },
): Promise<Journals> {
  const { clock, metrics, log, sharedStore } = parts
  if (state === undefined && production && store === undefined)
    log.info({}, 'STATE_DIRECTORY is not set: a restart forgets the ledger, and late orders are then sent')
  const swapBaseUrl = upstreams.swap.baseUrl ?? ''
  const journals = new Journals({
    disk: state && (await diskAt(state.directory)),
    stream: sharedStore && (await streamOver(sharedStore)),
  })
  metrics.journal.watch(journals)
  return journals

  async function diskAt(directory: string): Promise<DiskJournal> {
    const { DiskJournal } = await import('../journal/disk.ts')
    const { entries: maxRecords, retentionMs } = ledger
    return DiskJournal.open({
      directory,
      swapBaseUrl,
      salt: sharedStore?.salt,
      maxRecords,
      retentionMs,
      clock,
      log,
    })
  }

  async function streamOver(shared: SharedStore): Promise<StreamJournal> {
    const { StreamJournal } = await import('../journal/stream.ts')
    const key = `${shared.keyPrefix}journal:${hash('sha256', swapBaseUrl, 'base64url').slice(0, 22)}`
    const timeoutMs = store?.timeoutMs ?? 0
    return new StreamJournal({ store: shared, key, maxEntries: ledger.entries, timeoutMs, clock, log })
  }
}
