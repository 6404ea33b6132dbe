import { forEachUpstream, type UpstreamName, upstreamTable } from '../http/upstreams.ts'
import { mebibytes } from '../process/memory.ts'
import type { Limits } from './limits.ts'
import { fixedDefault, type SettingValues } from './settings.ts'

/** Heap of one entry, rounded up; bench/cost/memory.ts measures it. */
const entryBytes = { QUOTE_CACHE_ENTRIES: 640, LEDGER_ENTRIES: 1_024 } as const
type Fitted = keyof typeof entryBytes
export const fittedNames = Object.keys(entryBytes) as Fitted[]

/** Heap of the program under load, without any quote. */
const programBytes = 40 * 2 ** 20
/**
 * Cache and ledger together take this share of the rest, unless they are set. The remainder is for requests, and for V8
 * to collect in.
 */
const defaultShare = 1 / 3

export function bytesOfEntries(entriesOf: (name: Fitted) => number): number {
  return fittedNames.reduce((sum, name) => sum + entriesOf(name) * entryBytes[name], 0)
}

/** The values with all defaults, also those that depend on other settings or on memory. */
export type CompleteValues = SettingValues & {
  ADMIN_HOST: string
  DRAIN_DELAY_MS: number
}

export function withDefaults(
  values: SettingValues,
  isGiven: (name: string) => boolean,
  heapBytes: number,
) {
  const room = (heapBytes - programBytes) * defaultShare
  // Cache and ledger have their defaults if both fit. Otherwise both shrink by one factor, even if one is set.
  const share = room / bytesOfEntries((name) => Number(fixedDefault(name)))
  const fitted = fittedNames.map((name) => {
    const fixed = Number(fixedDefault(name))
    const fewer = Math.max(100, Math.floor((fixed * share) / 100) * 100)
    return [
      name,
      fewer,
      `default ${fixed}, less for a heap limit of ${mebibytes(heapBytes)}`,
    ] as const
  })
  const payments = values.SWAP_BASE_URL === 'sandbox' ? 'sandbox' : undefined
  const derived = [
    ['ADMIN_HOST', values.HOST, 'derived from HOST'],
    ['PAYMENTS_BASE_URL', payments, 'derived from SWAP_BASE_URL'],
    [
      'DRAIN_DELAY_MS',
      values.NODE_ENV === 'production' ? 5_000 : 0,
      'derived from NODE_ENV',
    ],
    ...(share >= 1 ? [] : fitted),
  ] as const
  const unset = derived.filter(([name]) => !isGiven(name))
  const defaults = Object.fromEntries(unset.map(([name, value]) => [name, value]))
  return {
    values: { ...values, ...defaults } as CompleteValues,
    sources: new Map<string, string>(unset.map(([name, , source]) => [name, source])),
  }
}

export type Config = DeepReadonly<ReturnType<typeof toConfig>>

type DeepReadonly<Value> = { readonly [Key in keyof Value]: DeepReadonly<Value[Key]> }

