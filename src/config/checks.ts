import { isAbsolute, resolve } from 'node:path'
import { blocksHold, namedBlocks, parseAddressBlock } from '../http/ip-address.ts'
import { upstreamNames, upstreamTable } from '../http/upstreams.ts'
import { leavesRoom, type MemoryLimits, mebibytes } from '../process/memory.ts'
import { prose } from '../process/text.ts'
import {
  bytesOfEntries,
  type CompleteValues,
  type Config,
  fittedNames,
  pathsOf,
} from './config.ts'
import { isAccepted } from './files.ts'
import { testLimitsName } from './limits.ts'
import { fixedDefault, type SettingName, settingNames } from './settings.ts'
import { canonicalHost, isLoopback, isWildcard } from './urls.ts'

interface Given {
  texts: ReadonlyMap<string, string>
  isWrong(name: SettingName): boolean
  /** False: HOST and PORT may never be used, in a gateway mounted in another app. */
  listens: boolean
  memory: MemoryLimits
}

/** A text is a warning, with what to do. A pair is an error: the wrong setting, and what it should be. */
type Check = undefined | string | readonly [name: SettingName, expected: string]
type Text = Parameters<typeof prose>

function warn(when: boolean) {
  return (...text: Text): Check => (when ? prose(...text) : undefined)
}

function refuse(name: SettingName, when: boolean) {
  return (...text: Text): Check => (when ? [name, prose(...text)] : undefined)
}

/** Finds values that are legal alone, but wrong beside others, probably not meant, or without effect. */
export function checkTogether(values: CompleteValues, given: Given): Check[] {
  const tables = [
    listeners,
    upstreams,
    production,
    tls,
    clients,
    quotes,
    durations,
    surroundings,
    withoutEffect,
  ]
  return tables.flatMap((table) => table(values, given))
}

type OwnListener = Config['traffic']

/**
 * Compares host names as written, and knows localhost and loopback. If another name leads here, swap requests are
 * answered 508.
 */
function reaches(text: string, listener: OwnListener): boolean {
  if (!URL.canParse(text)) return false
  const url = new URL(text)
  const host = canonicalHost(url.hostname)
  if (Number(url.port || (url.protocol === 'http:' ? 80 : 443)) !== listener.port)
    return false
  if (host === canonicalHost(listener.host)) return true
  // A connection to 0.0.0.0 or :: goes to this machine.
  return [host, listener.host].every((one) => isLoopback(one) || isWildcard(one))
}

function shareAddress(left: OwnListener, right: OwnListener): boolean {
  if (left.port !== right.port || left.port === 0) return false
  const hosts = [canonicalHost(left.host), canonicalHost(right.host)]
  if (hosts[0] === hosts[1] || hosts.some(isWildcard)) return true
  return hosts.includes('localhost') && hosts.every(isLoopback)
}

function listeners(values: CompleteValues, { texts, isWrong, listens }: Given): Check[] {
  const { HOST: host, ADMIN_HOST: adminHost } = values
  const hostOfAdmin = texts.has('ADMIN_HOST') ? 'ADMIN_HOST' : 'HOST'
  // A wrong value has its default here: port 0, which no URL reaches, keeps that default from being reported.
  const listener = (name: 'PORT' | 'ADMIN_PORT', by: 'HOST' | 'ADMIN_HOST') => {
    return {
      name,
      host: values[by],
      port: isWrong(name) || isWrong(by) ? 0 : values[name],
    }
  }
  const [traffic, admin] = [listener('PORT', 'HOST'), listener('ADMIN_PORT', hostOfAdmin)]
  const [wrong, other] = texts.has('ADMIN_PORT') ? [admin, traffic] : [traffic, admin]
  const origin = texts.has(other.name) ? '' : ", that setting's default"
  const baseUrls = upstreamNames.map((name) => upstreamTable[name].baseUrl.setting)
  return [
    refuse(wrong.name, shareAddress(traffic, admin))`
      a port that differs from ${other.name} (${other.port}${origin})`,
    ...([...baseUrls, 'OTEL_EXPORTER_OTLP_ENDPOINT', 'UPSTREAM_PROXY'] as const).map(
      (name) => {
        const used = [traffic, admin].filter((one) => listens || texts.has(one.name))
        const reached = used.find((one) => reaches(texts.get(name) ?? '', one))
        return refuse(name, reached !== undefined)`
        the URL of another service; this is quotegate's own listener (${reached?.name})`
      },
    ),
    warn(values.SWAP_AUTHORIZATION !== undefined && !isLoopback(host))`
      HOST=${host} is reachable from other machines and SWAP_AUTHORIZATION is set: anyone who reaches that port uses your
      key. Keep HOST on loopback, or let only callers you trust connect.`,
    warn(
      values.ADMIN_TOKEN === undefined &&
        values.NODE_ENV !== 'production' &&
        !isLoopback(adminHost),
    )`
      ${hostOfAdmin}=${adminHost} is reachable from other machines and ADMIN_TOKEN is not set: anyone who reaches port
      ${values.ADMIN_PORT} sees all requests in the console and can drop quotes. Set ADMIN_TOKEN, or set ADMIN_HOST to
      127.0.0.1.`,
  ]
}

