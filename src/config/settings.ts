import { z } from 'zod'
import {
  anyText,
  baseUrl,
  baseUrlOrSandbox,
  clientIpHeader,
  headerValue,
  host,
  hostNames,
  keyPrefix,
  metricsPairs,
  milliseconds,
  oneOf,
  onOrOff,
  pathPrefixes,
  placeHeader,
  port,
  quoteIdFields,
  quoteKeyHeaders,
  storeUrl,
  token,
  trustedPeers,
  wholeNumber,
} from './value-schemas.ts'

export const settingGroups = [
  'Listeners',
  'Upstreams',
  'Client address',
  'Quotes',
  'Orders',
  'Several replicas',
  'Limits',
  'Logs',
] as const

export interface SettingFacts {
  group: (typeof settingGroups)[number]
  meaning: string
  /** For a default that depends on other settings. */
  defaultText?: string
  /** What is masked wherever the value is shown: all of it, or what a URL may hide. */
  secret?: 'whole' | 'in-url'
}

const facts = z.registry<SettingFacts>()

const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
const partitionModes = ['ip', 'header', 'none'] as const
const logFormats = ['auto', 'json', 'pretty'] as const

/** Every setting there is: how it is read, its default, what it means. All texts are made from this table. */
export const settings = z.object({
  HOST: host.prefault('127.0.0.1').register(facts, {
    group: 'Listeners',
    meaning: 'Address of the traffic listener. The container image sets 0.0.0.0.',
  }),
  PORT: port.prefault('8080').register(facts, {
    group: 'Listeners',
    meaning: 'Port of the traffic listener; 0 takes any free port and prints it.',
  }),
  ADMIN_HOST: host.optional().register(facts, {
    group: 'Listeners',
    defaultText: 'the value of HOST',
    meaning: 'Address of the operations listener (metrics, health, console).',
  }),
  ADMIN_PORT: port.prefault('8081').register(facts, {
    group: 'Listeners',
    meaning: 'Port of the operations listener; 0 takes any free port and prints it.',
  }),
  ADMIN_TOKEN: token.optional().register(facts, {
    group: 'Listeners',
    secret: 'whole',
    meaning:
      'What the console has to be told before it shows request details or changes anything, sent as ' +
      'Authorization: Bearer; 16 to 512 visible ASCII characters. Without one: everybody who reaches the ' +
      'operations listener may, but in production nobody.',
  }),
  ADMIN_ALLOWED_HOSTS: hostNames.optional().register(facts, {
    group: 'Listeners',
    meaning:
      'Names by which the console and /status may be reached, besides localhost and any IP address; to other ' +
      'names they do not answer (DNS rebinding). /metrics, /openapi.json, /healthz and /readyz answer to any name.',
  }),
  NODE_ENV: anyText
    .toLowerCase()
    .optional()
    .register(facts, {
      group: 'Upstreams',
      meaning:
        'With production, SWAP_BASE_URL is required and the sandbox is refused, so that it never serves real ' +
        'users by accident. Any other value changes nothing.',
    }),
  SWAP_BASE_URL: baseUrlOrSandbox.prefault('sandbox').register(facts, {
    group: 'Upstreams',
    secret: 'in-url',
    defaultText: 'sandbox; none in production, where it is required',
    meaning: 'The swap upstream, an http or https URL (a path prefix is kept), or the built-in sandbox.',
  }),
  SWAP_APP_NAME: headerValue.optional().register(facts, {
    group: 'Upstreams',
    meaning: 'App-Name sent to the swap upstream when the caller sent none.',
  }),
  SWAP_APP_VERSION: headerValue.optional().register(facts, {
    group: 'Upstreams',
    meaning: 'App-Version sent to the swap upstream when the caller sent none.',
  }),
  SWAP_AUTHORIZATION: headerValue.optional().register(facts, {
    group: 'Upstreams',
    secret: 'whole',
    meaning:
      'Authorization sent to the swap upstream when the caller sent none. It lends the key to whoever ' +
      'reaches the traffic port: keep HOST on loopback, or the port behind something that checks callers.',
  }),
  PAYMENTS_BASE_URL: baseUrlOrSandbox.optional().register(facts, {
    group: 'Upstreams',
    secret: 'in-url',
    defaultText: 'sandbox if SWAP_BASE_URL is the sandbox, else none',
    meaning: 'The payments upstream. Without one, the payments paths answer 404 with the reason.',
  }),
  PAYMENTS_PATHS: pathPrefixes.prefault('/checkouts,/subscriptions,/refunds').register(facts, {
    group: 'Upstreams',
    meaning:
      'Path prefixes that go to the payments upstream, separated by commas; / sends everything that is not ' +
      '/v3 or /webhooks. Every other path answers 404, naming this setting.',
  }),
  WEBHOOKS_BASE_URL: baseUrl.optional().register(facts, {
    group: 'Upstreams',
    secret: 'in-url',
    meaning:
      'If set, /webhooks and everything below goes there: any method, byte for byte, the whole target ' +
      'appended to this URL.',
  }),
  TRUST_PROXY: trustedPeers.optional().register(facts, {
    group: 'Client address',
    meaning:
      'Peers whose client-address header is believed: addresses, CIDRs, or the names loopback, linklocal, ' +
      'uniquelocal, separated by commas. Host bits of a CIDR are masked; IPv4-mapped entries count as IPv4.',
  }),
  CLIENT_IP_HEADER: clientIpHeader.prefault('forwarded').register(facts, {
    group: 'Client address',
    meaning:
      'The one header those peers speak: forwarded, x-forwarded-for, or a one-address header such as ' +
      'cf-connecting-ip.',
  }),
  QUOTE_PARTITION: oneOf(partitionModes)
    .prefault('ip')
    .register(facts, {
      group: 'Quotes',
      meaning:
        'Who may share a cached quote. ip: requests of one client address. header: clients of one place, as a ' +
        'trusted peer names it in ' +
        'QUOTE_PARTITION_HEADER; an availability rule finer than that place (a state, a sanctioned region) is ' +
        'then not seen on a hit. none: everybody, right only where the provider never refuses by place. The ' +
        'more share, the fewer calls, and the more a hit may show a quote to somebody whom the provider would ' +
        'have refused.',
    }),
  QUOTE_PARTITION_HEADER: placeHeader.optional().register(facts, {
    group: 'Quotes',
    defaultText: 'none; required by QUOTE_PARTITION=header',
    meaning:
      'What a trusted peer says of the place of the client, such as cf-ipcountry or ' +
      'cloudfront-viewer-country-region. Absent, repeated, unknown (XX) or from an untrusted peer: that ' +
      'request is partitioned by ip. It is never sent to the provider.',
  }),
  QUOTE_KEY_HEADERS: quoteKeyHeaders
    .prefault('app-name,app-version,user-agent,authorization')
    .register(facts, {
      group: 'Quotes',
      meaning:
        'Request headers that the provider sees on a quote; every one is part of the cache key, and nothing ' +
        'else of the client is forwarded (trace context aside). Must hold app-name.',
    }),
  QUOTE_CACHE_ENTRIES: wholeNumber(1, 10_000_000).prefault('100000').register(facts, {
    group: 'Quotes',
    meaning: 'Quotes kept in memory at most; the least recently used go first.',
  }),
  QUOTE_CACHE_BYTES: wholeNumber(1_024, 68_719_476_736).prefault('67108864').register(facts, {
    group: 'Quotes',
    meaning: 'Bytes of quotes kept in memory at most.',
  }),
  QUOTE_MAX_BYTES: wholeNumber(1, 1_048_576).prefault('16384').register(facts, {
    group: 'Quotes',
    meaning: 'Largest quote that is kept; a larger answer is relayed.',
  }),
  QUOTE_OBEY_CACHE_CONTROL: onOrOff.prefault('false').register(facts, {
    group: 'Quotes',
    meaning:
      'true: a quote that the provider marks no-store or private is relayed to its one caller and not kept. ' +
      'Off by default because many APIs say no-store on everything, and a quote states its own expiry.',
  }),
  QUOTE_MIN_VALIDITY_MS: milliseconds(0).prefault('0').register(facts, {
    group: 'Quotes',
    meaning: 'A cached quote with less left than this is fetched anew.',
  }),
  QUOTE_REFRESH_AHEAD_MS: milliseconds(0)
    .prefault('0')
    .register(facts, {
      group: 'Quotes',
      meaning:
        'A cached quote that is asked for this close to its expiry is fetched anew in the background, so that ' +
        'a pair in demand shows nobody a miss; 0, or no more than QUOTE_MIN_VALIDITY_MS: never.',
    }),
  QUOTE_EVICT_ON_ORDER: onOrOff.prefault('true').register(facts, {
    group: 'Quotes',
    meaning: 'A quote that an accepted order used is not handed out again.',
  }),
  METRICS_PAIRS: metricsPairs.optional().register(facts, {
    group: 'Quotes',
    meaning:
      'Pairs that get a label of their own in the metrics, 20 at most, separated by commas; every other pair ' +
      'is counted as other.',
  }),
  ORDER_UNKNOWN_QUOTE: oneOf(['forward', 'refuse'])
    .prefault('forward')
    .register(facts, {
      group: 'Orders',
      meaning:
        'Float orders that match no quote seen here: forward them, or refuse them with 409 quote-unknown. While ' +
        'the shared store cannot be asked they are forwarded: another replica may have served the quote.',
    }),
  ORDER_EXPIRY_MARGIN_MS: milliseconds(0)
    .prefault('0')
    .register(facts, {
      group: 'Orders',
      meaning:
        'A float order whose quote has less than this left is refused as expired. QUOTE_MIN_VALIDITY_MS should ' +
        'be no less, or quotes are served that no order can use any more.',
    }),
  ORDER_QUOTE_ID_FIELDS: quoteIdFields.prefault('quoteId,quote.id,id').register(facts, {
    group: 'Orders',
    meaning: 'Where an order may name its quote: member names, with dots into nested objects.',
  }),
  LEDGER_ENTRIES: wholeNumber(1, 10_000_000).prefault('200000').register(facts, {
    group: 'Orders',
    meaning: 'Quotes remembered past their expiry at most, so that a late order hears "expired".',
  }),
  LEDGER_RETENTION_MS: wholeNumber(0, 2_592_000_000, ' of milliseconds')
    .prefault('86400000')
    .register(facts, {
      group: 'Orders',
      meaning: 'How long past its expiry a quote is remembered by its id. 0: every late order is unknown.',
    }),
  LEDGER_TERMS_MS: wholeNumber(0, 2_592_000_000, ' of milliseconds')
    .prefault('900000')
    .register(facts, {
      group: 'Orders',
      meaning:
        'How long past its expiry a quote is remembered by its terms (pair, amounts, application), at most ' +
        'LEDGER_RETENTION_MS. Shorter, because between stable assets the same terms come again. 0: a late order ' +
        'that names no quote is unknown.',
    }),
  VALKEY_URL: storeUrl.optional().register(facts, {
    group: 'Several replicas',
    secret: 'in-url',
    meaning:
      'The Redis or Valkey that replicas share quotes, the ledger and rate limits through; needed as soon as ' +
      'there are two. redis://[[user]:password@]host[:port][/database], rediss:// with TLS, ' +
      'redis+sentinel://host:port,host:port/master-name, redis+cluster://host:port,host:port; with TLS ' +
      'rediss+sentinel and rediss+cluster; valkey is as good as redis in all of them. Sentinels that want a ' +
      'password: ?sentinelPassword=. While it is down every replica goes on by itself.',
  }),
  VALKEY_KEY_PREFIX: keyPrefix.prefault('quotegate:').register(facts, {
    group: 'Several replicas',
    meaning:
      'What every key and channel in it begins with. Replicas with the same prefix are one gateway: keep ' +
      'those with other upstreams, or of another stage, apart.',
  }),
  VALKEY_TIMEOUT_MS: wholeNumber(1, 10_000, ' of milliseconds')
    .prefault('50')
    .register(facts, {
      group: 'Several replicas',
      meaning:
        'The longest that one call of it takes; a request makes about three. After a call in vain it is not ' +
        'asked again until it has answered in the background, so that nobody waits in vain twice.',
    }),
  VALKEY_LOCK_WAIT_MS: milliseconds(0).prefault('3000').register(facts, {
    group: 'Several replicas',
    meaning:
      'How long a replica waits for a quote that another one is fetching, before it fetches that quote itself.',
  }),
  UPSTREAM_TOTAL_TIMEOUT_MS: milliseconds().prefault('15000').register(facts, {
    group: 'Limits',
    meaning: 'Quotes and orders: time from the request to the last byte of the answer.',
  }),
  UPSTREAM_CONNECT_TIMEOUT_MS: milliseconds().prefault('3000').register(facts, {
    group: 'Limits',
    meaning: 'Time to connect to an upstream, TLS included.',
  }),
  UPSTREAM_HEADERS_TIMEOUT_MS: milliseconds()
    .prefault('10000')
    .register(facts, {
      group: 'Limits',
      meaning:
        "Time from the end of the request's body to the head of the upstream's answer. Kept to within a second: it " +
        'may take up to one longer.',
    }),
  UPSTREAM_BODY_TIMEOUT_MS: milliseconds()
    .prefault('30000')
    .register(facts, {
      group: 'Limits',
      meaning:
        "Longest pause between two chunks of an upstream's answer, and the longest that a client may stop " +
        'reading it. Kept to within a second: it may take up to one longer.',
    }),
  UPSTREAM_CONNECTIONS: wholeNumber(1, 65_535).prefault('128').register(facts, {
    group: 'Limits',
    meaning: 'Connections per upstream.',
  }),
  UPSTREAM_QUEUE: wholeNumber(0, 1_000_000).prefault('1024').register(facts, {
    group: 'Limits',
    meaning: 'Requests per upstream that may wait for a connection; past that: 503 with Retry-After at once.',
  }),
  UPSTREAM_RETRIES: wholeNumber(0, 5)
    .prefault('1')
    .register(facts, {
      group: 'Limits',
      meaning:
        'How often a request is sent again that the upstream cannot have seen, or a GET or HEAD whose ' +
        'connection died before any answer; never after a timeout, and within 10% of the recent requests. ' +
        '0: never.',
    }),
  BREAKER_FAILURES: wholeNumber(1, 1_000_000)
    .prefault('5')
    .register(facts, {
      group: 'Limits',
      meaning:
        'Failures in a row after which an upstream is not asked for a while: failed connections, resets, ' +
        'timeouts, 502, 503 and 504; on the payments side and for webhooks failed connections only.',
    }),
  BREAKER_OPEN_MS: milliseconds().prefault('5000').register(facts, {
    group: 'Limits',
    meaning: 'How long it is not asked before one request may try; meanwhile: 503 with Retry-After.',
  }),
  CLIENT_CONNECTIONS: wholeNumber(1, 1_000_000).prefault('10000').register(facts, {
    group: 'Limits',
    meaning: 'Connections of clients; one more is answered with 503 and Retry-After and closed.',
  }),
  RATE_LIMIT_PER_MINUTE: wholeNumber(0, 10_000_000)
    .prefault('0')
    .register(facts, {
      group: 'Limits',
      meaning:
        'Requests a minute that one client may send to the swap upstream; past it: 429 with Retry-After. It ' +
        'protects the upstream: quotes from the cache or from a call under way, orders refused here, and what ' +
        'could not be sent, are free. Payments and webhooks never count. 0: no limit.',
    }),
  RATE_LIMIT_BY: oneOf(['app-name', 'client-ip', 'both'])
    .prefault('app-name')
    .register(facts, {
      group: 'Limits',
      meaning:
        'What one client is to that limit: an App-Name (SWAP_APP_NAME where there is none), a client address ' +
        '(see TRUST_PROXY; unknown ones share one limit), or an App-Name at an address.',
    }),
  RATE_LIMIT_HITS: onOrOff.prefault('false').register(facts, {
    group: 'Limits',
    meaning: 'true: every quote counts, also from the cache or from a call under way.',
  }),
  REQUEST_HEAD_TIMEOUT_MS: milliseconds().prefault('10000').register(facts, {
    group: 'Limits',
    meaning: "Deadline for a client's request head.",
  }),
  REQUEST_BODY_IDLE_TIMEOUT_MS: milliseconds().prefault('30000').register(facts, {
    group: 'Limits',
    meaning: "Longest pause in a client's request body; past it: 408.",
  }),
  DRAIN_DELAY_MS: milliseconds(0)
    .optional()
    .register(facts, {
      group: 'Limits',
      defaultText: '5000 in production, else 0',
      meaning:
        'After SIGTERM: how long new connections are still served while /readyz says 503 already, so that a ' +
        'load balancer has noticed before anybody is refused.',
    }),
  DRAIN_TIMEOUT_MS: milliseconds(0).prefault('25000').register(facts, {
    group: 'Limits',
    meaning: 'How long requests in flight may take from then on; what is left is cut.',
  }),
  LOG_LEVEL: oneOf(logLevels)
    .prefault('info')
    .register(facts, {
      group: 'Logs',
      meaning: `Least severe level that is logged: ${logLevels.join(', ')}.`,
    }),
  LOG_FORMAT: oneOf(logFormats).prefault('auto').register(facts, {
    group: 'Logs',
    meaning: 'auto (readable in a terminal, JSON otherwise), json or pretty.',
  }),
})

