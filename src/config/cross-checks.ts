import { networkInterfaces } from 'node:os'
import { canonicalHost, isLoopback, isWildcard } from '../http/ip-address.ts'
import { upstreamNames, upstreamTable } from '../http/upstreams.ts'
import type { SettingName, SettingValues } from './settings.ts'

interface Listener {
  name: 'PORT' | 'ADMIN_PORT'
  host: string
  port: number
}

interface Problem {
  name: SettingName
  expected: string
}

export interface Findings {
  problems: Problem[]
  warnings: string[]
}

export interface GivenSettings {
  isSet: (name: SettingName) => boolean
  /** Its value was reported already and its default is in place: nothing is reported of that default. */
  isWrong: (name: SettingName) => boolean
}

const baseUrlNames = upstreamNames.map((name) => upstreamTable[name].baseUrl.setting)

function isOwnAddress(host: string): boolean {
  const addresses = Object.values(networkInterfaces()).flatMap((list) => list ?? [])
  return addresses.some(({ address }) => canonicalHost(address) === host)
}

function reaches(url: URL, listener: Listener): boolean {
  const port = Number(url.port === '' ? { 'http:': 80, 'https:': 443 }[url.protocol] : url.port)
  if (port !== listener.port) return false
  const host = canonicalHost(url.hostname)
  if (host === canonicalHost(listener.host)) return true
  // A connection to 0.0.0.0 or :: goes to this machine.
  const isLocal = isLoopback(host) || isWildcard(host)
  if (isWildcard(listener.host)) return isLocal || isOwnAddress(host)
  return isLocal && isLoopback(listener.host)
}

function sharesAddress(left: Listener, right: Listener): boolean {
  if (left.port !== right.port || left.port === 0) return false
  const hosts = [canonicalHost(left.host), canonicalHost(right.host)]
  if (hosts[0] === hosts[1] || hosts.some(isWildcard)) return true
  return hosts.includes('localhost') && hosts.every(isLoopback)
}

function checkListeners(values: SettingValues, given: GivenSettings): Problem[] {
  const traffic: Listener = { name: 'PORT', host: values.HOST, port: values.PORT }
  const admin: Listener = {
    name: 'ADMIN_PORT',
    host: values.ADMIN_HOST ?? values.HOST,
    port: values.ADMIN_PORT,
  }
  const listeners = [
    ...(given.isWrong('HOST') || given.isWrong('PORT') ? [] : [traffic]),
    ...(given.isWrong('HOST') || given.isWrong('ADMIN_HOST') || given.isWrong('ADMIN_PORT') ? [] : [admin]),
  ]
  const problems: Problem[] = []
  if (listeners.length === 2 && sharesAddress(traffic, admin)) {
    const [wrong, other] = given.isSet('ADMIN_PORT') ? [admin, traffic] : [traffic, admin]
    const origin = given.isSet(other.name) ? '' : ", that setting's default"
    problems.push({
      name: wrong.name,
      expected: `a port that differs from ${other.name} (${other.port}${origin})`,
    })
  }
  for (const name of baseUrlNames) {
    const value = values[name]
    if (value === undefined || value === 'sandbox') continue
    const own = listeners.find((listener) => reaches(new URL(value), listener))
    if (own === undefined) continue
    problems.push({
      name,
      expected: `the URL of another service; this is quotegate's own listener (${own.name})`,
    })
  }
  return problems
}

function checkProduction(values: SettingValues): Problem[] {
  if (values.NODE_ENV !== 'production') return []
  const problems: Problem[] = []
  if (values.SWAP_BASE_URL === 'sandbox') {
    const expected = "the swap upstream's http or https URL: NODE_ENV=production refuses the sandbox"
    problems.push({ name: 'SWAP_BASE_URL', expected })
  }
  if (values.PAYMENTS_BASE_URL === 'sandbox') {
    const expected =
      "the payments upstream's http or https URL, or nothing: NODE_ENV=production refuses the sandbox"
    problems.push({ name: 'PAYMENTS_BASE_URL', expected })
  }
  return problems
}

function checkPartition({ QUOTE_PARTITION, QUOTE_PARTITION_HEADER }: SettingValues): Problem[] {
  if (QUOTE_PARTITION !== 'header' || QUOTE_PARTITION_HEADER !== undefined) return []
  const expected = 'a header name such as cf-ipcountry: QUOTE_PARTITION is header'
  return [{ name: 'QUOTE_PARTITION_HEADER', expected }]
}

/**
 * The headers in which trusted proxies describe the client must not be keyed: a keyed header is sent to the provider,
 * also when an untrusted client wrote it.
 */
