import { checkTogether } from './cross-checks.ts'
import {
  nearMissesOf,
  readGiven,
  readValues,
  replaceGone,
  SettingsError,
  type SettingValue,
  shownText,
} from './parse.ts'
import { fixedDefault, type SettingName, type SettingValues, settingNames } from './settings.ts'

export interface Config {
  readonly production: boolean
  readonly traffic: { readonly host: string; readonly port: number }
  readonly admin: {
    readonly host: string
    readonly port: number
    readonly token: string | undefined
    readonly allowedHosts: readonly string[]
  }
  readonly swap: {
    /** 'sandbox', or a URL without a trailing slash. */
    readonly baseUrl: string
    readonly appName: string | undefined
    readonly appVersion: string | undefined
    readonly authorization: string | undefined
  }
  readonly payments: {
    /** 'sandbox', a URL without a trailing slash, or none. */
    readonly baseUrl: string | undefined
    readonly paths: readonly string[]
  }
  readonly webhooks: { readonly baseUrl: string | undefined }
  readonly client: { readonly trustProxy: readonly string[]; readonly ipHeader: string }
  readonly upstream: {
    readonly connectTimeoutMs: number
    readonly headersTimeoutMs: number
    readonly bodyTimeoutMs: number
    readonly connections: number
    readonly totalTimeoutMs: number
    readonly queue: number
    readonly retries: number
    readonly breakerFailures: number
    readonly breakerOpenMs: number
  }
  readonly quotes: {
    readonly partition: {
      readonly mode: SettingValues['QUOTE_PARTITION']
      readonly header: string | undefined
    }
    readonly keyHeaders: readonly string[]
    readonly cacheEntries: number
    readonly cacheBytes: number
    readonly maxBytes: number
    readonly obeyCacheControl: boolean
    readonly minValidityMs: number
    readonly refreshAheadMs: number
    readonly evictOnOrder: boolean
  }
  readonly orders: {
    readonly unknownQuote: SettingValues['ORDER_UNKNOWN_QUOTE']
    readonly expiryMarginMs: number
    readonly quoteIdFields: readonly string[]
  }
  readonly ledger: { readonly entries: number; readonly retentionMs: number; readonly termsMs: number }
  /** What replicas share; none: this one is alone. */
  readonly store:
    | {
        readonly url: string
        readonly keyPrefix: string
        readonly timeoutMs: number
        readonly lockWaitMs: number
      }
    | undefined
  readonly rateLimit: {
    /** 0: none. */
    readonly perMinute: number
    readonly by: SettingValues['RATE_LIMIT_BY']
    readonly countsHits: boolean
  }
  readonly metrics: { readonly pairs: readonly string[] }
  readonly requests: {
    readonly connections: number
    readonly headTimeoutMs: number
    readonly bodyIdleTimeoutMs: number
  }
  readonly drain: { readonly delayMs: number; readonly timeoutMs: number }
  readonly log: { readonly level: SettingValues['LOG_LEVEL']; readonly format: SettingValues['LOG_FORMAT'] }
}

/** A setting in effect, as it may be shown: secrets are masked. */
export interface EffectiveSetting {
  readonly value: string
  readonly source: string
}

export interface LoadedConfig {
  config: Config
  warnings: string[]
  sources: Readonly<Record<SettingName, EffectiveSetting>>
}

export interface LoadOptions {
  /** Names that are nearly a setting's. */
  nearMisses?: 'warn' | 'error'
  /** Settings and values of earlier versions. */
  gone?: 'warn' | 'error'
}

function paymentsBaseUrl(values: SettingValues): string | undefined {
  return values.PAYMENTS_BASE_URL ?? (values.SWAP_BASE_URL === 'sandbox' ? 'sandbox' : undefined)
}

function drainDelayMs(values: SettingValues): number {
  return values.DRAIN_DELAY_MS ?? (values.NODE_ENV === 'production' ? 5_000 : 0)
}

function storeOf(values: SettingValues): Config['store'] {
  if (values.VALKEY_URL === undefined) return undefined
  return {
    url: values.VALKEY_URL,
    keyPrefix: values.VALKEY_KEY_PREFIX,
    timeoutMs: values.VALKEY_TIMEOUT_MS,
    lockWaitMs: values.VALKEY_LOCK_WAIT_MS,
  }
}