function tls(values: CompleteValues, { texts }: Given): Check[] {
  return (['SWAP', 'PAYMENTS'] as const).flatMap((of) => {
    const [certName, keyName] = [`${of}_CERT_FILE`, `${of}_KEY_FILE`] as const
    const { [certName]: cert, [keyName]: key } = values
    const isPair =
      cert !== undefined && key !== undefined && cert.first.checkPrivateKey(key.key)
    return [
      refuse(certName, texts.has(keyName) && !texts.has(certName))`
        a PEM file, because ${keyName} is set: each needs the other`,
      refuse(keyName, texts.has(certName) && !texts.has(keyName))`
        a PEM file, because ${certName} is set: each needs the other`,
      refuse(keyName, cert !== undefined && key !== undefined && !isPair)`
        the private key of the certificate in ${certName}`,
      refuse(certName, isPair && !isAccepted(cert.text, key.text))`
        a certificate and key that OpenSSL accepts: these are too weak`,
    ]
  })
}

function production(values: CompleteValues, { texts, listens }: Given): Check[] {
  const {
    HOST: host,
    NODE_ENV: mode,
    SWAP_BASE_URL: swap,
    PAYMENTS_BASE_URL: payments,
    ORDER_EXPIRED_QUOTE: expired,
  } = values
  const isProduction = mode === 'production'
  // A compose file passes an unset ${SWAP_URL} as an empty text.
  const isForgotten = !texts.has('SWAP_BASE_URL') && !isProduction
  const signs = [
    ...(payments === undefined || payments === 'sandbox'
      ? []
      : [`PAYMENTS_BASE_URL=${payments} is not`]),
    ...(isLoopback(host) ? [] : [`HOST=${host} is reachable from other machines`]),
  ]
  return [
    refuse('SWAP_BASE_URL', isProduction && swap === 'sandbox')`
      the swap API's http or https URL: NODE_ENV=production refuses the sandbox`,
    refuse(
      'PAYMENTS_BASE_URL',
      isProduction && texts.has('PAYMENTS_BASE_URL') && payments === 'sandbox',
    )`
      the payments upstream's http or https URL, or nothing: NODE_ENV=production refuses the sandbox`,
    warn(isProduction && expired !== 'refuse')`
      ORDER_EXPIRED_QUOTE=${texts.get('ORDER_EXPIRED_QUOTE')}, in production: orders for expired quotes
      ${typeof expired === 'object' ? 'of these applications ' : ''}are sent, and only counted and logged. Set it
      to refuse when the counts are as expected.`,
    warn(isProduction && values.TRUST_PROXY.length === 0)`
      TRUST_PROXY is not set in production: the provider sees the IP of your backend or load balancer for every user. Set
      TRUST_PROXY to their addresses.`,
    // An app that mounts the gateway shows no other sign of production: its environment is not read.
    warn(isForgotten && (signs.length > 0 || !listens))`
      SWAP_BASE_URL is not set, or empty, so /v3 goes to the built-in sandbox, whose prices are
      ${['invented', ...signs].join('; ')}. Set SWAP_BASE_URL to the swap API, or to sandbox if that is meant.`,
  ]
}

