import { blocksHold, parseAddressBlock } from '../http/ip-address.ts'
import { type UpstreamFacts, upstreamNames, upstreamTable } from '../http/upstreams.ts'
import { canonicalHost, isLoopback, isWildcard } from './host-name.ts'
import { fixedDefault, type SettingName, type SettingValues, settingNames } from './settings.ts'

export interface Given {
  isSet(name: SettingName): boolean
  /** Its value was reported already and its default is in place: nothing is reported of that default. */
  isWrong(name: SettingName): boolean
  /** False: HOST may never be used, because the gateway may be mounted in another app. */
  listens: boolean
}

/**
 * When, how bad, and what is said: a warning, with what follows from it and what to do; or, for an error, the setting
 * that is wrong and what would be right in its place.
 */
type Check = readonly [when: boolean, how: 'warning' | SettingName, text: string]

/** What is legal by itself: wrong beside other settings, probably not meant, or without effect. */
export function checkTogether(values: SettingValues, given: Given) {
  const found = [
    ...production(values),
    ...listeners(values, given),
    ...partitions(values),
    ...clientAddress(values, given),
    ...sandbox(values, given),
    ...upstreamNames.flatMap((name) => upstream(values, name)),
    ...quotesAndOrders(values),
    ...collector(values),
    ...withoutEffect(values, given),
  ].filter(([when]) => when)
  return {
    warnings: found.flatMap(([, how, text]) => (how === 'warning' ? [text] : [])),
    problems: found.flatMap(([, how, expected]) =>
      how === 'warning' || given.isWrong(how) ? [] : [{ name: how, expected }],
    ),
  }
}

function production(values: SettingValues): Check[] {
  const { NODE_ENV: mode } = values
  const refused = ': NODE_ENV=production refuses the sandbox'
  const [isProduction, isSandbox] = [mode === 'production', values.SWAP_BASE_URL === 'sandbox']
  return [
    [isProduction && isSandbox, 'SWAP_BASE_URL', `the swap upstream's http or https URL${refused}`],
    [
      isProduction && values.PAYMENTS_BASE_URL === 'sandbox',
      'PAYMENTS_BASE_URL',
      `the payments upstream's http or https URL, or nothing${refused}`,
    ],
    [
      mode === 'prod',
      'warning',
      'NODE_ENV=prod has no effect; only NODE_ENV=production refuses the sandbox.',
    ],
    [
      isProduction && values.ORDER_EXPIRED_QUOTE === 'report',
      'warning',
      'ORDER_EXPIRED_QUOTE=report, in production: orders for expired quotes are sent, and only counted and logged. ' +
        'Set it to refuse when the counts are as expected.',
    ],
  ]
}

interface Listener {
  name: 'PORT' | 'ADMIN_PORT'
  host: string
  port: number
}

/** As written, and by localhost and loopback. Where a name leads here otherwise, requests are answered 508 `loop`. */
function reaches(text: string, listener: Listener): boolean {
  const url = new URL(text)
  const port = Number(url.port === '' ? { 'http:': 80, 'https:': 443 }[url.protocol] : url.port)
  const host = canonicalHost(url.hostname)
  if (port !== listener.port) return false
  if (host === canonicalHost(listener.host)) return true
  // A connection to 0.0.0.0 or :: goes to this machine.
  return (isLoopback(host) || isWildcard(host)) && (isLoopback(listener.host) || isWildcard(listener.host))
}

function sharesAddress(left: Listener, right: Listener): boolean {
  if (left.port !== right.port || left.port === 0) return false
  const hosts = [canonicalHost(left.host), canonicalHost(right.host)]
  if (hosts[0] === hosts[1] || hosts.some(isWildcard)) return true
  return hosts.includes('localhost') && hosts.every(isLoopback)
}