/** Settings of earlier versions, and what counts instead. They change nothing. */
export const goneSettings = {
  FAST_LANE: 'every request takes the one way through Express, which costs what the fast lane did',
} as const

/** Values of earlier versions, what each is taken as, and why. */
export const goneValues: readonly { name: SettingName; value: string; takenAs: string; why: string }[] = [
  {
    name: 'QUOTE_PARTITION',
    value: 'prefix',
    takenAs: 'ip',
    why: 'neighbouring addresses may be in different places',
  },
]

export type SettingName = keyof typeof settings.shape
export type GoneSettingName = keyof typeof goneSettings
export type SettingValues = z.output<typeof settings>

export const settingNames: readonly SettingName[] = settings.keyof().options

export function isSettingName(name: string): name is SettingName {
  return Object.hasOwn(settings.shape, name)
}

export function factsOf(name: SettingName): SettingFacts {
  const found = facts.get(settings.shape[name])
  if (found === undefined) throw new Error(`the setting ${name} has no row of facts`)
  return found
}

/** The default as it would be written in the environment; undefined when there is none, or none that is fixed. */
export function fixedDefault(name: SettingName): string | undefined {
  const schema = settings.shape[name]
  return schema instanceof z.ZodPrefault ? String(schema.def.defaultValue) : undefined
}

/** The text of a value, fit for a terminal or a log: one line, not endless, no secret in it. */
export function shownValue(text: string, secret: SettingFacts['secret']): string {
  if (text === '') return text
  if (secret === 'whole') return '****'
  const masked =
    secret === 'in-url'
      ? text
          .replace(/^((?:https?|(?:redis|valkey)s?(?:\+\w+)?):\/\/)?.*@/is, '$1****@')
          .replace(/([?#]).*$/s, '$1****')
          // A password whose host was forgotten: what is behind a colon and is no port.
          .replace(
            /^((?:redis|valkey)s?(?:\+\w+)?:\/\/(?![^/]*\[)[^:/]*:)(?!\d{1,5}(?:[,/]|$))[^@]*$/is,
            '$1****',
          )
      : text
  const short = masked.length > 200 ? `${masked.slice(0, 200)}…` : masked
  // Control characters could rewrite a terminal's lines.
  return short.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}
