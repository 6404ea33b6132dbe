import { z } from 'zod'
import { prose } from '../process/text.ts'
import { readCertificates, readKey } from './files.ts'
import {
  readCollectorUrl,
  readHttpUrl,
  readProxyUrl,
  readStoreUrl,
  readUpstream,
} from './urls.ts'
import * as value from './values.ts'

const levels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
const ownSamplers = ['always_on', 'always_off', 'traceidratio'] as const
const samplers = [
  ...ownSamplers,
  ...ownSamplers.map((name) => `parentbased_${name}` as const),
]
const onAndOff = { true: 'on', 1: 'on', false: 'off', 0: 'off' } as const
const paymentsPaths =
  '/checkouts,/subscriptions,/subscription-checkouts,/refunds,/payments,/merchants,/settings'

interface SettingFacts {
  meaning: string
  defaultText?: string
  /**
   * What is masked: all of it, the parts of a URL that may be secret, or what does not look like a path and may be the
   * secret itself.
   */
  secret?: 'whole' | 'in-url' | 'unless-path'
  /** What editors suggest, if other values are allowed too. */
  choices?: readonly string[]
}

/** How a setting is read, its default, and then its meaning. */
function row<Schema extends z.ZodType>(
  schema: Schema,
  more: Omit<SettingFacts, 'meaning'> = {},
) {
  return (...text: Parameters<typeof prose>) =>
    schema.meta({ ...more, meaning: prose(...text) })
}

