import { hash } from 'node:crypto'
import type { Clients } from '../client/client-address.ts'
import type { ApplicationOf } from '../client/partition.ts'
import { createMemoryRateLimiter, type RateLimiter } from '../client/rate-limiter.ts'
import type { Clock } from '../clock.ts'
import type { Config } from '../config/config.ts'
import { SettingsError } from '../config/problems.ts'
import type { Events } from '../events.ts'
import { forEachUpstream, type UpstreamName } from '../http/upstreams.ts'
import type { DiskJournal } from '../journal/disk.ts'
import type { StreamJournal } from '../journal/stream.ts'
import { type KeyKeeper, keptForMs } from '../orders/keys.ts'
import type { Logger } from '../process/logger.ts'
import type { Tracing } from '../process/span.ts'
import type { SummedLog } from '../process/summed-log.ts'
import type { SharedStore } from '../replicas/store.ts'
import type { Sandbox } from '../sandbox/sandbox.ts'
import { RateLimit } from '../server/rate-limit.ts'
import { Upstream, type UpstreamOptions } from '../upstream/upstream.ts'

// What only some settings need is imported where they are set, because startup is a fifth faster without it.

/** What each of them may need. */
interface Basics {
  readonly config: Config
  readonly clock: Clock
  readonly events: Events
  readonly log: Logger
  readonly clients: Clients
  readonly applicationOf: ApplicationOf
}

export async function sandboxIfNeeded({ config, clock }: Basics): Promise<Sandbox | undefined> {
  const needed = Object.values(config.upstreams).some(({ baseUrl }) => baseUrl === 'sandbox')
  if (!needed) return undefined
  const { startSandbox } = await import('../sandbox/sandbox.ts')
  return startSandbox({ clock, unref: true })
}

export async function tracingIfSet(
  { config: { traces }, events, clients }: Basics,
  summedLog: SummedLog,
): Promise<Tracing | undefined> {
  if (traces === undefined) return undefined
  const { OtlpTracing } = await import('../tracing/otlp.ts').catch((cause) => {
    throw new SettingsError([
      {
        name: 'OTEL_EXPORTER_OTLP_ENDPOINT',
        value: traces.endpoint,
        expected: `the packages of OpenTelemetry, which cannot be loaded (npm install without --omit=optional): ${cause}`,
      },
    ])
  })
  return new OtlpTracing({
    ...traces,
    // Without its headers, the reading of an address says no more than whether the peer is trusted.
    isTrustedPeer: (address) => clients.read(address, []).peerTrusted,
    dropped(spans, reason) {
      events.spansDropped(spans)
      summedLog.say({ level: 'warn', cause: { dropped: reason }, message: `spans were dropped: ${reason}` })
    },
  })
}

/** `limiter`: the embedder's own. */
export async function rateLimitIfSet(
  basics: Basics,
  { sharedStore, limiter }: { sharedStore: SharedStore | undefined; limiter: RateLimiter | undefined },
): Promise<RateLimit | undefined> {
  const { perMinute, by } = basics.config.rateLimit
  if (perMinute === 0) {
    if (limiter !== undefined) basics.log.warn({}, idleRateLimiter)
    return undefined
  }
  const { createSharedRateLimiter } = await import('../replicas/rate-limit.ts')
  const inMemory = createMemoryRateLimiter(perMinute)
  const shared = sharedStore && createSharedRateLimiter({ sharedStore, fallback: inMemory })
  return new RateLimit({ ...basics, limiter: limiter ?? shared ?? inMemory, by })
}

const idleRateLimiter =
  'The override rateLimiter has no effect, because RATE_LIMIT_PER_MINUTE is 0, so no client is limited. Set ' +
  'RATE_LIMIT_PER_MINUTE, or remove the override.'

export async function storeIfSet({ config, clock, events, log }: Basics) {
  if (config.store === undefined) return undefined
  const { Valkey } = await import('../replicas/valkey.ts')
  return new Valkey({ ...config.store, log, events, timers: clock.timers })
}

/** Throws a StateError where the folder cannot be used. */
export async function diskIfSet(
  { config, clock, log, events }: Basics,
  sharedStore: SharedStore | undefined,
): Promise<DiskJournal | undefined> {
  const { state, upstreams, production, store, ledger } = config
  if (state === undefined) {
    if (production && store === undefined)
      log.info({}, 'STATE_DIRECTORY is not set: a restart forgets the ledger, and late orders are then sent')
    return undefined
  }
  const { DiskJournal } = await import('../journal/disk.ts')
  return DiskJournal.open({
    ...{ ...state, swapBaseUrl: upstreams.swap.baseUrl ?? '', salt: sharedStore?.salt },
    ...{ maxRecords: ledger.entries, retentionMs: ledger.retentionMs, clock, log, events },
  })
}

export async function streamIfSet(
  { config: { upstreams, store, ledger }, clock, log, events }: Basics,
  sharedStore: SharedStore | undefined,
): Promise<StreamJournal | undefined> {
  if (sharedStore === undefined) return undefined
  const { StreamJournal } = await import('../journal/stream.ts')
  const ofUpstream = hash('sha256', upstreams.swap.baseUrl ?? '', 'base64url').slice(0, 22)
  return new StreamJournal({
    ...{ store: sharedStore, key: `${sharedStore.keyPrefix}journal:${ofUpstream}` },
    ...{ maxEntries: ledger.entries, timeoutMs: store?.timeoutMs ?? 0, clock, log, events },
  })
}

/** Where the keys of orders outlive the process, and where other replicas find them. */
export async function keyKeepersIfSet(
  { config: { state }, clock, log }: Basics,
  { disk, sharedStore }: { disk: DiskJournal | undefined; sharedStore: SharedStore | undefined },
): Promise<readonly KeyKeeper[]> {
  const keepers: KeyKeeper[] = []
  if (state !== undefined && disk !== undefined) {
    const { KeyFile } = await import('../journal/key-file.ts')
    keepers.push(new KeyFile({ directory: state.directory, clock, log, trouble: disk.trouble }))
  }
  if (sharedStore !== undefined) {
    const { SharedOrderKeys } = await import('../replicas/order-keys.ts')
    keepers.push(new SharedOrderKeys(sharedStore, keptForMs, clock.timers))
  }
  return keepers
}

export type Upstreams = Readonly<Record<UpstreamName, Upstream | undefined>> & { readonly swap: Upstream }

/** Every upstream of the table that has a base URL. */
export function createUpstreams(
  { config, clock: { timers }, events }: Basics,
  { connect, sandbox }: Pick<UpstreamOptions, 'connect'> & { sandbox: Sandbox | undefined },
): Upstreams {
  const upstreams = forEachUpstream((name) => {
    const { baseUrl, tls } = config.upstreams[name]
    if (baseUrl === undefined) return undefined
    const url = baseUrl === 'sandbox' && sandbox ? sandbox.url : baseUrl
    const limits = config.upstream
    return new Upstream({ name, baseUrl: url, limits, tls, proxy: config.proxy, connect, events, timers })
  })
  const { swap } = upstreams
  if (swap === undefined) throw new TypeError('SWAP_BASE_URL is required')
  return { ...upstreams, swap }
}