function listeners(values: SettingValues, given: Given): Check[] {
  const adminHost = values.ADMIN_HOST ?? values.HOST
  const traffic: Listener = { name: 'PORT', host: values.HOST, port: values.PORT }
  const admin: Listener = { name: 'ADMIN_PORT', host: adminHost, port: values.ADMIN_PORT }
  const own = [traffic, admin].filter(({ name }) => {
    const names =
      name === 'PORT' ? (['HOST', 'PORT'] as const) : (['HOST', 'ADMIN_HOST', 'ADMIN_PORT'] as const)
    return !names.some(given.isWrong)
  })
  const [wrong, other] = given.isSet('ADMIN_PORT') ? [admin, traffic] : [traffic, admin]
  const origin = given.isSet(other.name) ? '' : ", that setting's default"
  const urls: [SettingName, string | undefined][] = [
    ...upstreamNames.map((name) => upstreamTable[name].baseUrl.setting),
    'OTEL_EXPORTER_OTLP_ENDPOINT' as const,
  ].map((name) => [name, values[name]])
  const hostSetting = values.ADMIN_HOST === undefined ? 'HOST' : 'ADMIN_HOST'
  return [
    [
      own.length === 2 && sharesAddress(traffic, admin),
      wrong.name,
      `a port that differs from ${other.name} (${other.port}${origin})`,
    ],
    ...[...urls, ['UPSTREAM_PROXY', values.UPSTREAM_PROXY?.url] as const].flatMap(([name, url]): Check[] => {
      const reached = url === undefined || url === 'sandbox' ? [] : own.filter((one) => reaches(url, one))
      const expected = `the URL of another service; this is quotegate's own listener (${reached[0]?.name})`
      return [[reached.length > 0, name, expected]]
    }),
    [
      values.SWAP_AUTHORIZATION !== undefined && !isLoopback(values.HOST),
      'warning',
      `HOST=${values.HOST} is reachable from other machines and SWAP_AUTHORIZATION is set: anyone who reaches ` +
        'that port uses your key. Keep HOST on loopback, or let only callers you trust connect.',
    ],
    [
      values.ADMIN_TOKEN === undefined && values.NODE_ENV !== 'production' && !isLoopback(adminHost),
      'warning',
      `${hostSetting}=${adminHost} is reachable from other machines and ADMIN_TOKEN is not set: anyone who reaches ` +
        `port ${values.ADMIN_PORT} sees all requests in the console and can drop quotes. Set ADMIN_TOKEN, or set ` +
        'ADMIN_HOST to 127.0.0.1.',
    ],
  ]
}

// A header may name a region or a country by its code or by its name: x-region-code, x-country_name.
const endsInRegion = /region(?:[-_]?(?:code|name))?$/
const endsInCountry = /country(?:[-_]?(?:code|name))?$/

function partitions(values: SettingValues): Check[] {
  const { QUOTE_PARTITION: mode, QUOTE_PARTITION_HEADER: places = [], QUOTE_KEY_HEADERS: keyed } = values
  const region = places.find((name) => endsInRegion.test(name))
  // A keyed header is sent to the provider, also when an untrusted client wrote it.
  const unkeyed = 'a header that is not in QUOTE_KEY_HEADERS: it is never sent to the provider'
  return [
    [
      mode === 'header' && places.length === 0,
      'QUOTE_PARTITION_HEADER',
      'a header name such as cf-ipcountry: QUOTE_PARTITION is header',
    ],
    [keyed.includes(values.CLIENT_IP_HEADER), 'CLIENT_IP_HEADER', unkeyed],
    [places.some((name) => keyed.includes(name)), 'QUOTE_PARTITION_HEADER', unkeyed],
    [
      mode === 'header' && values.TRUST_PROXY === undefined,
      'warning',
      'QUOTE_PARTITION=header needs TRUST_PROXY, which is not set: all requests are partitioned by ip.',
    ],
    [
      // ISO 3166-2 numbers regions within their country: 07 alone is a place in Iran and in Japan.
      mode === 'header' && region !== undefined && !places.some((name) => endsInCountry.test(name)),
      'warning',
      `QUOTE_PARTITION_HEADER=${places.join(',')} names a region without its country: IR-07 and JP-07 would share ` +
        `quotes. Add a header with the country to ${region}, such as cloudfront-viewer-country or cf-ipcountry.`,
    ],
    [
      mode === 'none',
      'warning',
      'QUOTE_PARTITION=none shares quotes among all clients: a client may get a quote that the provider does not ' +
        'offer in its place. Set QUOTE_PARTITION to ip or header, unless the provider never refuses by place.',
    ],
  ]
}

function clientAddress(
  { TRUST_PROXY: trusted, HOST: host, NODE_ENV: mode }: SettingValues,
  given: Given,
): Check[] {
  const entries = trusted ?? []
  return [
    [
      mode === 'production' && trusted === undefined,
      'warning',
      'TRUST_PROXY is not set in production: the provider sees the IP of your ' +
        'backend or load balancer for every user. Set TRUST_PROXY to their addresses.',
    ],
    [
      entries.some(isEverybody),
      'warning',
      `TRUST_PROXY=${trusted} trusts every address: any client can claim any address, and ` +
        'with it any place. List only your own proxies.',
    ],
    [
      trusted !== undefined && !given.isSet('CLIENT_IP_HEADER'),
      'warning',
      'TRUST_PROXY is set and CLIENT_IP_HEADER is not: only the header Forwarded of these proxies is read, and most ' +
        'proxies send X-Forwarded-For. Set CLIENT_IP_HEADER to the header that yours write: x-forwarded-for, forwarded ' +
        'or another.',
    ],
    [
      trusted !== undefined && given.listens && isLoopback(host) && !entries.some(isOnThisMachine),
      'warning',
      `TRUST_PROXY=${trusted} names other machines alone, and HOST=${host} accepts connections from this machine ` +
        'alone: none of these proxies can connect. Set HOST=0.0.0.0, with ADMIN_HOST=127.0.0.1 to keep the ' +
        'operations listener on this machine; or add loopback to TRUST_PROXY, if your proxy runs here.',
    ],
  ]
}

