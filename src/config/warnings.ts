import { blocksHold, parseAddressBlock } from '../http/ip-address.ts'
import { type PathsSetting, type UpstreamFacts, upstreamNames, upstreamTable } from '../http/upstreams.ts'
import { isLoopback } from './host-name.ts'
import type { SettingName, SettingValues } from './settings.ts'

export interface WarningContext {
  isSet: (name: SettingName) => boolean
  /** False: HOST may never be used, because the gateway may be mounted in another app. */
  listens: boolean
}

/** What is legal and probably not meant. Each warning says what is set, what follows from it, and what to do. */
export function warningsFor(values: SettingValues, context: WarningContext): string[] {
  const warnings = [
    ...addressWarnings(values, context),
    ...listenerWarnings(values),
    ...sandboxWarnings(values, context),
    ...upstreamWarnings(values),
  ]
  if (values.QUOTE_PARTITION === 'header' && values.TRUST_PROXY === undefined) {
    warnings.push(
      'QUOTE_PARTITION=header needs TRUST_PROXY, which is not set: all requests are partitioned by ip.',
    )
  }
  warnings.push(...regionsAlone(values))
  const { QUOTE_REFRESH_AHEAD_MS: ahead, QUOTE_MIN_VALIDITY_MS: minValidity } = values
  if (ahead > 0 && ahead <= minValidity) {
    warnings.push(
      `QUOTE_REFRESH_AHEAD_MS=${ahead} has no effect: with less than QUOTE_MIN_VALIDITY_MS (${minValidity}) left, a ` +
        'quote is not served. Set QUOTE_REFRESH_AHEAD_MS higher than that.',
    )
  }
  const { ORDER_EXPIRY_MARGIN_MS: margin } = values
  if (margin > minValidity) {
    warnings.push(
      `ORDER_EXPIRY_MARGIN_MS=${margin} is more than QUOTE_MIN_VALIDITY_MS (${minValidity}): quotes are served that ` +
        'orders can no longer use. Set QUOTE_MIN_VALIDITY_MS at least as high.',
    )
  }
  if (values.ORDER_EXPIRED_QUOTE === 'report' && values.NODE_ENV === 'production') {
    warnings.push(
      'ORDER_EXPIRED_QUOTE=report, in production: orders for expired quotes are sent, and only counted and logged. Set it ' +
        'to refuse when the counts are as expected.',
    )
  }
  if (values.LEDGER_RETENTION_MS === 0) {
    warnings.push(
      'LEDGER_RETENTION_MS=0 forgets quotes as they expire: late orders are then unknown and not refused as expired.',
    )
  }
  const { LEDGER_ENTRIES: known, QUOTE_CACHE_ENTRIES: cached } = values
  if (values.ORDER_UNKNOWN_QUOTE === 'refuse' && known < cached) {
    warnings.push(
      `LEDGER_ENTRIES=${known} is less than QUOTE_CACHE_ENTRIES (${cached}) and ORDER_UNKNOWN_QUOTE is refuse: an ` +
        'order for a live quote that the ledger has dropped is refused as unknown. Set LEDGER_ENTRIES higher.',
    )
  }
  warnings.push(...collectorWarnings(values))
  if (values.NODE_ENV === 'prod') {
    warnings.push('NODE_ENV=prod has no effect; only NODE_ENV=production refuses the sandbox.')
  }
  return warnings
}

function collectorWarnings(values: SettingValues): string[] {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_EXPORTER_OTLP_HEADERS: headers } = values
  if (endpoint === undefined) return []
  const { hostname, port, protocol } = new URL(endpoint)
  const warnings: string[] = []
  if (port === '4317') {
    warnings.push(
      `OTEL_EXPORTER_OTLP_ENDPOINT=${endpoint} has the usual port for gRPC, and quotegate sends spans over HTTP. ` +
        'Use the port for OTLP over HTTP, usually 4318.',
    )
  }
  if (protocol === 'http:' && headers !== undefined && !isLoopback(hostname)) {
    warnings.push(
      `OTEL_EXPORTER_OTLP_ENDPOINT=${endpoint} is not encrypted and OTEL_EXPORTER_OTLP_HEADERS is set: anyone on the ` +
        'network between can take the keys in it. Use https.',
    )
  }
  return warnings
}

/** Many machines have HTTPS_PROXY for other programs, so that alone it must not decide where orders are sent. */
export function proxyOfOthers(texts: ReadonlyMap<string, string>): string[] {
  const name = ['HTTPS_PROXY', 'https_proxy'].find((other) => texts.has(other))
  if (name === undefined || texts.has('UPSTREAM_PROXY')) return []
  return [
    `${name} is set, and quotegate does not read it: upstreams are connected to directly. Set UPSTREAM_PROXY to reach ` +
      'https upstreams through a proxy.',
  ]
}

function listenerWarnings(values: SettingValues): string[] {
  const warnings: string[] = []
  if (values.SWAP_AUTHORIZATION !== undefined && !isLoopback(values.HOST)) {
    warnings.push(
      `HOST=${values.HOST} is reachable from other machines and SWAP_AUTHORIZATION is set: anyone who reaches ` +
        'that port uses your key. Keep HOST on loopback, or let only callers you trust connect.',
    )
  }
  const hostSetting = values.ADMIN_HOST === undefined ? 'HOST' : 'ADMIN_HOST'
  const adminHost = values.ADMIN_HOST ?? values.HOST
  if (values.ADMIN_TOKEN === undefined && values.NODE_ENV !== 'production' && !isLoopback(adminHost)) {
    warnings.push(
      `${hostSetting}=${adminHost} is reachable from other machines and ADMIN_TOKEN is not set: anyone who reaches ` +
        `port ${values.ADMIN_PORT} sees all requests in the console and can drop quotes. Set ADMIN_TOKEN, or set ` +
        'ADMIN_HOST to 127.0.0.1.',
    )
  }
  return warnings
}