function upstreams(values: CompleteValues): Check[] {
  return upstreamNames.flatMap((name) => {
    const { setting } = upstreamTable[name].baseUrl
    const url = values[setting]
    if (url === undefined || url === 'sandbox') return []
    const { hostname, pathname } = new URL(url)
    // The prefix / means every path.
    const ends = (path: string) =>
      path !== '/' && pathname.toLowerCase().endsWith(path.toLowerCase())
    const doubled = pathsOf(values, name).find(ends)
    const isOpen = url.startsWith('http:') && !isLoopback(hostname)
    return [
      warn(doubled !== undefined)`
        ${setting}=${url} ends in ${doubled}, and the paths appended to it begin with ${doubled} too: a request for
        ${doubled} is sent as ${doubled}${doubled}. Remove ${doubled} from ${setting}.`,
      warn(isOpen && values.NODE_ENV === 'production')`
        ${setting}=${url} is not encrypted, in production: anyone on the network between can read and change requests,
        and take the keys in them. Use https.`,
      warn(isOpen && values.UPSTREAM_PROXY !== undefined)`
        ${setting}=${url} is connected to directly, not through UPSTREAM_PROXY: only https upstreams are reached through
        it. Use https, if it has to go through the proxy.`,
    ]
  })
}

function clients(values: CompleteValues, { texts, listens }: Given): Check[] {
  const { HOST: host, TRUST_PROXY: trusted } = values
  const isTrusting = trusted.length > 0
  const entries = trusted.flatMap((entry) => namedBlocks.get(entry) ?? [entry])
  const blocks = entries.map(parseAddressBlock).filter((block) => 'prefix' in block)
  /** Whether a trusted connection may come over loopback. */
  const isOnThisMachine =
    entries.some((entry) => isLoopback(entry.replace(/\/.*/, ''))) ||
    ['127.0.0.1', '::1'].some((own) => blocksHold(blocks, own))
  return [
    warn(blocks.some(({ prefix }) => prefix === 0))`
      TRUST_PROXY=${trusted} trusts every address: any caller can claim any address, and with it any place. List only
      your own proxies.`,
    warn(isTrusting && !texts.has('CLIENT_IP_HEADER'))`
      TRUST_PROXY is set and CLIENT_IP_HEADER is not: only the header Forwarded of these proxies is read, and most proxies
      send X-Forwarded-For. Set CLIENT_IP_HEADER to the header that yours write: x-forwarded-for, forwarded or another.`,
    warn(isTrusting && listens && isLoopback(host) && !isOnThisMachine)`
      TRUST_PROXY=${trusted} names other machines alone, and HOST=${host} accepts connections from this machine alone:
      none of these proxies can connect. Set HOST=0.0.0.0, with ADMIN_HOST=127.0.0.1 to keep the operations listener on
      this machine; or add loopback to TRUST_PROXY, if your proxy runs here.`,
  ]
}

// A header may name a region or a country by code or by name: x-region-code, x-country_name.
const endsInRegion = /region(?:[-_]?(?:code|name))?$/
const endsInCountry = /country(?:[-_]?(?:code|name))?$/

/** The maximum of an unset QUOTE_MIN_VALIDITY_MS (quotes/cache.ts). */
const maxDefaultValidityMs = 5_000