/** In the order of --help and docs/settings.md. */
const groups = {
  Listeners: {
    HOST: row(value.host.prefault('127.0.0.1'))`
      Address of the traffic listener. The container image sets 0.0.0.0.`,
    PORT: row(value.port.prefault('8080'))`
      Port of the traffic listener; 0 takes any free port. The log says which.`,
    ADMIN_HOST: row(value.host.optional(), {
      defaultText: 'the value of HOST',
    })`
      Address of the operations listener (metrics, health, console).`,
    ADMIN_PORT: row(value.port.prefault('8081'))`
      Port of the operations listener; 0 takes any free port.`,
    ADMIN_TOKEN: row(value.token.optional(), { secret: 'whole' })`
      Token for the console, 16 to 512 visible ASCII characters. It is sent as Authorization: Bearer. Without it anyone
      who reaches the operations listener has full access; in production the console is then read-only and shows no
      request details.`,
    ADMIN_ALLOWED_HOSTS: row(value.hostNames.default([]))`
      Host names of the console, besides localhost and any IP address. Under any other name the console and /status
      refuse (DNS rebinding). /metrics, /openapi.json, /runbook, /healthz and /readyz answer under any name.`,
  },
  Upstreams: {
    NODE_ENV: row(z.string().toLowerCase().optional())`
      production requires SWAP_BASE_URL and refuses the sandbox. The sandbox then never serves real users by accident.
      Any other value changes nothing.`,
    SWAP_BASE_URL: row(
      value.readBy((url) => readUpstream(url, 'SWAP_AUTHORIZATION')).prefault('sandbox'),
      {
        secret: 'in-url',
        defaultText: 'sandbox; none in production, where it is required',
      },
    )`
      The swap API, an http or https URL, or the built-in sandbox. A path prefix in the URL is kept.`,
    PAYMENTS_BASE_URL: row(value.readBy(readUpstream).optional(), {
      secret: 'in-url',
      defaultText: 'sandbox if SWAP_BASE_URL is the sandbox, else none',
    })`
      The payments API. Without one, the payments paths answer 404 with the reason.`,
    PAYMENTS_PATHS: row(value.pathPrefixes.prefault(paymentsPaths))`
      Path prefixes that go to the payments API, separated by commas. / sends everything that is not /v3, another
      /v<number> (another version answers 404, and may not be listed) or /webhooks. Every other path answers 404, naming
      this setting.`,
    WEBHOOKS_BASE_URL: row(value.readBy(readHttpUrl).optional(), {
      secret: 'in-url',
    })`
      Where /webhooks and everything below it goes. It goes with any method, byte for byte, and its whole target is
      appended to this URL.`,
    SWAP_APP_NAME: row(value.headerValue.optional())`
      App-Name sent to the swap API when the caller sent none.`,
    SWAP_APP_VERSION: row(value.headerValue.optional())`
      App-Version sent to the swap API when the caller sent none.`,
    SWAP_AUTHORIZATION: row(value.headerValue.optional(), {
      secret: 'whole',
    })`
      Authorization sent to the swap API when the caller sent none. Anyone who reaches the traffic port then uses this
      key: keep HOST on loopback, or the port behind something that checks callers.`,
  },
  'TLS and the proxy to upstreams': {
    SWAP_CA_FILE: row(value.readBy(readCertificates).optional())`
      PEM file of the authorities that are trusted for SWAP_BASE_URL. It replaces the system's authorities;
      NODE_EXTRA_CA_CERTS adds to those instead.`,
    SWAP_CERT_FILE: row(value.readBy(readCertificates).optional())`
      PEM file of the gateway's certificate for SWAP_BASE_URL (mutual TLS). It holds the intermediates too, and needs
      SWAP_KEY_FILE.`,
    SWAP_KEY_FILE: row(value.readBy(readKey).optional(), { secret: 'unless-path' })`
      PEM file of the key of SWAP_CERT_FILE, without a passphrase.`,
    PAYMENTS_CA_FILE: row(value.readBy(readCertificates).optional())`
      As SWAP_CA_FILE, for PAYMENTS_BASE_URL and WEBHOOKS_BASE_URL.`,
    PAYMENTS_CERT_FILE: row(value.readBy(readCertificates).optional())`
      As SWAP_CERT_FILE, for PAYMENTS_BASE_URL and WEBHOOKS_BASE_URL. Needs PAYMENTS_KEY_FILE.`,
    PAYMENTS_KEY_FILE: row(value.readBy(readKey).optional(), { secret: 'unless-path' })`
      PEM file of the key of PAYMENTS_CERT_FILE, without a passphrase.`,
    UPSTREAM_PROXY: row(value.readBy(readProxyUrl).optional(), { secret: 'in-url' })`
      The http URL of the proxy through which https upstreams are reached. It is asked with CONNECT and resolves their
      names. With user and password, percent-encoded: http://user:password@proxy.example.com:3128. An http upstream is
      connected to directly, and so is the store. HTTPS_PROXY and NO_PROXY change nothing.`,
  },
  "User's address": {
    TRUST_PROXY: row(value.trustedProxies.default([]))`
      Proxies whose header with the user's address is trusted. They are addresses, CIDRs, or the names loopback,
      linklocal, uniquelocal, separated by commas. Host bits of a CIDR are masked; IPv4-mapped entries count as IPv4.`,
    CLIENT_IP_HEADER: row(value.clientIpHeader.prefault('forwarded'))`
      The one header in which trusted proxies send the user's address. It is forwarded, x-forwarded-for (most proxies),
      or a one-address header such as cf-connecting-ip. If they send another one in its place, or none, the provider
      sees the proxy for all its users, and the log says so. If it names no user, the provider gets for=unknown and the
      quote is not shared, unless QUOTE_PARTITION=none shares all quotes.`,
  },
  Quotes: {
    QUOTE_PARTITION: row(
      value.oneOf(['ip', 'header', 'none'], { prefix: 'ip' }).prefault('ip'),
      {},
    )`
      Which users may share a cached quote. ip: users of one address. header: users of one place, as a trusted proxy
      names it in QUOTE_PARTITION_HEADER; a hit then ignores availability rules finer than that place (a state, a
      sanctioned region). none: all users; right only where the provider never refuses by place. The more users share,
      the fewer calls, and the more often a hit shows a quote to a user whom the provider would have refused.
      An order is judged by the quotes of its whole partition (docs/orders.md).`,
    QUOTE_PARTITION_HEADER: row(value.placeHeaders.default([]), {
      defaultText: 'none; required by QUOTE_PARTITION=header',
    })`
      Headers in which a trusted proxy names the user's place. One is enough, such as cf-ipcountry; several are joined
      into one place: cloudfront-viewer-country,cloudfront-viewer-country-region. A region needs a country beside it, in
      a header whose name ends in country, country-code or country-name. If one of them is absent, repeated, a
      placeholder (such as XX, T1, EU, - or unknown) or sent by an untrusted peer, the request is partitioned by ip.
      They are never sent to the provider.`,
    QUOTE_KEY_HEADERS: row(
      value.quoteKeyHeaders.prefault('app-name,app-version,user-agent,authorization'),
    )`
      Request headers that the provider sees on a quote. Each is part of the cache key; no other header of the caller is
      forwarded, except the trace context. Must include app-name.`,
    QUOTE_CACHE_ENTRIES: row(value.wholeNumber(1, 10_000_000).prefault('100000'), {
      defaultText: '100000, fewer under a small heap limit',
    })`
      How many quotes are kept in memory, which take at most 64 MiB. The least recently used are dropped first.`,
    QUOTE_MIN_VALIDITY_MS: row(value.milliseconds(0).optional(), {
      defaultText: 'a fifth of what the quote had left when it came, at most 5000',
    })`
      A cached quote with less time left than this is fetched again. The user then has time to order. While the call
      fails or a limit forbids it, and if the provider repeats the quote, the cached one is served to its end. 0: to its
      end, without a call. The default costs up to a quarter more calls than 0 (docs/runbook.md).`,
    QUOTE_REFRESH_AHEAD_MS: row(value.milliseconds(0).prefault('0'))`
      How early a cached quote that is requested is fetched again. It is fetched in the background, this long before
      QUOTE_MIN_VALIDITY_MS has it fetched again, so that users of a busy pair see no miss. Off at 0.`,
    SHARE_RATES: row(value.oneOf(['off', 'on'], onAndOff).prefault('off'))`
      Whether lists of rates are shared and cached like quotes. on: GET /v3/pairs/:pair/rates is, until the first of its
      rates expires, with no header of the caller but those in QUOTE_KEY_HEADERS. A list without an expiry in each rate
      is relayed. off: rates pass like the rest of /v3.`,
    METRICS_PAIRS: row(value.metricsPairs.default([]))`
      Pairs with a label of their own in the metrics. There are at most 20, separated by commas; all others count as
      other.`,
  },
  Orders: {
    ORDER_EXPIRED_QUOTE: row(value.expiredQuote.prefault('refuse'), {
      choices: ['refuse', 'report'],
    })`
      What becomes of float orders whose quote has expired. refuse: 409 quote-expired; report: they are sent and
      reported. A reported order is counted, logged and shown in the console as one that would have been refused.
      report:shop,wallet reports the late orders of these applications (App-Name, in the same case), and refuses all
      others.`,
    ORDER_UNKNOWN_QUOTE: row(value.oneOf(['forward', 'refuse']).prefault('forward'))`
      Whether float orders that match no quote are sent: forward or refuse. They are refused with 409 quote-unknown.
      While the shared store is down they are forwarded, because another replica may have served the quote.`,
    ORDER_EXPIRY_MARGIN_MS: row(value.milliseconds(0).prefault('0'))`
      How long before its quote's end a float order is refused as expired. Set QUOTE_MIN_VALIDITY_MS at least as high,
      or quotes are served that orders can no longer use. Its default is enough for a margin of up to 5000, if quotes
      live five times as long as the margin.`,
    ORDER_QUOTE_ID_FIELDS: row(value.quoteIdFields.prefault('quoteId,quote.id,id'))`
      Where an order may name its quote. These are member names, with dots into nested objects. An unknown id in any of
      these fields except a bare id makes the order unknown: it is not judged by its terms.`,
    LEDGER_ENTRIES: row(value.wholeNumber(1, 10_000_000).prefault('200000'), {
      defaultText: '200000, fewer under a small heap limit',
    })`
      How many quotes are remembered, each for a day past its expiry. By them a late order is known to be late.`,
    STATE_DIRECTORY: row(value.directory.optional())`
      A folder for what has to survive a restart, a crash and a kill. These are the ledger of quotes, their uses and the
      keys of orders. Only one process can use it; it is created if it is missing. Without it, a restart forgets the
      ledger, and late orders for older quotes are sent.`,
  },
  'Several replicas': {
    VALKEY_URL: row(value.readBy(readStoreUrl).optional(), {
      secret: 'in-url',
    })`
      The Valkey, or Redis 7 or later, that all replicas share. It has their quotes, the journal, the keys of orders and
      the rate limits. Without it, each replica has its own cache, so set it as soon as there are two.
      redis://[[user]:password@]host[:port][/database], rediss:// with TLS,
      redis+sentinel://host:port,host:port/master-name, redis+cluster://host:port,host:port; with TLS rediss+sentinel
      and rediss+cluster; each may also be written with valkey for redis. The password of the Sentinels:
      ?sentinelPassword=. While the store is down, each replica works on its own.`,
    VALKEY_KEY_PREFIX: row(value.keyPrefix.prefault('quotegate:'))`
      Prefix of every key in the store. Replicas with the same prefix are one gateway: give another stage, or other
      upstreams, another prefix.`,
    VALKEY_TIMEOUT_MS: row(
      value.wholeNumber(1, 10_000, ' of milliseconds').prefault('50'),
    )`
      Timeout of one call to the store. While the oldest call has waited that long, requests go on without the
      store.`,
  },
  Limits: {
    UPSTREAM_TOTAL_TIMEOUT_MS: row(value.milliseconds().prefault('15000'))`
      Time from a quote request or float order to the end of its answer. It counts from the last byte of the request,
      and at most half of it is spent waiting for a free connection.`,
    UPSTREAM_HEADERS_TIMEOUT_MS: row(value.milliseconds().prefault('10000'))`
      Time from the end of a request to the head of its answer. It may take up to one second longer. Connecting may take
      3 s, and a pause within the answer 30 s. At most this long, too, is waited for a free connection.`,
    UPSTREAM_CONNECTIONS: row(value.wholeNumber(1, 65_535).prefault('128'))`
      How many connections each upstream has at most. An eighth of those to the swap API (at least one, if there are
      several) is reserved for float orders. Requests with a streamed body use at most a quarter, and at least one.
      Eight times as many requests may wait, for a second at most (float orders: two); then, and past them at once, it
      is 503 with Retry-After, unsent.`,
    CLIENT_CONNECTIONS: row(value.wholeNumber(1, 1_000_000).prefault('10000'))`
      How many connections callers have at most. A further one is answered with 503 and Retry-After and closed. The
      listen backlog is as long, at least 511; Linux cuts it to net.core.somaxconn.`,
    RATE_LIMIT_PER_MINUTE: row(value.wholeNumber(0, 10_000_000).prefault('0'))`
      Max requests a minute from one application or user to the swap API. RATE_LIMIT_BY says which. Further ones are
      answered with 429 and Retry-After. Orders, float and plain, are counted apart, up to the same number, so that
      quotes never take their place. The limit protects the upstream, so these do not count: quotes from the cache or from a call in flight, and
      refused orders. What was to be sent counts, also where it could not be. Payments and webhooks do not count. 0: no
      limit.`,
    RATE_LIMIT_BY: row(
      value.oneOf(['app-name', 'client-ip', 'both']).prefault('app-name'),
    )`
      By what RATE_LIMIT_PER_MINUTE counts. It is the App-Name (SWAP_APP_NAME for requests without one), the user's
      address (see TRUST_PROXY; requests of unknown address share one limit), or the App-Name at an address.`,
    DRAIN_DELAY_MS: row(value.milliseconds(0).optional(), {
      defaultText: '5000 in production, else 0',
    })`
      How long new connections are still served after SIGTERM. /readyz already answers 503, so that a load balancer
      notices before any connection is refused.`,
    DRAIN_TIMEOUT_MS: row(value.milliseconds(0).prefault('25000'))`
      How long requests in flight may take after that, before they are cut.`,
  },
  Logs: {
    LOG_LEVEL: row(value.oneOf(levels).prefault('info'))`
      The lowest level that is logged. The levels are ${levels.join(', ')}.`,
    LOG_FORMAT: row(value.oneOf(['auto', 'json', 'pretty']).prefault('auto'))`
      auto (readable in a terminal, JSON otherwise), json or pretty.`,
    ACCESS_LOG: row(value.oneOf(['off', 'orders', 'on'], onAndOff).prefault('off'))`
      off, orders (a line a float order) or on (a line a request). They are logged at info. The lines of orders have
      log: "orders" and no address. With on there are both; the lines of requests have log: "access".`,
    LOG_CLIENT_ADDRESS: row(value.oneOf(['masked', 'full', 'none']).prefault('masked'))`
      How a user's address is logged: masked, full or none. A masked one lacks its last octet, or its last 64 bits.`,
  },
  // OpenTelemetry itself reads its other variables.
  Traces: {
    OTEL_EXPORTER_OTLP_ENDPOINT: row(value.readBy(readCollectorUrl).optional(), {
      secret: 'in-url',
    })`
      The http or https URL of the collector that receives spans. /v1/traces is appended, to http://localhost:4318 for
      example. Without it nothing is traced. Names of OpenTelemetry that are not listed here, such as OTEL_SERVICE_NAME
      and OTEL_EXPORTER_OTLP_HEADERS, are read by OpenTelemetry itself.`,
    OTEL_EXPORTER_OTLP_PROTOCOL: row(
      value.oneOf(['http/protobuf', 'http/json']).prefault('http/protobuf'),
    )`
      How spans are written: http/protobuf or http/json.`,
    OTEL_TRACES_SAMPLER: row(value.oneOf(samplers).prefault('parentbased_traceidratio'))`
      Which requests are traced. The samplers are ${samplers.join(', ')}. With parentbased_ the sampled flag of a
      trusted proxy (TRUST_PROXY) decides; of any other caller only the trace id is taken.`,
    OTEL_TRACES_SAMPLER_ARG: row(value.ratio.prefault('0.01'))`
      The share of traces that the traceidratio samplers record.`,
  },
}