function checkKeyHeaders(values: SettingValues): Problem[] {
  const expected = 'a header that is not in QUOTE_KEY_HEADERS: it is never sent to the provider'
  const { CLIENT_IP_HEADER, QUOTE_PARTITION_HEADER = [], QUOTE_KEY_HEADERS: keyed } = values
  const described = { CLIENT_IP_HEADER: [CLIENT_IP_HEADER], QUOTE_PARTITION_HEADER }
  return (['CLIENT_IP_HEADER', 'QUOTE_PARTITION_HEADER'] as const)
    .filter((name) => described[name].some((header) => keyed.includes(header)))
    .map((name) => ({ name, expected }))
}

function warningsFor(values: SettingValues): string[] {
  const warnings: string[] = []
  if (values.SWAP_AUTHORIZATION !== undefined && !isLoopback(values.HOST)) {
    warnings.push(
      `HOST=${values.HOST} is reachable from other machines and SWAP_AUTHORIZATION is set: anyone who reaches ` +
        'that port uses your key. Keep HOST on loopback, or let only callers you trust connect.',
    )
  }
  if (values.QUOTE_PARTITION !== 'header' && values.QUOTE_PARTITION_HEADER !== undefined) {
    warnings.push('QUOTE_PARTITION_HEADER is set but not used, because QUOTE_PARTITION is not header.')
  }
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
        'quote is no longer served. Set QUOTE_REFRESH_AHEAD_MS higher than that.',
    )
  }
  const { ORDER_EXPIRY_MARGIN_MS: margin } = values
  if (margin > minValidity) {
    warnings.push(
      `ORDER_EXPIRY_MARGIN_MS=${margin} is more than QUOTE_MIN_VALIDITY_MS (${minValidity}): quotes are served that ` +
        'orders can no longer use. Set QUOTE_MIN_VALIDITY_MS at least as high.',
    )
  }
  if (values.LEDGER_RETENTION_MS === 0) {
    warnings.push(
      'LEDGER_RETENTION_MS=0 forgets quotes as they expire: late orders are then unknown and not refused as expired.',
    )
  }
  const { QUOTE_CACHE_BYTES: bytes, QUOTE_MAX_BYTES: maxBytes } = values
  if (bytes < maxBytes) {
    warnings.push(
      `QUOTE_CACHE_BYTES=${bytes} is less than QUOTE_MAX_BYTES (${maxBytes}): a quote between the two is never ` +
        'cached. Set QUOTE_CACHE_BYTES higher.',
    )
  }
  const { LEDGER_ENTRIES: known, QUOTE_CACHE_ENTRIES: cached } = values
  if (values.ORDER_UNKNOWN_QUOTE === 'refuse' && known < cached) {
    warnings.push(
      `LEDGER_ENTRIES=${known} is less than QUOTE_CACHE_ENTRIES (${cached}) and ORDER_UNKNOWN_QUOTE is refuse: an ` +
        'order for a live quote that the ledger has dropped is refused as unknown. Set LEDGER_ENTRIES higher.',
    )
  }
  if (values.NODE_ENV === 'prod') {
    warnings.push('NODE_ENV=prod has no effect; only NODE_ENV=production refuses the sandbox.')
  }
  return warnings
}

// A region may also be told by its code or its name, and so may a country: x-region-code, x-country_name.
const endsInRegion = /region(?:[-_]?(?:code|name))?$/
const endsInCountry = /country(?:[-_]?(?:code|name))?$/

/** ISO 3166-2 numbers regions within their country: 07 alone is a place in Iran and in Japan. */
function regionsAlone({ QUOTE_PARTITION, QUOTE_PARTITION_HEADER: names = [] }: SettingValues): string[] {
  const region = names.find((name) => endsInRegion.test(name))
  if (QUOTE_PARTITION !== 'header' || region === undefined) return []
  if (names.some((name) => endsInCountry.test(name))) return []
  return [
    `QUOTE_PARTITION_HEADER=${names.join(',')} says a region without its country: IR-07 and JP-07 would share quotes. ` +
      `Name a header of the country beside ${region}, such as cloudfront-viewer-country or cf-ipcountry.`,
  ]
}

/** Finds what only several settings together show. */
export function crossCheck(values: SettingValues, given: GivenSettings): Findings {
  const problems = [
    ...checkProduction(values),
    ...checkListeners(values, given),
    ...checkPartition(values),
    ...checkKeyHeaders(values),
  ]
  return { problems: problems.filter(({ name }) => !given.isWrong(name)), warnings: warningsFor(values) }
}