function isEverybody(entry: string): boolean {
  const block = parseAddressBlock(entry)
  return 'prefix' in block && block.prefix === 0
}

/** Whether a connection over loopback may come from an address of the entry. */
function isOnThisMachine(entry: string): boolean {
  if (entry === 'loopback') return true
  const block = parseAddressBlock(entry)
  if (!('prefix' in block)) return false
  const [address = ''] = entry.split('/')
  return isLoopback(address) || ['127.0.0.1', '::1'].some((own) => blocksHold([block], own))
}

/** An empty ${SWAP_URL} of a compose file counts as unset. Production refuses the sandbox. */
function sandbox(
  { HOST: host, PAYMENTS_BASE_URL: payments, NODE_ENV: mode }: SettingValues,
  given: Given,
): Check[] {
  const signs = [
    ...(payments === undefined || payments === 'sandbox' ? [] : [`PAYMENTS_BASE_URL=${payments} is not`]),
    ...(isLoopback(host) ? [] : [`HOST=${host} is reachable from other machines`]),
  ]
  return [
    [
      !given.isSet('SWAP_BASE_URL') && mode !== 'production' && signs.length > 0,
      'warning',
      'SWAP_BASE_URL is not set, or empty, so /v3 goes to the built-in sandbox, whose prices are invented; ' +
        `${signs.join(', and ')}. Set SWAP_BASE_URL to the swap API, or to sandbox if that is meant.`,
    ],
  ]
}

function upstream(values: SettingValues, name: keyof typeof upstreamTable): Check[] {
  const { paths }: UpstreamFacts = upstreamTable[name]
  const { setting } = upstreamTable[name].baseUrl
  const url = values[setting]
  if (url === undefined || url === 'sandbox') return []
  const { hostname, pathname } = new URL(url)
  const prefixes = 'setting' in paths ? values.PAYMENTS_PATHS : paths
  // The prefix / means every path.
  const ends = (path: string) => path !== '/' && pathname.toLowerCase().endsWith(path.toLowerCase())
  const doubled = prefixes.find(ends)
  const isOpen = url.startsWith('http:') && !isLoopback(hostname)
  return [
    [
      doubled !== undefined,
      'warning',
      `${setting}=${url} ends in ${doubled}, and the paths appended to it begin with ${doubled} too: a request for ` +
        `${doubled} is sent as ${doubled}${doubled}. Remove ${doubled} from ${setting}.`,
    ],
    [
      isOpen && values.NODE_ENV === 'production',
      'warning',
      `${setting}=${url} is not encrypted, in production: anyone on the network between can read and change ` +
        'requests, and take the keys in them. Use https.',
    ],
    [
      isOpen && values.UPSTREAM_PROXY !== undefined,
      'warning',
      `${setting}=${url} is connected to directly, not through UPSTREAM_PROXY: only https upstreams are reached ` +
        'through it. Use https, if it has to go through the proxy.',
    ],
  ]
}

function quotesAndOrders(values: SettingValues): Check[] {
  const { QUOTE_REFRESH_AHEAD_MS: ahead, QUOTE_MIN_VALIDITY_MS: minValidity } = values
  const { ORDER_EXPIRY_MARGIN_MS: margin, LEDGER_ENTRIES: known, QUOTE_CACHE_ENTRIES: cached } = values
  return [
    [
      ahead > 0 && ahead <= minValidity,
      'warning',
      `QUOTE_REFRESH_AHEAD_MS=${ahead} has no effect: with less than QUOTE_MIN_VALIDITY_MS (${minValidity}) left, a ` +
        'quote is not served. Set QUOTE_REFRESH_AHEAD_MS higher than that.',
    ],
    [
      margin > minValidity,
      'warning',
      `ORDER_EXPIRY_MARGIN_MS=${margin} is more than QUOTE_MIN_VALIDITY_MS (${minValidity}): quotes are served that ` +
        'orders can no longer use. Set QUOTE_MIN_VALIDITY_MS at least as high.',
    ],
    [
      values.LEDGER_RETENTION_MS === 0,
      'warning',
      'LEDGER_RETENTION_MS=0 forgets quotes as they expire: late orders are then unknown and not refused as expired.',
    ],
    [
      values.ORDER_UNKNOWN_QUOTE === 'refuse' && known < cached,
      'warning',
      `LEDGER_ENTRIES=${known} is less than QUOTE_CACHE_ENTRIES (${cached}) and ORDER_UNKNOWN_QUOTE is refuse: an ` +
        'order for a live quote that the ledger has dropped is refused as unknown. Set LEDGER_ENTRIES higher.',
    ],
  ]
}

