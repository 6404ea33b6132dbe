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
const thirtyDaysMs = 2_592_000_000
const paymentsPaths =
  '/checkouts,/subscriptions,/subscription-checkouts,/refunds,/payments,/merchants,/settings'

/** What the texts about a setting need to know beyond its schema. */
interface SettingFacts {
  meaning: string
  /** Whether teams usually set it: then --help lists it. */
  team?: boolean
  /** For a default that depends on other settings. */
  defaultText?: string
  /**
   * What is masked wherever the value is shown: all of it, the parts of a URL that may hold a secret, or what does not
   * look like a path, because it may be the secret that belongs into the file.
   */
  secret?: 'whole' | 'in-url' | 'unless-path'
  /** What editors suggest, for a setting that may have other values too. */
  choices?: readonly string[]
}

/** How a setting is read, with its default, and then what it means. */
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
    HOST: row(value.host.prefault('127.0.0.1'), { team: true })`
      Address of the traffic listener. The container image sets 0.0.0.0.`,
    PORT: row(value.port.prefault('8080'), { team: true })`
      Port of the traffic listener; 0 takes any free port and prints it.`,
    ADMIN_HOST: row(value.host.optional(), {
      team: true,
      defaultText: 'the value of HOST',
    })`
      Address of the operations listener (metrics, health, console).`,
    ADMIN_PORT: row(value.port.prefault('8081'), { team: true })`
      Port of the operations listener; 0 takes any free port and prints it.`,
    ADMIN_TOKEN: row(value.token.optional(), { team: true, secret: 'whole' })`
      Token for the console, sent as Authorization: Bearer; 16 to 512 visible ASCII characters. Without it anyone who
      reaches the operations listener has full access; in production the console is then read-only and shows no request
      details.`,
    ADMIN_ALLOWED_HOSTS: row(value.hostNames.default([]))`
      Host names under which the console and /status answer, besides localhost and any IP address; under any other name
      they refuse (DNS rebinding). /metrics, /openapi.json, /runbook, /healthz and
      /readyz answer under any name.`,
  },
  Upstreams: {
    NODE_ENV: row(z.string().toLowerCase().optional(), { team: true })`
      production makes SWAP_BASE_URL required and refuses the sandbox, so that the sandbox never serves real users by
      accident. Any other value changes nothing.`,
    SWAP_BASE_URL: row(
      value.readBy((url) => readUpstream(url, 'SWAP_AUTHORIZATION')).prefault('sandbox'),
      {
        team: true,
        secret: 'in-url',
        defaultText: 'sandbox; none in production, where it is required',
      },
    )`
      The swap upstream, an http or https URL (a path prefix is kept), or the built-in sandbox.`,
    PAYMENTS_BASE_URL: row(value.readBy(readUpstream).optional(), {
      team: true,
      secret: 'in-url',
      defaultText: 'sandbox if SWAP_BASE_URL is the sandbox, else none',
    })`
      The payments upstream. Without one, the payments paths answer 404 with the reason.`,
    PAYMENTS_PATHS: row(value.pathPrefixes.prefault(paymentsPaths))`
      Path prefixes that go to the payments upstream, separated by commas; / sends everything that is not /v3, another
      /v<number> (another version answers 404, and may not be listed) or /webhooks. Every other path answers 404, naming
      this setting.`,
    WEBHOOKS_BASE_URL: row(value.readBy(readHttpUrl).optional(), {
      team: true,
      secret: 'in-url',
    })`
      If set, /webhooks and everything below it goes there: any method, byte for byte, the whole target appended to this
      URL.`,
    SWAP_APP_NAME: row(value.headerValue.optional(), { team: true })`
      App-Name sent to the swap upstream when the caller sent none.`,
    SWAP_APP_VERSION: row(value.headerValue.optional())`
      App-Version sent to the swap upstream when the caller sent none.`,
    SWAP_AUTHORIZATION: row(value.headerValue.optional(), {
      team: true,
      secret: 'whole',
    })`
      Authorization sent to the swap upstream when the caller sent none. Anyone who reaches the traffic port then uses
      this key: keep HOST on loopback, or the port behind something that checks callers.`,
  },
  'TLS and the proxy to upstreams': {
    SWAP_CA_FILE: row(value.readBy(readCertificates).optional())`
      PEM file of the certificate authorities that are trusted for SWAP_BASE_URL. It replaces the system's authorities;
      NODE_EXTRA_CA_CERTS adds to those instead.`,
    SWAP_CERT_FILE: row(value.readBy(readCertificates).optional())`
      PEM file of the gateway's certificate for SWAP_BASE_URL, with its intermediates (mutual TLS). Needs SWAP_KEY_FILE.`,
    SWAP_KEY_FILE: row(value.readBy(readKey).optional(), { secret: 'unless-path' })`
      PEM file of the private key of SWAP_CERT_FILE, without a passphrase.`,
    PAYMENTS_CA_FILE: row(value.readBy(readCertificates).optional())`
      As SWAP_CA_FILE, for PAYMENTS_BASE_URL and WEBHOOKS_BASE_URL.`,
    PAYMENTS_CERT_FILE: row(value.readBy(readCertificates).optional())`
      As SWAP_CERT_FILE, for PAYMENTS_BASE_URL and WEBHOOKS_BASE_URL. Needs PAYMENTS_KEY_FILE.`,
    PAYMENTS_KEY_FILE: row(value.readBy(readKey).optional(), { secret: 'unless-path' })`
      PEM file of the private key of PAYMENTS_CERT_FILE, without a passphrase.`,
    UPSTREAM_PROXY: row(value.readBy(readProxyUrl).optional(), { secret: 'in-url' })`
      The http URL of a proxy through which every https upstream is reached by CONNECT, such as
      http://user:password@proxy.example.com:3128; user and password are percent-encoded. The proxy resolves the names of
      these upstreams. An http upstream is connected to directly, and so is the store. HTTPS_PROXY and NO_PROXY change
      nothing.`,
  },
  'Client address': {
    TRUST_PROXY: row(value.trustedProxies.default([]), { team: true })`
      Proxies whose client-IP header is trusted: addresses, CIDRs, or the names loopback, linklocal, uniquelocal,
      separated by commas. Host bits of a CIDR are masked; IPv4-mapped entries count as IPv4.`,
    CLIENT_IP_HEADER: row(value.clientIpHeader.prefault('forwarded'), { team: true })`
      The one client-IP header that trusted proxies send: forwarded, x-forwarded-for (most proxies), or a one-address
      header such as cf-connecting-ip. If they send another one in its place, or none, the provider sees the proxy for
      all its users, and the log says so. If it names no client, the provider gets for=unknown and the quote is not shared,
      unless QUOTE_PARTITION=none shares all quotes.`,
  },
  Quotes: {
    QUOTE_PARTITION: row(
      value.oneOf(['ip', 'header', 'none'], { prefix: 'ip' }).prefault('ip'),
      {
        team: true,
      },
    )`
      Which clients may share a cached quote. ip: clients of one address. header: clients of one place, as a trusted proxy
      names it in QUOTE_PARTITION_HEADER; a hit then ignores availability rules finer than that place (a state, a
      sanctioned region). none: all clients; right only where the provider never refuses by place. The more clients share,
      the fewer calls, and the more often a hit shows a quote to a client that the provider would have refused. An order
      is judged by the quotes of its whole partition (docs/orders.md).`,
    QUOTE_PARTITION_HEADER: row(value.placeHeaders.default([]), {
      team: true,
      defaultText: 'none; required by QUOTE_PARTITION=header',
    })`
      Headers in which a trusted proxy names the client's place, such as cf-ipcountry, or several joined into one place:
      cloudfront-viewer-country,cloudfront-viewer-country-region. A region needs a country beside it, in a header whose
      name ends in country, country-code or country-name. If one of them is absent, repeated, a placeholder (such as XX,
      T1, EU, - or unknown) or sent by an untrusted peer, the request is partitioned by ip. They are never sent to the
      provider.`,
    QUOTE_KEY_HEADERS: row(
      value.quoteKeyHeaders.prefault('app-name,app-version,user-agent,authorization'),
    )`
      Request headers that the provider sees on a quote. Each is part of the cache key; no other header of the client is
      forwarded, except the trace context. Must include app-name.`,
    QUOTE_CACHE_ENTRIES: row(value.wholeNumber(1, 10_000_000).prefault('100000'), {
      defaultText: '100000, fewer under a small heap limit',
    })`
      Max quotes kept in memory, which take at most 64 MiB; the least recently used are dropped first.`,
    QUOTE_MIN_VALIDITY_MS: row(value.milliseconds(0).optional(), {
      defaultText: 'a fifth of what the quote had left when it came, at most 5000',
    })`
      A cached quote with less time left than this is fetched again, so that the user has time to order. While the call
      fails or a limit forbids it, and if the provider repeats the quote, the cached one is served to its end. 0: to its
      end, without a call. The default costs up to a quarter more calls than 0 (docs/runbook.md).`,
    QUOTE_REFRESH_AHEAD_MS: row(value.milliseconds(0).prefault('0'))`
      A cached quote that is requested this long before it is to be fetched again (QUOTE_MIN_VALIDITY_MS) is fetched in the
      background, so that clients of a busy pair see no miss. Off at 0.`,
    SHARE_RATES: row(value.oneOf(['off', 'on'], onAndOff).prefault('off'))`
      on: GET /v3/pairs/:pair/rates is shared and cached like a quote, until the first of its rates expires, with no header
      of the client but those in QUOTE_KEY_HEADERS. A list without an expiry in each rate is relayed. off: rates pass like
      the rest of /v3.`,
    METRICS_PAIRS: row(value.metricsPairs.default([]))`
      Pairs that get their own label in the metrics, at most 20, separated by commas; all other pairs count as other.`,
  },
  Orders: {
    ORDER_EXPIRED_QUOTE: row(value.expiredQuote.prefault('refuse'), {
      team: true,
      choices: ['refuse', 'report'],
    })`
      Float orders whose quote has expired: refuse them with 409 quote-expired, or send them and report them. A reported
      order is counted, logged and shown in the console as one that would have been refused. report:shop,wallet reports
      late orders with the App-Name shop or wallet, and refuses all others.`,
    ORDER_UNKNOWN_QUOTE: row(value.oneOf(['forward', 'refuse']).prefault('forward'))`
      Float orders that match no quote of this gateway: forward them, or refuse them with 409 quote-unknown. While the
      shared store is down they are forwarded, because another replica may have served the quote.`,
    ORDER_EXPIRY_MARGIN_MS: row(value.milliseconds(0).prefault('0'))`
      A float order is refused as expired when its quote has less time left than this. Set QUOTE_MIN_VALIDITY_MS at least
      as high, or quotes are served that orders can no longer use. Its default is enough for a margin of up to 5000, if
      quotes live five times as long as the margin.`,
    ORDER_QUOTE_ID_FIELDS: row(value.quoteIdFields.prefault('quoteId,quote.id,id'))`
      Where an order may name its quote: member names, with dots into nested objects. An unknown id in any of these fields
      except a bare id makes the order unknown: it is not judged by its terms.`,
    LEDGER_ENTRIES: row(value.wholeNumber(1, 10_000_000).prefault('200000'), {
      defaultText: '200000, fewer under a small heap limit',
    })`
      Max quotes remembered past their expiry, so that a late order is answered with "expired".`,
    LEDGER_RETENTION_MS: row(
      value.wholeNumber(0, thirtyDaysMs, ' of milliseconds').prefault('86400000'),
    )`
      How long past its expiry a quote is remembered. 0: every late order is unknown.`,
    STATE_DIRECTORY: row(value.directory.optional(), { team: true })`
      A folder for the journal, so that the ledger, the uses of quotes and the keys of orders survive a restart, a crash
      and a kill. Only one process can use it; it is created if it is missing. Without it, a restart forgets the ledger,
      and late orders for older quotes are sent.`,
  },
  'Several replicas': {
    VALKEY_URL: row(value.readBy(readStoreUrl).optional(), {
      team: true,
      secret: 'in-url',
    })`
      The Valkey, or Redis 7 or later, through which replicas share quotes, the journal, keys of orders and rate limits.
      Without it, each replica has its own cache, so set it as soon as there are two.
      redis://[[user]:password@]host[:port][/database], rediss:// with TLS,
      redis+sentinel://host:port,host:port/master-name, redis+cluster://host:port,host:port; with TLS rediss+sentinel and
      rediss+cluster; each may also be written with valkey for redis. The password of the Sentinels: ?sentinelPassword=.
      While the store is down, each replica works on its own.`,
    VALKEY_KEY_PREFIX: row(value.keyPrefix.prefault('quotegate:'))`
      Prefix of every key in the store. Replicas with the same prefix are one gateway: give another stage, or other
      upstreams, another prefix.`,
    VALKEY_TIMEOUT_MS: row(
      value.wholeNumber(1, 10_000, ' of milliseconds').prefault('50'),
    )`
      Timeout of one call to the store. While the oldest call has had no answer for so long, requests go on without the
      store.`,
  },
  Limits: {
    UPSTREAM_TOTAL_TIMEOUT_MS: row(value.milliseconds().prefault('15000'))`
      Quotes and float orders: time from the last byte of the request to the last byte of the answer. At most half of it
      is spent waiting for a free connection.`,
    UPSTREAM_HEADERS_TIMEOUT_MS: row(value.milliseconds().prefault('10000'))`
      Time from the end of the request's body to the head of the upstream's answer. It may take up to one second longer.
      Connecting may take 3 s, and a pause within the answer 30 s. At most this long, too, is waited for a free
      connection.`,
    UPSTREAM_CONNECTIONS: row(value.wholeNumber(1, 65_535).prefault('128'))`
      Max connections per upstream. An eighth of those to the swap API (at least one, if there are several) is reserved
      for float orders. Requests with a streamed body use at most a quarter, and at least one. Eight times as many
      requests may wait, for a second at most (float orders: two); then, and past them at once, it is 503 with
      Retry-After, unsent.`,
    CLIENT_CONNECTIONS: row(value.wholeNumber(1, 1_000_000).prefault('10000'))`
      Max client connections; a further one is answered with 503 and Retry-After and closed. The listen backlog is as
      long, at least 511; Linux cuts it to net.core.somaxconn.`,
    RATE_LIMIT_PER_MINUTE: row(value.wholeNumber(0, 10_000_000).prefault('0'), {
      team: true,
    })`
      Requests a minute that one client may send to the swap upstream; past it: 429 with Retry-After. Orders, float and
      plain, are counted apart, up to the same number, so that quotes never take their place. The limit protects the upstream, so these do not count: quotes from the cache or from a call in flight, and refused orders. What was to
      be sent counts, also where it could not be. Payments and webhooks do not count. 0: no limit.`,
    RATE_LIMIT_BY: row(
      value.oneOf(['app-name', 'client-ip', 'both']).prefault('app-name'),
    )`
      What counts as one client: an App-Name (SWAP_APP_NAME for requests without one), a client address (see TRUST_PROXY;
      requests of unknown address share one limit), or an App-Name at an address.`,
    DRAIN_DELAY_MS: row(value.milliseconds(0).optional(), {
      defaultText: '5000 in production, else 0',
    })`
      After SIGTERM: how long new connections are still served while /readyz already answers 503, so that a load balancer
      notices before any connection is refused.`,
    DRAIN_TIMEOUT_MS: row(value.milliseconds(0).prefault('25000'))`
      After DRAIN_DELAY_MS: how long requests in flight may still take before they are cut.`,
  },
  Logs: {
    LOG_LEVEL: row(value.oneOf(levels).prefault('info'))`
      Lowest level that is logged: ${levels.join(', ')}.`,
    LOG_FORMAT: row(value.oneOf(['auto', 'json', 'pretty']).prefault('auto'))`
      auto (readable in a terminal, JSON otherwise), json or pretty.`,
    ACCESS_LOG: row(value.oneOf(['off', 'orders', 'on'], onAndOff).prefault('off'), {
      team: true,
    })`
      orders: one line at info for each decision about a float order, with log: "orders" and without any address. on:
      these, and one line for each request, with log: "access".`,
    LOG_CLIENT_ADDRESS: row(value.oneOf(['masked', 'full', 'none']).prefault('masked'))`
      How a client's address is logged: masked (without its last octet, or its last 64 bits), full, or none.`,
  },
  // The OTEL_ variables that we read. OpenTelemetry reads the others from the environment itself.
  Traces: {
    OTEL_EXPORTER_OTLP_ENDPOINT: row(value.readBy(readCollectorUrl).optional(), {
      secret: 'in-url',
    })`
      The collector that receives spans, an http or https URL such as http://localhost:4318; /v1/traces is appended.
      Without it nothing is traced. Names of OpenTelemetry that are not listed here, such as OTEL_SERVICE_NAME and
      OTEL_EXPORTER_OTLP_HEADERS, are read by OpenTelemetry itself.`,
    OTEL_EXPORTER_OTLP_PROTOCOL: row(
      value.oneOf(['http/protobuf', 'http/json']).prefault('http/protobuf'),
    )`
      How spans are written: http/protobuf or http/json.`,
    OTEL_TRACES_SAMPLER: row(value.oneOf(samplers).prefault('parentbased_traceidratio'))`
      Which requests are traced: ${samplers.join(', ')}. With parentbased_ the sampled flag of a trusted proxy
      (TRUST_PROXY) decides; of any other client only the trace id is taken.`,
    OTEL_TRACES_SAMPLER_ARG: row(value.ratio.prefault('0.01'))`
      The share of traces that the traceidratio samplers record, from 0 to 1.`,
  },
}