/** An empty ${SWAP_URL} of a compose file counts as unset. */
function sandboxWarnings(values: SettingValues, { isSet }: WarningContext): string[] {
  const { HOST: host, PAYMENTS_BASE_URL: payments } = values
  if (values.SWAP_BASE_URL !== 'sandbox' || isSet('SWAP_BASE_URL')) return []
  // Production refuses the sandbox.
  if (values.NODE_ENV === 'production') return []
  const signs = [
    ...(payments === undefined || payments === 'sandbox' ? [] : [`PAYMENTS_BASE_URL=${payments} is not`]),
    ...(isLoopback(host) ? [] : [`HOST=${host} is reachable from other machines`]),
  ]
  if (signs.length === 0) return []
  return [
    'SWAP_BASE_URL is not set, or empty, so /v3 goes to the built-in sandbox, whose prices are invented; ' +
      `${signs.join(', and ')}. Set SWAP_BASE_URL to the swap API, or to sandbox if that is meant.`,
  ]
}

function upstreamWarnings(values: SettingValues): string[] {
  const warnings: string[] = []
  for (const name of upstreamNames) {
    const { paths }: UpstreamFacts = upstreamTable[name]
    const { setting } = upstreamTable[name].baseUrl
    const url = values[setting]
    if (url === undefined || url === 'sandbox') continue
    const { hostname, pathname } = new URL(url)
    const prefixes = 'setting' in paths ? values[paths.setting as PathsSetting] : paths
    // The prefix / means every path.
    const doubled = prefixes
      .filter((path) => path !== '/')
      .find((path) => pathname.toLowerCase().endsWith(path.toLowerCase()))
    if (doubled !== undefined) {
      warnings.push(
        `${setting}=${url} ends in ${doubled}, and the paths appended to it begin with ${doubled} too: a request for ${doubled} is sent as ` +
          `${doubled}${doubled}. Remove ${doubled} from ${setting}.`,
      )
    }
    if (!url.startsWith('http:') || isLoopback(hostname)) continue
    if (values.NODE_ENV === 'production') {
      warnings.push(
        `${setting}=${url} is not encrypted, in production: anyone on the network between can read and change ` +
          'requests, and take the keys in them. Use https.',
      )
    }
    if (values.UPSTREAM_PROXY !== undefined) {
      warnings.push(
        `${setting}=${url} is connected to directly, not through UPSTREAM_PROXY: only https upstreams are reached ` +
          'through it. Use https, if it has to go through the proxy.',
      )
    }
  }
  return warnings
}

// A header may name a region or a country by its code or by its name: x-region-code, x-country_name.
const endsInRegion = /region(?:[-_]?(?:code|name))?$/
const endsInCountry = /country(?:[-_]?(?:code|name))?$/

/** ISO 3166-2 numbers regions within their country: 07 alone is a place in Iran and in Japan. */
function regionsAlone({ QUOTE_PARTITION, QUOTE_PARTITION_HEADER: names = [] }: SettingValues): string[] {
  const region = names.find((name) => endsInRegion.test(name))
  if (QUOTE_PARTITION !== 'header' || region === undefined) return []
  if (names.some((name) => endsInCountry.test(name))) return []
  return [
    `QUOTE_PARTITION_HEADER=${names.join(',')} names a region without its country: IR-07 and JP-07 would share quotes. ` +
      `Add a header with the country to ${region}, such as cloudfront-viewer-country or cf-ipcountry.`,
  ]
}

/** Which proxies are trusted, what is read of them, and which clients share quotes. */
export function addressWarnings(values: SettingValues, context: WarningContext): string[] {
  const { TRUST_PROXY: trusted } = values
  const warnings: string[] = []
  if (values.NODE_ENV === 'production' && trusted === undefined) {
    warnings.push(
      'TRUST_PROXY is not set in production: the provider sees the IP of your ' +
        'backend or load balancer for every user. Set TRUST_PROXY to their addresses.',
    )
  }
  if (trusted !== undefined) warnings.push(...trustedWarnings(trusted, values, context))
  if (values.QUOTE_PARTITION === 'none') {
    warnings.push(
      'QUOTE_PARTITION=none shares quotes among all clients: a client may get a quote that the provider does not ' +
        'offer in its place. Set QUOTE_PARTITION to ip or header, unless the provider never refuses by place.',
    )
  }
  return warnings
}

function trustedWarnings(
  trusted: readonly string[],
  { HOST: host }: SettingValues,
  { isSet, listens }: WarningContext,
): string[] {
  const warnings: string[] = []
  if (trusted.some(isEverybody)) {
    warnings.push(
      `TRUST_PROXY=${trusted} trusts every address: any client can claim any address, and ` +
        'with it any place. List only your own proxies.',
    )
  }
  if (!isSet('CLIENT_IP_HEADER')) {
    warnings.push(
      'TRUST_PROXY is set and CLIENT_IP_HEADER is not: only the header Forwarded of these proxies is read, and most ' +
        'proxies send X-Forwarded-For. Set CLIENT_IP_HEADER to the header that yours write: x-forwarded-for, forwarded ' +
        'or another.',
    )
  }
  if (listens && isLoopback(host) && !trusted.some(isOnThisMachine)) {
    warnings.push(
      `TRUST_PROXY=${trusted} names other machines alone, and HOST=${host} accepts connections from this machine alone: ` +
        'none of these proxies can connect. Set HOST=0.0.0.0, with ADMIN_HOST=127.0.0.1 to keep the operations listener ' +
        'on this machine; or add loopback to TRUST_PROXY, if your proxy runs here.',
    )
  }
  return warnings
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
