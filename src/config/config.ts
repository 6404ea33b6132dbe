import { forEachUpstream, type UpstreamName, upstreamTable } from '../http/upstreams.ts'
import { type MemoryLimits, memoryLimits } from '../process/memory.ts'
import { checkTogether } from './checks.ts'
import {
  type ReadFile,
  readSecretFiles,
  readSystemFile,
  readTlsFiles,
  type SecretsRead,
  type TlsFilesRead,
  type TryDirectory,
} from './files.ts'
import { isLoopback } from './host-name.ts'
import { type Limits, limitsOf, readTestLimits, testLimitsName } from './limits.ts'
import { fitDefaults, memoryWarnings, whyFitted } from './memory-fit.ts'
import { checkNames } from './names.ts'
import {
  displaySetting,
  readGiven,
  readValues,
  type SettingProblem,
  SettingsError,
  type SettingValue,
} from './parse.ts'
import { fixedDefault, type SettingName, type SettingValues, settingNames } from './settings.ts'

/** The settings as the code reads them, frozen. */
export type Config = DeepReadonly<ReturnType<typeof toConfig>>

type DeepReadonly<Value> = { readonly [Key in keyof Value]: DeepReadonly<Value[Key]> }

/** A setting in effect, as it may be shown: secrets are masked. */
interface EffectiveSetting {
  readonly value: string
  readonly source: string
}

export interface LoadedConfig {
  config: Config
  warnings: string[]
  sources: Readonly<Record<SettingName, EffectiveSetting>>
}

export interface LoadOptions {
  /** For names that are nearly a setting's. */
  nearMisses?: 'warn' | 'error'
  /** For other names that begin as settings do, and for settings and values of earlier versions. */
  unknownNames?: 'warn' | 'error'
  /** False: HOST may never be used, because the gateway may be mounted in another app. */
  listens?: boolean
  /** For tests: times and sizes in place of those that are always used. */
  limits?: Partial<Limits>
  /** Those of this process, if not given. */
  memory?: MemoryLimits
  /** Reads the files that settings name. From the file system, if not given. */
  readFile?: ReadFile
  /** Tries the folder of STATE_DIRECTORY. If not given, the folder is not touched. */
  tryDirectory?: TryDirectory
}

/** The sandbox is behind payments too, unless PAYMENTS_BASE_URL says otherwise, while it is behind swap. */
function baseUrlOf(name: UpstreamName, values: SettingValues): string | undefined {
  const value = values[upstreamTable[name].baseUrl.setting]
  const { SWAP_BASE_URL: swap } = values
  return value ?? (upstreamTable[name].baseUrl.maySandbox && swap === 'sandbox' ? 'sandbox' : undefined)
}

function drainDelayMs(values: SettingValues): number {
  return values.DRAIN_DELAY_MS ?? (values.NODE_ENV === 'production' ? 5_000 : 0)
}