function collector({ OTEL_EXPORTER_OTLP_ENDPOINT: endpoint }: SettingValues): Check[] {
  if (endpoint === undefined) return []
  return [
    [
      new URL(endpoint).port === '4317',
      'warning',
      `OTEL_EXPORTER_OTLP_ENDPOINT=${endpoint} has the usual port for gRPC, and quotegate sends spans over HTTP. ` +
        'Use the port for OTLP over HTTP, usually 4318.',
    ],
  ]
}

type Idle = readonly [when: boolean, names: readonly SettingName[], because: string, remedy: string]

/** Settings that were set to another value than their default, and that nothing reads as the other settings are. */
function withoutEffect(values: SettingValues, { isSet }: Given): Check[] {
  const isHttps = (url: string | undefined) => url?.startsWith('https:') === true
  const { SWAP_BASE_URL: swap, PAYMENTS_BASE_URL: payments, WEBHOOKS_BASE_URL: webhooks } = values
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_TRACES_SAMPLER: sampler } = values
  const idle: Idle[] = [
    [
      values.QUOTE_PARTITION !== 'header',
      ['QUOTE_PARTITION_HEADER'],
      'QUOTE_PARTITION is not header',
      'Set QUOTE_PARTITION to header',
    ],
    [
      values.TRUST_PROXY === undefined,
      ['CLIENT_IP_HEADER'],
      'TRUST_PROXY is not set, so no proxy is trusted and the header is ignored',
      'Set TRUST_PROXY',
    ],
    [
      values.RATE_LIMIT_PER_MINUTE === 0,
      ['RATE_LIMIT_BY'],
      'RATE_LIMIT_PER_MINUTE is 0, so no client is limited',
      'Set RATE_LIMIT_PER_MINUTE',
    ],
    [
      values.VALKEY_URL === undefined,
      ['VALKEY_KEY_PREFIX', 'VALKEY_TIMEOUT_MS'],
      'VALKEY_URL is not set',
      'Set VALKEY_URL',
    ],
    [
      endpoint === undefined,
      settingNames.filter((name) => name.startsWith('OTEL_') && name !== 'OTEL_EXPORTER_OTLP_ENDPOINT'),
      'OTEL_EXPORTER_OTLP_ENDPOINT is not set, so nothing is traced',
      'Set OTEL_EXPORTER_OTLP_ENDPOINT',
    ],
    [
      endpoint !== undefined && !sampler.endsWith('traceidratio'),
      ['OTEL_TRACES_SAMPLER_ARG'],
      `OTEL_TRACES_SAMPLER is ${sampler}`,
      'Set OTEL_TRACES_SAMPLER to traceidratio or parentbased_traceidratio',
    ],
    [
      !isHttps(swap),
      ['SWAP_CA_FILE', 'SWAP_CERT_FILE', 'SWAP_KEY_FILE'],
      'SWAP_BASE_URL is not an https URL',
      'Use https in SWAP_BASE_URL',
    ],
    [
      !isHttps(payments) && !isHttps(webhooks),
      ['PAYMENTS_CA_FILE', 'PAYMENTS_CERT_FILE', 'PAYMENTS_KEY_FILE'],
      'neither PAYMENTS_BASE_URL nor WEBHOOKS_BASE_URL is an https URL',
      'Use https in one of them',
    ],
    [
      ![swap, payments, webhooks].some(isHttps),
      ['UPSTREAM_PROXY'],
      'no upstream has an https URL',
      'Use https in a base URL',
    ],
    [
      payments === undefined && swap !== 'sandbox',
      ['PAYMENTS_PATHS'],
      'PAYMENTS_BASE_URL is not set, so these paths are answered with 404',
      'Set PAYMENTS_BASE_URL',
    ],
  ]
  return idle.flatMap(([when, names, because, remedy]) =>
    names.map((name): Check => {
      const isChanged = isSet(name) && String(values[name]) !== fixedDefault(name)
      const text = `${name} is set and has no effect, because ${because}. ${remedy}, or remove ${name}.`
      return [when && isChanged, 'warning', text]
    }),
  )
}