export function toConfig(values: CompleteValues, limits: Limits) {
  const {
    cacheBytes,
    quoteBytes,
    lockWaitMs,
    headTimeoutMs,
    bodyIdleTimeoutMs,
    ...upstreamLimits
  } = limits
  /** A request that has waited needs time left. */
  const longestWaitMs = Math.min(
    values.UPSTREAM_HEADERS_TIMEOUT_MS,
    values.UPSTREAM_TOTAL_TIMEOUT_MS / 2,
  )
  return {
    production: values.NODE_ENV === 'production',
    traffic: { host: values.HOST, port: values.PORT },
    admin: {
      host: values.ADMIN_HOST,
      port: values.ADMIN_PORT,
      token: values.ADMIN_TOKEN,
      allowedHosts: values.ADMIN_ALLOWED_HOSTS,
    },
    upstreams: forEachUpstream((name) => {
      // Payments and webhooks go to the team's own services, with the same files.
      const of = name === 'swap' ? 'SWAP' : 'PAYMENTS'
      const [ca, cert, key] = [
        values[`${of}_CA_FILE`],
        values[`${of}_CERT_FILE`],
        values[`${of}_KEY_FILE`],
      ]
      return {
        /** 'sandbox', a URL without a final slash, or none. */
        baseUrl: values[upstreamTable[name].baseUrl.setting],
        paths: pathsOf(values, name),
        /** Undefined: no file is set. `cert` and `key` come together. */
        tls: (ca ?? cert ?? key) && { ca: ca?.text, cert: cert?.text, key: key?.text },
      }
    }),
    swap: {
      appName: values.SWAP_APP_NAME,
      appVersion: values.SWAP_APP_VERSION,
      authorization: values.SWAP_AUTHORIZATION,
    },
    client: { trustProxy: values.TRUST_PROXY, ipHeader: values.CLIENT_IP_HEADER },
    upstream: {
      ...upstreamLimits,
      headersTimeoutMs: values.UPSTREAM_HEADERS_TIMEOUT_MS,
      connections: values.UPSTREAM_CONNECTIONS,
      totalTimeoutMs: values.UPSTREAM_TOTAL_TIMEOUT_MS,
      queue: limits.queue ?? 8 * values.UPSTREAM_CONNECTIONS,
      waitMs: Math.min(limits.waitMs, longestWaitMs),
      floatOrderWaitMs: Math.min(limits.floatOrderWaitMs, longestWaitMs),
    },
    /** The proxy to https upstreams. */
    proxy: values.UPSTREAM_PROXY,
    quotes: {
      partition: {
        mode: values.QUOTE_PARTITION,
        placeHeaders: values.QUOTE_PARTITION_HEADER,
      },
      keyHeaders: values.QUOTE_KEY_HEADERS,
      cacheEntries: values.QUOTE_CACHE_ENTRIES,
      cacheBytes,
      maxBytes: quoteBytes,
      /** Undefined: a share of each quote's life. */
      minValidityMs: values.QUOTE_MIN_VALIDITY_MS,
      refreshAheadMs: values.QUOTE_REFRESH_AHEAD_MS,
      shareRates: values.SHARE_RATES === 'on',
    },
    orders: {
      expiredQuote: values.ORDER_EXPIRED_QUOTE,
      unknownQuote: values.ORDER_UNKNOWN_QUOTE,
      expiryMarginMs: values.ORDER_EXPIRY_MARGIN_MS,
      quoteIdFields: values.ORDER_QUOTE_ID_FIELDS,
    },
    ledger: { entries: values.LEDGER_ENTRIES },
    /** The folder in which the ledger survives. */
    state:
      values.STATE_DIRECTORY === undefined
        ? undefined
        : { directory: values.STATE_DIRECTORY },
    /** Undefined: a single replica. */
    store: values.VALKEY_URL && {
      address: values.VALKEY_URL,
      keyPrefix: values.VALKEY_KEY_PREFIX,
      timeoutMs: values.VALKEY_TIMEOUT_MS,
      lockWaitMs,
    },
    /** 0: no limit. */
    rateLimit: { perMinute: values.RATE_LIMIT_PER_MINUTE, by: values.RATE_LIMIT_BY },
    metrics: { pairs: values.METRICS_PAIRS },
    requests: {
      connections: values.CLIENT_CONNECTIONS,
      headTimeoutMs,
      bodyIdleTimeoutMs,
    },
    drain: { delayMs: values.DRAIN_DELAY_MS, timeoutMs: values.DRAIN_TIMEOUT_MS },
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

export function pathsOf(values: SettingValues, name: UpstreamName): readonly string[] {
  const { paths } = upstreamTable[name]
  return 'setting' in paths ? values[paths.setting] : paths
}

export function deepFreeze<Value>(value: Value): DeepReadonly<Value> {
  if (typeof value === 'object' && value !== null) {
    for (const part of Object.values(value)) deepFreeze(part)
    Object.freeze(value)
  }
  return value
}
