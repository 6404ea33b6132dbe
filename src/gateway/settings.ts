// Generated from src/config/settings.ts by `npm run docs`. Edits here are lost.
import type { SettingValue } from '../config/problems.ts'

/**
 * Editors suggest the choices. Any other text is accepted here, because the values of
 * `process.env` are texts, and refused by createGateway() if it is none of the choices.
 */
type OneOf<Choice extends string> =
  | Choice
  | (string & {})
  | Exclude<SettingValue, string>
  | undefined

/** By the names that they have in the environment. A list may also be an array. */
export type GatewaySettings = {
  /**
   * Address of the traffic listener. The container image sets 0.0.0.0.
   * @default 127.0.0.1
   */
  readonly HOST?: SettingValue | undefined
  /**
   * Port of the traffic listener; 0 takes any free port. The log says which.
   * @default 8080
   */
  readonly PORT?: SettingValue | undefined
  /**
   * Address of the operations listener (metrics, health, console).
   * @default the value of HOST
   */
  readonly ADMIN_HOST?: SettingValue | undefined
  /**
   * Port of the operations listener; 0 takes any free port.
   * @default 8081
   */
  readonly ADMIN_PORT?: SettingValue | undefined
  /**
   * Token for the console, 16 to 512 visible ASCII characters. It is sent as
   * Authorization: Bearer. Without it anyone who reaches the operations listener has full
   * access; in production the console is then read-only and shows no request details.
   * @default none
   */
  readonly ADMIN_TOKEN?: SettingValue | undefined
  /**
   * Host names of the console, besides localhost and any IP address. Under any other name
   * the console and /status refuse (DNS rebinding). /metrics, /openapi.json, /runbook,
   * /healthz and /readyz answer under any name.
   * @default none
   */
  readonly ADMIN_ALLOWED_HOSTS?: SettingValue | undefined
  /**
   * production requires SWAP_BASE_URL and refuses the sandbox. The sandbox then never
   * serves real users by accident. Any other value changes nothing.
   * @default none
   */
  readonly NODE_ENV?: SettingValue | undefined
  /**
   * The swap API, an http or https URL, or the built-in sandbox. A path prefix in the URL
   * is kept.
   * @default sandbox; none in production, where it is required
   */
  readonly SWAP_BASE_URL?: SettingValue | undefined
  /**
   * The payments API. Without one, the payments paths answer 404 with the reason.
   * @default sandbox if SWAP_BASE_URL is the sandbox, else none
   */
  readonly PAYMENTS_BASE_URL?: SettingValue | undefined
  /**
   * Path prefixes that go to the payments API, separated by commas. / sends everything
   * that is not /v3, another /v<number> (another version answers 404, and may not be
   * listed) or /webhooks. Every other path answers 404, naming this setting.
   * @default
   * /checkouts,/subscriptions,/subscription-checkouts,/refunds,/payments,/merchants,/settings
   */
  readonly PAYMENTS_PATHS?: SettingValue | undefined
  /**
   * Where /webhooks and everything below it goes. It goes with any method, byte for byte,
   * and its whole target is appended to this URL.
   * @default none
   */
  readonly WEBHOOKS_BASE_URL?: SettingValue | undefined
  /**
   * App-Name sent to the swap API when the caller sent none.
   * @default none
   */
  readonly SWAP_APP_NAME?: SettingValue | undefined
  /**
   * App-Version sent to the swap API when the caller sent none.
   * @default none
   */
  readonly SWAP_APP_VERSION?: SettingValue | undefined
  /**
   * Authorization sent to the swap API when the caller sent none. Anyone who reaches the
   * traffic port then uses this key: keep HOST on loopback, or the port behind something
   * that checks callers.
   * @default none
   */
  readonly SWAP_AUTHORIZATION?: SettingValue | undefined
  /**
   * PEM file of the authorities that are trusted for SWAP_BASE_URL. It replaces the
   * system's authorities; NODE_EXTRA_CA_CERTS adds to those instead.
   * @default none
   */
  readonly SWAP_CA_FILE?: SettingValue | undefined
  /**
   * PEM file of the gateway's certificate for SWAP_BASE_URL (mutual TLS). It holds the
   * intermediates too, and needs SWAP_KEY_FILE.
   * @default none
   */
  readonly SWAP_CERT_FILE?: SettingValue | undefined
  /**
   * PEM file of the key of SWAP_CERT_FILE, without a passphrase.
   * @default none
   */
  readonly SWAP_KEY_FILE?: SettingValue | undefined
  /**
   * As SWAP_CA_FILE, for PAYMENTS_BASE_URL and WEBHOOKS_BASE_URL.
   * @default none
   */
  readonly PAYMENTS_CA_FILE?: SettingValue | undefined
  /**
   * As SWAP_CERT_FILE, for PAYMENTS_BASE_URL and WEBHOOKS_BASE_URL. Needs
   * PAYMENTS_KEY_FILE.
   * @default none
   */
  readonly PAYMENTS_CERT_FILE?: SettingValue | undefined
  /**
   * PEM file of the key of PAYMENTS_CERT_FILE, without a passphrase.
   * @default none
   */
  readonly PAYMENTS_KEY_FILE?: SettingValue | undefined
  /**
   * The http URL of the proxy through which https upstreams are reached. It is asked with
   * CONNECT and resolves their names. With user and password, percent-encoded:
   * http://user:password@proxy.example.com:3128. An http upstream is connected to
   * directly, and so is the store. HTTPS_PROXY and NO_PROXY change nothing.
   * @default none
   */
  readonly UPSTREAM_PROXY?: SettingValue | undefined
  /**
   * Proxies whose header with the user's address is trusted. They are addresses, CIDRs,
   * or the names loopback, linklocal, uniquelocal, separated by commas. Host bits of a
   * CIDR are masked; IPv4-mapped entries count as IPv4.
   * @default none
   */
  readonly TRUST_PROXY?: SettingValue | undefined
  /**
   * The one header in which trusted proxies send the user's address. It is forwarded,
   * x-forwarded-for (most proxies), or a one-address header such as cf-connecting-ip. If
   * they send another one in its place, or none, the provider sees the proxy for all its
   * users, and the log says so. If it names no user, the provider gets for=unknown and
   * the quote is not shared, unless QUOTE_PARTITION=none shares all quotes.
   * @default forwarded
   */
  readonly CLIENT_IP_HEADER?: SettingValue | undefined
  /**
   * Which users may share a cached quote. ip: users of one address. header: users of one
   * place, as a trusted proxy names it in QUOTE_PARTITION_HEADER; a hit then ignores
   * availability rules finer than that place (a state, a sanctioned region). none: all
   * users; right only where the provider never refuses by place. The more users share,
   * the fewer calls, and the more often a hit shows a quote to a user whom the provider
   * would have refused. An order is judged by the quotes of its whole partition
   * (docs/orders.md).
   * @default ip
   */
  readonly QUOTE_PARTITION?: OneOf<'ip' | 'header' | 'none'>
  /**
   * Headers in which a trusted proxy names the user's place. One is enough, such as
   * cf-ipcountry; several are joined into one place:
   * cloudfront-viewer-country,cloudfront-viewer-country-region. A region needs a country
   * beside it, in a header whose name ends in country, country-code or country-name. If
   * one of them is absent, repeated, a placeholder (such as XX, T1, EU, - or unknown) or
   * sent by an untrusted peer, the request is partitioned by ip. They are never sent to
   * the provider.
   * @default none; required by QUOTE_PARTITION=header
   */
  readonly QUOTE_PARTITION_HEADER?: SettingValue | undefined
  /**
   * Request headers that the provider sees on a quote. Each is part of the cache key; no
   * other header of the caller is forwarded, except the trace context. Must include
   * app-name.
   * @default app-name,app-version,user-agent,authorization
   */
  readonly QUOTE_KEY_HEADERS?: SettingValue | undefined
  /**
   * How many quotes are kept in memory, which take at most 64 MiB. The least recently
   * used are dropped first.
   * @default 100000, fewer under a small heap limit
   */
  readonly QUOTE_CACHE_ENTRIES?: SettingValue | undefined
  /**
   * A cached quote with less time left than this is fetched again. The user then has time
   * to order. While the call fails or a limit forbids it, and if the provider repeats the
   * quote, the cached one is served to its end. 0: to its end, without a call. The
   * default costs up to a quarter more calls than 0 (docs/runbook.md).
   * @default a fifth of what the quote had left when it came, at most 5000
   */
  readonly QUOTE_MIN_VALIDITY_MS?: SettingValue | undefined
  /**
   * How early a cached quote that is requested is fetched again. It is fetched in the
   * background, this long before QUOTE_MIN_VALIDITY_MS has it fetched again, so that
   * users of a busy pair see no miss. Off at 0.
   * @default 0
   */
  readonly QUOTE_REFRESH_AHEAD_MS?: SettingValue | undefined
  /**
   * Whether lists of rates are shared and cached like quotes. on: GET
   * /v3/pairs/:pair/rates is, until the first of its rates expires, with no header of the
   * caller but those in QUOTE_KEY_HEADERS. A list without an expiry in each rate is
   * relayed. off: rates pass like the rest of /v3.
   * @default off
   */
  readonly SHARE_RATES?: OneOf<'off' | 'on'>
  /**
   * Pairs with a label of their own in the metrics. There are at most 20, separated by
   * commas; all others count as other.
   * @default none
   */
  readonly METRICS_PAIRS?: SettingValue | undefined
  /**
   * What becomes of float orders whose quote has expired. refuse: 409 quote-expired;
   * report: they are sent and reported. A reported order is counted, logged and shown in
   * the console as one that would have been refused. report:shop,wallet reports the late
   * orders of these applications (App-Name, in the same case), and refuses all others.
   * @default refuse
   */
  readonly ORDER_EXPIRED_QUOTE?: OneOf<'refuse' | 'report'>
  /**
   * Whether float orders that match no quote are sent: forward or refuse. They are
   * refused with 409 quote-unknown. While the shared store is down they are forwarded,
   * because another replica may have served the quote.
   * @default forward
   */
  readonly ORDER_UNKNOWN_QUOTE?: OneOf<'forward' | 'refuse'>
  /**
   * How long before its quote's end a float order is refused as expired. Set
   * QUOTE_MIN_VALIDITY_MS at least as high, or quotes are served that orders can no
   * longer use. Its default is enough for a margin of up to 5000, if quotes live five
   * times as long as the margin.
   * @default 0
   */
  readonly ORDER_EXPIRY_MARGIN_MS?: SettingValue | undefined
  /**
   * Where an order may name its quote. These are member names, with dots into nested
   * objects. An unknown id in any of these fields except a bare id makes the order
   * unknown: it is not judged by its terms.
   * @default quoteId,quote.id,id
   */
  readonly ORDER_QUOTE_ID_FIELDS?: SettingValue | undefined
  /**
   * How many quotes are remembered, each for a day past its expiry. By them a late order
   * is known to be late.
   * @default 200000, fewer under a small heap limit
   */
  readonly LEDGER_ENTRIES?: SettingValue | undefined
  /**
   * A folder for what has to survive a restart, a crash and a kill. These are the ledger
   * of quotes, their uses and the keys of orders. Only one process can use it; it is
   * created if it is missing. Without it, a restart forgets the ledger, and late orders
   * for older quotes are sent.
   * @default none
   */
  readonly STATE_DIRECTORY?: SettingValue | undefined
  /**
   * The Valkey, or Redis 7 or later, that all replicas share. It has their quotes, the
   * journal, the keys of orders and the rate limits. Without it, each replica has its own
   * cache, so set it as soon as there are two.
   * redis://[[user]:password@]host[:port][/database], rediss:// with TLS,
   * redis+sentinel://host:port,host:port/master-name,
   * redis+cluster://host:port,host:port; with TLS rediss+sentinel and rediss+cluster;
   * each may also be written with valkey for redis. The password of the Sentinels:
   * ?sentinelPassword=. While the store is down, each replica works on its own.
   * @default none
   */
  readonly VALKEY_URL?: SettingValue | undefined
  /**
   * Prefix of every key in the store. Replicas with the same prefix are one gateway: give
   * another stage, or other upstreams, another prefix.
   * @default quotegate:
   */
  readonly VALKEY_KEY_PREFIX?: SettingValue | undefined
  /**
   * Timeout of one call to the store. While the oldest call has waited that long,
   * requests go on without the store.
   * @default 50
   */
  readonly VALKEY_TIMEOUT_MS?: SettingValue | undefined
  /**
   * Time from a quote request or float order to the end of its answer. It counts from the
   * last byte of the request, and at most half of it is spent waiting for a free
   * connection.
   * @default 15000
   */
  readonly UPSTREAM_TOTAL_TIMEOUT_MS?: SettingValue | undefined
  /**
   * Time from the end of a request to the head of its answer. It may take up to one
   * second longer. Connecting may take 3 s, and a pause within the answer 30 s. At most
   * this long, too, is waited for a free connection.
   * @default 10000
   */
  readonly UPSTREAM_HEADERS_TIMEOUT_MS?: SettingValue | undefined
  /**
   * How many connections each upstream has at most. An eighth of those to the swap API
   * (at least one, if there are several) is reserved for float orders. Requests with a
   * streamed body use at most a quarter, and at least one. Eight times as many requests
   * may wait, for a second at most (float orders: two); then, and past them at once, it
   * is 503 with Retry-After, unsent.
   * @default 128
   */
  readonly UPSTREAM_CONNECTIONS?: SettingValue | undefined
  /**
   * How many connections callers have at most. A further one is answered with 503 and
   * Retry-After and closed. The listen backlog is as long, at least 511; Linux cuts it to
   * net.core.somaxconn.
   * @default 10000
   */
  readonly CLIENT_CONNECTIONS?: SettingValue | undefined
  /**
   * Max requests a minute from one application or user to the swap API. RATE_LIMIT_BY
   * says which. Further ones are answered with 429 and Retry-After. Orders, float and
   * plain, are counted apart, up to the same number, so that quotes never take their
   * place. The limit protects the upstream, so these do not count: quotes from the cache
   * or from a call in flight, and refused orders. What was to be sent counts, also where
   * it could not be. Payments and webhooks do not count. 0: no limit.
   * @default 0
   */
  readonly RATE_LIMIT_PER_MINUTE?: SettingValue | undefined
  /**
   * By what RATE_LIMIT_PER_MINUTE counts. It is the App-Name (SWAP_APP_NAME for requests
   * without one), the user's address (see TRUST_PROXY; requests of unknown address share
   * one limit), or the App-Name at an address.
   * @default app-name
   */
  readonly RATE_LIMIT_BY?: OneOf<'app-name' | 'client-ip' | 'both'>
  /**
   * How long new connections are still served after SIGTERM. /readyz already answers 503,
   * so that a load balancer notices before any connection is refused.
   * @default 5000 in production, else 0
   */
  readonly DRAIN_DELAY_MS?: SettingValue | undefined
  /**
   * How long requests in flight may take after that, before they are cut.
   * @default 25000
   */
  readonly DRAIN_TIMEOUT_MS?: SettingValue | undefined
  /**
   * The lowest level that is logged. The levels are trace, debug, info, warn, error,
   * fatal, silent.
   * @default info
   */
  readonly LOG_LEVEL?: OneOf<
    'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent'
  >
  /**
   * auto (readable in a terminal, JSON otherwise), json or pretty.
   * @default auto
   */
  readonly LOG_FORMAT?: OneOf<'auto' | 'json' | 'pretty'>
  /**
   * off, orders (a line a float order) or on (a line a request). They are logged at info.
   * The lines of orders have log: "orders" and no address. With on there are both; the
   * lines of requests have log: "access".
   * @default off
   */
  readonly ACCESS_LOG?: OneOf<'off' | 'orders' | 'on'>
  /**
   * How a user's address is logged: masked, full or none. A masked one lacks its last
   * octet, or its last 64 bits.
   * @default masked
   */
  readonly LOG_CLIENT_ADDRESS?: OneOf<'masked' | 'full' | 'none'>
  /**
   * The http or https URL of the collector that receives spans. /v1/traces is appended,
   * to http://localhost:4318 for example. Without it nothing is traced. Names of
   * OpenTelemetry that are not listed here, such as OTEL_SERVICE_NAME and
   * OTEL_EXPORTER_OTLP_HEADERS, are read by OpenTelemetry itself.
   * @default none
   */
  readonly OTEL_EXPORTER_OTLP_ENDPOINT?: SettingValue | undefined
  /**
   * How spans are written: http/protobuf or http/json.
   * @default http/protobuf
   */
  readonly OTEL_EXPORTER_OTLP_PROTOCOL?: OneOf<'http/protobuf' | 'http/json'>
  /**
   * Which requests are traced. The samplers are always_on, always_off, traceidratio,
   * parentbased_always_on, parentbased_always_off, parentbased_traceidratio. With
   * parentbased_ the sampled flag of a trusted proxy (TRUST_PROXY) decides; of any other
   * caller only the trace id is taken.
   * @default parentbased_traceidratio
   */
  readonly OTEL_TRACES_SAMPLER?: OneOf<
    | 'always_on'
    | 'always_off'
    | 'traceidratio'
    | 'parentbased_always_on'
    | 'parentbased_always_off'
    | 'parentbased_traceidratio'
  >
  /**
   * The share of traces that the traceidratio samplers record.
   * @default 0.01
   */
  readonly OTEL_TRACES_SAMPLER_ARG?: SettingValue | undefined
  /**
   * The path of a file that holds ADMIN_TOKEN.
   */
  readonly ADMIN_TOKEN_FILE?: SettingValue | undefined
  /**
   * The path of a file that holds SWAP_AUTHORIZATION.
   */
  readonly SWAP_AUTHORIZATION_FILE?: SettingValue | undefined
  /**
   * The path of a file that holds UPSTREAM_PROXY.
   */
  readonly UPSTREAM_PROXY_FILE?: SettingValue | undefined
  /**
   * The path of a file that holds VALKEY_URL.
   */
  readonly VALKEY_URL_FILE?: SettingValue | undefined
}