function quotes(values: CompleteValues): Check[] {
  const {
    QUOTE_PARTITION: mode,
    QUOTE_PARTITION_HEADER: places,
    QUOTE_KEY_HEADERS: keyed,
  } = values
  const {
    QUOTE_MIN_VALIDITY_MS: minValidity,
    ORDER_EXPIRY_MARGIN_MS: margin,
    LEDGER_ENTRIES: known,
    QUOTE_CACHE_ENTRIES: cached,
  } = values
  const byHeader = mode === 'header'
  const region = places.find((name) => endsInRegion.test(name))
  const isWithoutCountry =
    region !== undefined && !places.some((name) => endsInCountry.test(name))
  // A keyed header is sent to the provider, also if an untrusted peer wrote it.
  const unkeyed =
    'a header that is not in QUOTE_KEY_HEADERS: it is never sent to the provider'
  const isKeyed = (name: string) => keyed.includes(name)
  return [
    refuse('QUOTE_PARTITION_HEADER', byHeader && places.length === 0)`
      a header name such as cf-ipcountry: QUOTE_PARTITION is header`,
    refuse('CLIENT_IP_HEADER', isKeyed(values.CLIENT_IP_HEADER))`${unkeyed}`,
    refuse('QUOTE_PARTITION_HEADER', places.some(isKeyed))`${unkeyed}`,
    warn(byHeader && values.TRUST_PROXY.length === 0)`
      QUOTE_PARTITION=header needs TRUST_PROXY, which is not set: all requests are partitioned by ip.`,
    // ISO 3166-2 numbers regions within a country: 07 alone is a place in Iran and in Japan.
    warn(byHeader && isWithoutCountry)`
      QUOTE_PARTITION_HEADER=${places} names a region without its country: IR-07 and JP-07 would share quotes. Add a
      header with the country to ${region}, such as cloudfront-viewer-country or cf-ipcountry.`,
    warn(mode === 'none')`
      QUOTE_PARTITION=none shares quotes among all users: a user may get a quote that the provider does not offer in
      their place. Set QUOTE_PARTITION to ip or header, unless the provider never refuses by place.`,
    warn(margin > (minValidity ?? maxDefaultValidityMs))`
      ORDER_EXPIRY_MARGIN_MS=${margin} is more than QUOTE_MIN_VALIDITY_MS
      (${minValidity ?? `at most ${maxDefaultValidityMs} by default`}): quotes are served that orders can no longer use.
      Set QUOTE_MIN_VALIDITY_MS at least as high.`,
    warn(values.ORDER_UNKNOWN_QUOTE === 'refuse' && known < cached)`
      LEDGER_ENTRIES=${known} is less than QUOTE_CACHE_ENTRIES (${cached}) and ORDER_UNKNOWN_QUOTE is refuse: an order for
      a live quote that the ledger has dropped is refused as unknown. Set LEDGER_ENTRIES higher.`,
  ]
}

// Few upstreams answer this soon, and a shorter margin changes little.
const shortestPlausibleMs = 100
const usualQuoteLifeMs = 30_000
// A store answers within milliseconds, so VALKEY_TIMEOUT_MS may be short.
const inMilliseconds = settingNames.filter(
  (name) => name.endsWith('_MS') && name !== 'VALKEY_TIMEOUT_MS',
)

/** Values that are probably seconds, or longer than most quotes live. */
function durations(values: CompleteValues): Check[] {
  const { QUOTE_MIN_VALIDITY_MS: minValidity = 0, ORDER_EXPIRY_MARGIN_MS: margin } =
    values
  const likeSeconds = inMilliseconds.map((name) => {
    const ms = Number(values[name] ?? 0)
    return warn(ms > 0 && ms < shortestPlausibleMs)`
      ${name}=${ms} is ${ms} milliseconds. Set it to ${ms * 1_000} if ${ms} seconds are meant.`
  })
  const asLongAsQuotes = 'is at least as long as most quotes live (30 seconds)'
  return [
    ...likeSeconds,
    warn(minValidity >= usualQuoteLifeMs)`
      QUOTE_MIN_VALIDITY_MS=${minValidity} ${asLongAsQuotes}: no such quote is served from memory. Set it lower.`,
    warn(margin >= usualQuoteLifeMs)`
      ORDER_EXPIRY_MARGIN_MS=${margin} ${asLongAsQuotes}: every order for such a quote is refused as expired. Set it
      lower.`,
  ]
}

