import { forEachUpstream, upstreamTable } from '../http/upstreams.ts'
import type { CompleteValues } from './defaults.ts'
import type { TlsFiles } from './files.ts'
import type { Limits } from './limits.ts'

/** The settings as the code reads them, frozen. */
export type Config = DeepReadonly<ReturnType<typeof toConfig>>

type DeepReadonly<Value> = { readonly [Key in keyof Value]: DeepReadonly<Value[Key]> }

export function toConfig(values: CompleteValues, limits: Limits, tls: TlsFiles) {
  return {
    production: values.NODE_ENV === 'production',
    traffic: { host: values.HOST, port: values.PORT },
    admin: {
      host: values.ADMIN_HOST,
      port: values.ADMIN_PORT,
      token: values.ADMIN_TOKEN,
      allowedHosts: values.ADMIN_ALLOWED_HOSTS ?? [],
    },
    upstreams: forEachUpstream((name) => {
      const { paths } = upstreamTable[name]
      return {
        /** 'sandbox', a URL without a trailing slash, or none. */
        baseUrl: values[upstreamTable[name].baseUrl.setting],
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
      queue: limits.queue ?? 8 * values.UPSTREAM_CONNECTIONS,
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

export function deepFreeze<Value>(value: Value): DeepReadonly<Value> {
  if (typeof value === 'object' && value !== null) {
    for (const part of Object.values(value)) deepFreeze(part)
    Object.freeze(value)
  }
  return value
}