function toConfig(values: SettingValues, limits: Limits, tls: TlsFilesRead['tls']) {
  return {
    production: values.NODE_ENV === 'production',
    traffic: { host: values.HOST, port: values.PORT },
    admin: {
      host: values.ADMIN_HOST ?? values.HOST,
      port: values.ADMIN_PORT,
      token: values.ADMIN_TOKEN,
      allowedHosts: values.ADMIN_ALLOWED_HOSTS ?? [],
    },
    upstreams: forEachUpstream((name) => {
      const { paths } = upstreamTable[name]
      return {
        /** 'sandbox', a URL without a trailing slash, or none. */
        baseUrl: baseUrlOf(name, values),
        /** The path prefixes that go there. */
        paths: 'setting' in paths ? values[paths.setting] : paths,
        tls: tls[name],
      }
    }),
    swap: {
      appName: values.SWAP_APP_NAME,
      appVersion: values.SWAP_APP_VERSION,
      authorization: values.SWAP_AUTHORIZATION,
    },
    client: { trustProxy: values.TRUST_PROXY ?? [], ipHeader: values.CLIENT_IP_HEADER },
    upstream: {
      connectTimeoutMs: limits.connectTimeoutMs,
      headersTimeoutMs: values.UPSTREAM_HEADERS_TIMEOUT_MS,
      bodyTimeoutMs: limits.bodyTimeoutMs,
      connections: values.UPSTREAM_CONNECTIONS,
      totalTimeoutMs: values.UPSTREAM_TOTAL_TIMEOUT_MS,
      queue: limits.queue,
      retries: limits.retries,
      breakerFailures: limits.breakerFailures,
      breakerOpenMs: limits.breakerOpenMs,
    },
    /** Through which https upstreams are reached. */
    proxy: values.UPSTREAM_PROXY?.address,
    quotes: {
      partition: { mode: values.QUOTE_PARTITION, placeHeaders: values.QUOTE_PARTITION_HEADER ?? [] },
      keyHeaders: values.QUOTE_KEY_HEADERS,
      cacheEntries: values.QUOTE_CACHE_ENTRIES,
      cacheBytes: limits.cacheBytes,
      maxBytes: limits.quoteBytes,
      minValidityMs: values.QUOTE_MIN_VALIDITY_MS,
      refreshAheadMs: values.QUOTE_REFRESH_AHEAD_MS,
    },
    orders: {
      expiredQuote: values.ORDER_EXPIRED_QUOTE,
      unknownQuote: values.ORDER_UNKNOWN_QUOTE,
      expiryMarginMs: values.ORDER_EXPIRY_MARGIN_MS,
      quoteIdFields: values.ORDER_QUOTE_ID_FIELDS,
    },
    ledger: {
      entries: values.LEDGER_ENTRIES,
      retentionMs: values.LEDGER_RETENTION_MS,
    },
    /** Where the ledger survives the process. */
    state: values.STATE_DIRECTORY === undefined ? undefined : { directory: values.STATE_DIRECTORY },
    /** The store that replicas share; undefined for a gateway of one replica. */
    store: values.VALKEY_URL && {
      ...values.VALKEY_URL,
      keyPrefix: values.VALKEY_KEY_PREFIX,
      timeoutMs: values.VALKEY_TIMEOUT_MS,
      lockWaitMs: limits.lockWaitMs,
    },
    rateLimit: {
      /** 0: no limit. */
      perMinute: values.RATE_LIMIT_PER_MINUTE,
      by: values.RATE_LIMIT_BY,
    },
    metrics: { pairs: values.METRICS_PAIRS ?? [] },
    requests: {
      connections: values.CLIENT_CONNECTIONS,
      headTimeoutMs: limits.headTimeoutMs,
      bodyIdleTimeoutMs: limits.bodyIdleTimeoutMs,
    },
    drain: { delayMs: drainDelayMs(values), timeoutMs: values.DRAIN_TIMEOUT_MS },
    log: {
      level: values.LOG_LEVEL,
      format: values.LOG_FORMAT,
      access: values.ACCESS_LOG,
      clientAddress: values.LOG_CLIENT_ADDRESS,
    },
    /** Undefined: nothing is traced. */
    traces: values.OTEL_EXPORTER_OTLP_ENDPOINT
      ? {
          endpoint: values.OTEL_EXPORTER_OTLP_ENDPOINT,
          protocol: values.OTEL_EXPORTER_OTLP_PROTOCOL,
          sampler: values.OTEL_TRACES_SAMPLER,
          samplerRatio: values.OTEL_TRACES_SAMPLER_ARG,
        }
      : undefined,
  }
}

function deepFreeze<Value>(value: Value): DeepReadonly<Value> {
  if (typeof value === 'object' && value !== null) {
    for (const part of Object.values(value)) deepFreeze(part)
    Object.freeze(value)
  }
  return value
}

function sourcesOf(
  values: SettingValues,
  { texts, fileSettingOf }: SecretsRead,
  memory: MemoryLimits,
): LoadedConfig['sources'] {
  const derived = new Map<SettingName, EffectiveSetting>([
    ['ADMIN_HOST', { value: values.HOST, source: 'derived from HOST' }],
    [
      'PAYMENTS_BASE_URL',
      { value: baseUrlOf('payments', values) ?? '', source: 'derived from SWAP_BASE_URL' },
    ],
    ['DRAIN_DELAY_MS', { value: String(drainDelayMs(values)), source: 'derived from NODE_ENV' }],
  ])
  const effective = (name: SettingName): EffectiveSetting => {
    if (!texts.has(name)) {
      const fitted = whyFitted(name, memory)
      if (fitted !== undefined) return { value: String(values[name]), source: fitted }
      return derived.get(name) ?? { value: fixedDefault(name) ?? '', source: 'default' }
    }
    const file = fileSettingOf.get(name)
    const path = file && displaySetting(file, texts.get(file) ?? '')
    const source = file === undefined ? 'environment' : `read from ${file}=${path}`
    return { value: displaySetting(name, textOf(values[name])), source }
  }
  return Object.fromEntries(settingNames.map((name) => [name, effective(name)])) as LoadedConfig['sources']
}

function textOf(value: SettingValues[SettingName]): string {
  if (typeof value === 'object' && 'url' in value) return value.url
  return String(value)
}