/**
 * Every setting: how it is read, its default, its meaning. All texts about settings come from here.
 *
 * @internal
 */
export const settings = z.object({
  ...groups.Listeners,
  ...groups.Upstreams,
  ...groups['TLS and the proxy to upstreams'],
  ...groups["User's address"],
  ...groups.Quotes,
  ...groups.Orders,
  ...groups['Several replicas'],
  ...groups.Limits,
  ...groups.Logs,
  ...groups.Traces,
})

/** @internal */
export type SettingValues = z.output<typeof settings>

// The type is inferred, so that the package's declarations list the names, and need no zod.
export const settingNames = settings.keyof().options
export type SettingName = (typeof settingNames)[number]

export const settingGroups = Object.entries(groups).map(([title, rows]) => {
  return { title, names: Object.keys(rows) as SettingName[] }
})

/** Secrets by the setting that names their file. */
export const secretsInFiles = {
  ADMIN_TOKEN_FILE: 'ADMIN_TOKEN',
  SWAP_AUTHORIZATION_FILE: 'SWAP_AUTHORIZATION',
  UPSTREAM_PROXY_FILE: 'UPSTREAM_PROXY',
  VALKEY_URL_FILE: 'VALKEY_URL',
} as const satisfies Record<string, SettingName>

export function isSettingName(name: string): name is SettingName {
  return Object.hasOwn(settings.shape, name)
}

/** Whether a name is a setting, or the file of a secret. */
export function isKnownName(name: string): boolean {
  return isSettingName(name) || Object.hasOwn(secretsInFiles, name)
}

export function factsOf(name: SettingName): SettingFacts {
  return settings.shape[name].meta() as unknown as SettingFacts
}

/** The default as written in the environment; undefined if there is none or it depends on other settings. */
export function fixedDefault(name: SettingName): string | undefined {
  const schema = settings.shape[name]
  return schema instanceof z.ZodPrefault ? String(schema.def.defaultValue) : undefined
}

/** A setting's possible or usual values; undefined if these are not a few. */
export function choicesOf(name: SettingName): readonly string[] | undefined {
  const { choices } = factsOf(name)
  if (choices !== undefined) return choices
  let schema: unknown = settings.shape[name]
  if (schema instanceof z.ZodPrefault) schema = schema.def.innerType
  if (schema instanceof z.ZodPipe) schema = schema.def.out
  return schema instanceof z.ZodEnum ? schema.options.map(String) : undefined
}