function toConfig(values: SettingValues): Config {
  return {
    production: values.NODE_ENV === 'production',
    traffic: { host: values.HOST, port: values.PORT },
    admin: {
      host: values.ADMIN_HOST ?? values.HOST,
      port: values.ADMIN_PORT,
      token: values.ADMIN_TOKEN,
      allowedHosts: values.ADMIN_ALLOWED_HOSTS ?? [],
    },
    swap: {
      baseUrl: values.SWAP_BASE_URL,
      appName: values.SWAP_APP_NAME,
      appVersion: values.SWAP_APP_VERSION,
      authorization: values.SWAP_AUTHORIZATION,
    },
    payments: { baseUrl: paymentsBaseUrl(values), paths: values.PAYMENTS_PATHS },
    webhooks: { baseUrl: values.WEBHOOKS_BASE_URL },
    client: { trustProxy: values.TRUST_PROXY ?? [], ipHeader: values.CLIENT_IP_HEADER },
    upstream: {
      connectTimeoutMs: values.UPSTREAM_CONNECT_TIMEOUT_MS,
      headersTimeoutMs: values.UPSTREAM_HEADERS_TIMEOUT_MS,
      bodyTimeoutMs: values.UPSTREAM_BODY_TIMEOUT_MS,
      connections: values.UPSTREAM_CONNECTIONS,
      totalTimeoutMs: values.UPSTREAM_TOTAL_TIMEOUT_MS,
      queue: values.UPSTREAM_QUEUE,
      retries: values.UPSTREAM_RETRIES,
      breakerFailures: values.BREAKER_FAILURES,
      breakerOpenMs: values.BREAKER_OPEN_MS,
    },
    quotes: {
      partition: { mode: values.QUOTE_PARTITION, header: values.QUOTE_PARTITION_HEADER },
      keyHeaders: values.QUOTE_KEY_HEADERS,
      cacheEntries: values.QUOTE_CACHE_ENTRIES,
      cacheBytes: values.QUOTE_CACHE_BYTES,
      maxBytes: values.QUOTE_MAX_BYTES,
      obeyCacheControl: values.QUOTE_OBEY_CACHE_CONTROL,
      minValidityMs: values.QUOTE_MIN_VALIDITY_MS,
      refreshAheadMs: values.QUOTE_REFRESH_AHEAD_MS,
      evictOnOrder: values.QUOTE_EVICT_ON_ORDER,
    },
    orders: {
      unknownQuote: values.ORDER_UNKNOWN_QUOTE,
      expiryMarginMs: values.ORDER_EXPIRY_MARGIN_MS,
      quoteIdFields: values.ORDER_QUOTE_ID_FIELDS,
    },
    ledger: {
      entries: values.LEDGER_ENTRIES,
      retentionMs: values.LEDGER_RETENTION_MS,
      termsMs: values.LEDGER_TERMS_MS,
    },
    store: storeOf(values),
    rateLimit: {
      perMinute: values.RATE_LIMIT_PER_MINUTE,
      by: values.RATE_LIMIT_BY,
      countsHits: values.RATE_LIMIT_HITS,
    },
    metrics: { pairs: values.METRICS_PAIRS ?? [] },
    requests: {
      connections: values.CLIENT_CONNECTIONS,
      headTimeoutMs: values.REQUEST_HEAD_TIMEOUT_MS,
      bodyIdleTimeoutMs: values.REQUEST_BODY_IDLE_TIMEOUT_MS,
    },
    drain: { delayMs: drainDelayMs(values), timeoutMs: values.DRAIN_TIMEOUT_MS },
    log: { level: values.LOG_LEVEL, format: values.LOG_FORMAT },
  }
}

function deepFreeze<Value>(value: Value): Value {
  if (typeof value !== 'object' || value === null) return value
  for (const part of Object.values(value)) deepFreeze(part)
  return Object.freeze(value)
}

function sourcesOf(values: SettingValues, texts: ReadonlyMap<string, string>): LoadedConfig['sources'] {
  const derived = new Map<SettingName, EffectiveSetting>([
    ['ADMIN_HOST', { value: values.HOST, source: 'derived from HOST' }],
    ['PAYMENTS_BASE_URL', { value: paymentsBaseUrl(values) ?? '', source: 'derived from SWAP_BASE_URL' }],
    ['DRAIN_DELAY_MS', { value: String(drainDelayMs(values)), source: 'derived from NODE_ENV' }],
  ])
  const effective = (name: SettingName): EffectiveSetting => {
    if (!texts.has(name)) return derived.get(name) ?? { value: fixedDefault(name) ?? '', source: 'default' }
    const value = values[name]
    const text = typeof value === 'boolean' ? (value ? 'on' : 'off') : String(value)
    return { value: shownText(name, text), source: 'environment' }
  }
  return Object.fromEntries(settingNames.map((name) => [name, effective(name)])) as LoadedConfig['sources']
}

/** The one way from settings to a Config. Throws a SettingsError that names every problem at once. */
export function loadConfig(
  given: Record<string, SettingValue | undefined>,
  { nearMisses = 'error', gone = 'warn' }: LoadOptions = {},
): LoadedConfig {
  const { texts: written, problems: unreadable } = readGiven(given)
  const { texts, found } = replaceGone(written)
  const { values, problems: wrong } = readValues(texts)
  const problems = [...unreadable, ...wrong]

  const wrongNames = new Set(problems.map(({ name }) => name))
  const together = checkTogether(values, {
    isSet: (name) => texts.has(name),
    isWrong: (name) => wrongNames.has(name),
  })
  for (const { name, expected } of together.problems) {
    const text = texts.get(name)
    problems.push({ name, value: text && shownText(name, text), expected })
  }

  const warnings = together.warnings
  for (const { name, meant } of nearMissesOf(texts)) {
    if (nearMisses === 'warn') warnings.push(`${name} is no setting. Did you mean ${meant}?`)
    // The environment belongs to others too: the value of a variable that is not ours is not ours to show.
    else problems.push({ name, value: '****', expected: `${meant}, if that is meant; ${name} is no setting` })
  }
  for (const { name, value, expected } of found) {
    if (gone === 'warn') warnings.push(`${name}=${value} is gone: ${expected}.`)
    else problems.push({ name, value, expected })
  }
  if (problems.length > 0) throw new SettingsError(problems)
  return { config: deepFreeze(toConfig(values)), warnings, sources: deepFreeze(sourcesOf(values, texts)) }
}