/** Checks settings beside memory, folders and other programs' environment. */
function surroundings(values: CompleteValues, { texts, memory: limits }: Given): Check[] {
  const { STATE_DIRECTORY: folder = '' } = values
  const heap = mebibytes(limits.heapBytes)
  const bytes = bytesOfEntries((name) => values[name])
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint } = values
  const collector = endpoint === undefined ? undefined : new URL(endpoint)
  const isOpen = collector?.protocol === 'http:' && !isLoopback(collector.hostname)
  // Many machines have HTTPS_PROXY for other programs: that must not decide where orders are sent.
  const proxy = ['HTTPS_PROXY', 'https_proxy'].find((name) => texts.has(name))
  return [
    warn(fittedNames.some((name) => texts.has(name)) && bytes > limits.heapBytes / 2)`
      ${fittedNames.map((name) => `${name}=${values[name]}`).join(' and ')} take ${mebibytes(bytes)} when full, of a heap
      limit of ${heap}: the process may run out of memory. Set them lower, or give the process more memory.`,
    warn(!leavesRoom(limits))`
      V8 may fill ${heap} with objects, and the process may take ${mebibytes(limits.processBytes)} in all: it may be
      killed before V8 collects. Start it with node --max-old-space-size-percentage=50, or give it more memory.`,
    warn(folder !== '' && !isAbsolute(folder))`
      STATE_DIRECTORY=${folder} is relative to the working directory: it leads to ${resolve(folder)} here, and to another
      folder, without these quotes and keys, when quotegate is started elsewhere. Write the whole path.`,
    warn(texts.has(testLimitsName))`
      ${testLimitsName} is set, which is for the tests of quotegate itself: remove it.`,
    warn(collector?.port === '4317')`
      OTEL_EXPORTER_OTLP_ENDPOINT=${endpoint} has the usual port for gRPC, and quotegate sends spans over HTTP. Use the
      port for OTLP over HTTP, usually 4318.`,
    warn(isOpen && texts.has('OTEL_EXPORTER_OTLP_HEADERS'))`
      OTEL_EXPORTER_OTLP_ENDPOINT=${endpoint} is not encrypted and OTEL_EXPORTER_OTLP_HEADERS is set: anyone on the network
      between can take the keys in it. Use https.`,
    warn(proxy !== undefined && !texts.has('UPSTREAM_PROXY'))`
      ${proxy} is set, and quotegate does not read it: upstreams are connected to directly. Set UPSTREAM_PROXY to reach
      https upstreams through a proxy.`,
  ]
}

/** Settings that were changed, and have no effect beside the others. */
function withoutEffect(values: CompleteValues, { texts }: Given): Check[] {
  const {
    SWAP_BASE_URL: swap,
    PAYMENTS_BASE_URL: payments,
    WEBHOOKS_BASE_URL: webhooks,
  } = values
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_TRACES_SAMPLER: sampler } = values
  const isHttps = (url: string | undefined) => url?.startsWith('https:') === true
  const idle = (when: boolean, names: RegExp) => {
    const isChanged = (name: SettingName) =>
      texts.has(name) && String(values[name]) !== fixedDefault(name)
    return (...because: Text) =>
      settingNames.map((name) => {
        return warn(when && names.test(name) && isChanged(name))`
          ${name} is set and has no effect, because ${prose(...because)}, or remove ${name}.`
      })
  }
  return [
    idle(values.QUOTE_PARTITION !== 'header', /^QUOTE_PARTITION_HEADER$/)`
      QUOTE_PARTITION is not header. Set QUOTE_PARTITION to header`,
    idle(values.TRUST_PROXY.length === 0, /^CLIENT_IP_HEADER$/)`
      TRUST_PROXY is not set, so no proxy is trusted and the header is ignored. Set TRUST_PROXY`,
    idle(values.RATE_LIMIT_PER_MINUTE === 0, /^RATE_LIMIT_BY$/)`
      RATE_LIMIT_PER_MINUTE is 0, so no request is limited. Set RATE_LIMIT_PER_MINUTE`,
    idle(values.VALKEY_URL === undefined, /^VALKEY_/)`
      VALKEY_URL is not set. Set VALKEY_URL`,
    idle(endpoint === undefined, /^OTEL_/)`
      OTEL_EXPORTER_OTLP_ENDPOINT is not set, so nothing is traced. Set OTEL_EXPORTER_OTLP_ENDPOINT`,
    idle(
      endpoint !== undefined && !sampler.endsWith('traceidratio'),
      /^OTEL_TRACES_SAMPLER_ARG$/,
    )`
      OTEL_TRACES_SAMPLER is ${sampler}. Set it to traceidratio or parentbased_traceidratio`,
    idle(!isHttps(swap), /^SWAP_\w+_FILE$/)`
      SWAP_BASE_URL is not an https URL. Use https in SWAP_BASE_URL`,
    idle(!isHttps(payments) && !isHttps(webhooks), /^PAYMENTS_\w+_FILE$/)`
      neither PAYMENTS_BASE_URL nor WEBHOOKS_BASE_URL is an https URL. Use https in one of them`,
    idle(![swap, payments, webhooks].some(isHttps), /^UPSTREAM_PROXY$/)`
      no upstream has an https URL. Use https in a base URL`,
    idle(payments === undefined, /^PAYMENTS_PATHS$/)`
      PAYMENTS_BASE_URL is not set, so these paths are answered with 404. Set PAYMENTS_BASE_URL`,
  ].flat()
}