/**
 * Every setting: how it is read, its default, what it means. All texts about settings are made from this table.
 * @internal
 */
export const settings = z.object({
  ...groups.Listeners,
  ...groups.Upstreams,
  ...groups['TLS and the proxy to upstreams'],
  ...groups['Client address'],
  ...groups.Quotes,
  ...groups.Orders,
  ...groups['Several replicas'],
  ...groups.Limits,
  ...groups.Logs,
  ...groups.Traces,
})

/** @internal */
export type SettingValues = z.output<typeof settings>

// Without a type of its own, so that the declarations of the package list the names, and need no zod.
export const settingNames = settings.keyof().options
export type SettingName = (typeof settingNames)[number]

export const settingGroups = Object.entries(groups).map(([title, rows]) => {
  return { title, names: Object.keys(rows) as SettingName[] }
})

/** The secrets that may also be in files, by the names that name the files. */
export const secretsInFiles = {
  ADMIN_TOKEN_FILE: 'ADMIN_TOKEN',
  SWAP_AUTHORIZATION_FILE: 'SWAP_AUTHORIZATION',
  UPSTREAM_PROXY_FILE: 'UPSTREAM_PROXY',
  VALKEY_URL_FILE: 'VALKEY_URL',
} as const satisfies Record<string, SettingName>

export function isSettingName(name: string): name is SettingName {
  return Object.hasOwn(settings.shape, name)
}

/** Also the names of the files of secrets. */
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

/** The texts that it may be, or usually is; undefined for a setting that is not one of a few. */
export function choicesOf(name: SettingName): readonly string[] | undefined {
  const { choices } = factsOf(name)
  if (choices !== undefined) return choices
  let schema: unknown = settings.shape[name]
  if (schema instanceof z.ZodPrefault) schema = schema.def.innerType
  if (schema instanceof z.ZodPipe) schema = schema.def.out
  return schema instanceof z.ZodEnum ? schema.options.map(String) : undefined
}