/** Many machines have HTTPS_PROXY for other programs, so that alone it must not decide where orders are sent. */
function proxyOfOthers(texts: ReadonlyMap<string, string>): string[] {
  const name = ['HTTPS_PROXY', 'https_proxy'].find((other) => texts.has(other))
  if (name === undefined || texts.has('UPSTREAM_PROXY')) return []
  return [
    `${name} is set, and quotegate does not read it: upstreams are connected to directly. Set UPSTREAM_PROXY to reach ` +
      'https upstreams through a proxy.',
  ]
}

/** OpenTelemetry reads the keys itself: their name is not a setting. */
function keysInTheOpen(
  { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint }: SettingValues,
  texts: ReadonlyMap<string, string>,
): string[] {
  if (endpoint === undefined || !texts.has('OTEL_EXPORTER_OTLP_HEADERS')) return []
  const { hostname, protocol } = new URL(endpoint)
  if (protocol === 'https:' || isLoopback(hostname)) return []
  return [
    `OTEL_EXPORTER_OTLP_ENDPOINT=${endpoint} is not encrypted and OTEL_EXPORTER_OTLP_HEADERS is set: anyone on the ` +
      'network between can take the keys in it. Use https.',
  ]
}

/** A value of earlier versions: neighbouring addresses may be in different places. */
function withoutPrefixes(given: ReadonlyMap<string, string>): {
  texts: ReadonlyMap<string, string>
  gone: Required<SettingProblem>[]
} {
  const name = 'QUOTE_PARTITION'
  if (given.get(name)?.toLowerCase() !== 'prefix') return { texts: given, gone: [] }
  const message = `${name}=prefix was removed and counts as ip: neighbouring addresses may be in different places.`
  return {
    texts: new Map(given).set(name, 'ip'),
    gone: [{ name, value: 'prefix', expected: 'ip', message }],
  }
}

/** The one way from settings to a Config. Throws a SettingsError that names every problem at once. */
export function loadConfig(
  given: Record<string, SettingValue | undefined>,
  {
    nearMisses = 'error',
    unknownNames = 'warn',
    limits = {},
    listens = true,
    memory = memoryLimits(),
    readFile = readSystemFile,
    tryDirectory,
  }: LoadOptions = {},
): LoadedConfig {
  const { texts: written, problems: unreadable } = readGiven(given)
  const testLimits = readTestLimits(written.get(testLimitsName))
  const { texts: current, gone } = withoutPrefixes(written)
  const secrets = readSecretFiles(current, readFile)
  const { texts, fileSettingOf } = secrets
  const { values: read, problems: wrong } = readValues(texts)
  const isSet = (name: SettingName) => texts.has(name)
  const values = fitDefaults(read, isSet, memory)
  const { tls, problems: unfitTlsFiles } = readTlsFiles(values, readFile)

  const isWrong = (name: SettingName) => [...unreadable, ...wrong].some((problem) => problem.name === name)
  const together = checkTogether(values, { isSet, isWrong, listens })
  const { STATE_DIRECTORY: directory } = values
  const untried = directory && tryDirectory?.(directory)
  const found = [
    ...[...secrets.problems, ...unfitTlsFiles, ...together.problems],
    ...(untried === undefined ? [] : [{ name: 'STATE_DIRECTORY', expected: untried }]),
  ]
  const shown = (name: string, expected: string): SettingProblem => {
    const text = texts.get(name)
    return { name, value: text && displaySetting(name, text), expected }
  }
  const problems = [
    ...[...unreadable, ...testLimits.problems],
    ...wrong.map((problem) => {
      const file = fileSettingOf.get(problem.name)
      return file === undefined ? problem : shown(file, `a file that holds ${problem.expected}`)
    }),
    ...found.map(({ name, expected }) => shown(name, expected)),
  ]
  const warnings = [
    ...[...testLimits.warnings, ...together.warnings],
    ...[...proxyOfOthers(texts), ...keysInTheOpen(values, texts), ...memoryWarnings(values, isSet, memory)],
  ]
  const report = (how: 'warn' | 'error', more: readonly Required<SettingProblem>[]) => {
    if (how === 'warn') warnings.push(...more.map(({ message }) => message))
    else problems.push(...more)
  }
  const names = checkNames(texts)
  report(nearMisses, names.near)
  report(unknownNames, [...names.unknown, ...gone])
  if (problems.length > 0) throw new SettingsError(problems)
  return {
    config: deepFreeze(toConfig(values, limitsOf(values, { ...limits, ...testLimits.limits }), tls)),
    warnings,
    sources: deepFreeze(sourcesOf(values, secrets, memory)),
  }
}
