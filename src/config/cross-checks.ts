import { networkInterfaces } from 'node:os'
import { canonicalHost, isLoopback, isWildcard } from '../http/ip-address.ts'
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
  /** A default stands in for it, of which nothing should be said. */
  isWrong: (name: SettingName) => boolean
}

const baseUrlNames = ['SWAP_BASE_URL', 'PAYMENTS_BASE_URL', 'WEBHOOKS_BASE_URL'] as const

function isOfThisMachine(host: string): boolean {
  const addresses = Object.values(networkInterfaces()).flatMap((list) => list ?? [])
  return addresses.some(({ address }) => canonicalHost(address) === host)
}

function reaches(url: URL, listener: Listener): boolean {
  const port = Number(url.port === '' ? { 'http:': 80, 'https:': 443 }[url.protocol] : url.port)
  if (port !== listener.port) return false
  const host = canonicalHost(url.hostname)
  if (host === canonicalHost(listener.host)) return true
  // To connect to 0.0.0.0 or :: is to connect to oneself.
  const isLocal = isLoopback(host) || isWildcard(host)
  if (isWildcard(listener.host)) return isLocal || isOfThisMachine(host)
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
    const expected = "the swap upstream's http or https URL: with NODE_ENV=production there is no sandbox"
    problems.push({ name: 'SWAP_BASE_URL', expected })
  }
  if (values.PAYMENTS_BASE_URL === 'sandbox') {
    const expected =
      "the payments upstream's http or https URL, or nothing: with NODE_ENV=production there is no sandbox"
    problems.push({ name: 'PAYMENTS_BASE_URL', expected })
  }
  return problems
}

function checkPartition({ QUOTE_PARTITION, QUOTE_PARTITION_HEADER }: SettingValues): Problem[] {
  if (QUOTE_PARTITION !== 'header' || QUOTE_PARTITION_HEADER !== undefined) return []
  const expected = 'a header name such as cf-ipcountry: QUOTE_PARTITION is header'
  return [{ name: 'QUOTE_PARTITION_HEADER', expected }]
}

/** What trusted peers say of a client is for us: from anybody else it is a claim that the provider must not hear. */
function checkSaidToUs(values: SettingValues): Problem[] {
  const expected = 'a header that is not in QUOTE_KEY_HEADERS: it is never sent to the provider'
  return (['CLIENT_IP_HEADER', 'QUOTE_PARTITION_HEADER'] as const)
    .filter((name) => values.QUOTE_KEY_HEADERS.includes(values[name] ?? ''))
    .map((name) => ({ name, expected }))
}

function warningsFor(values: SettingValues): string[] {
  const warnings: string[] = []
  if (values.SWAP_AUTHORIZATION !== undefined && !isLoopback(values.HOST)) {
    warnings.push(
      `HOST=${values.HOST} is reachable from other machines and SWAP_AUTHORIZATION is set: whoever reaches ` +
        'that port uses your key. Keep HOST on loopback, or let only callers you trust connect.',
    )
  }
  if (values.QUOTE_PARTITION !== 'header' && values.QUOTE_PARTITION_HEADER !== undefined) {
    warnings.push('QUOTE_PARTITION_HEADER is set and not used: QUOTE_PARTITION is not header.')
  }
  if (values.QUOTE_PARTITION === 'header' && values.TRUST_PROXY === undefined) {
    warnings.push('QUOTE_PARTITION=header is believed only from TRUST_PROXY, which is not set: all go by ip.')
  }
  const { QUOTE_REFRESH_AHEAD_MS: ahead, QUOTE_MIN_VALIDITY_MS: least } = values
  if (ahead > 0 && ahead <= least) {
    warnings.push(
      `QUOTE_REFRESH_AHEAD_MS=${ahead} never comes to pass: with less left than QUOTE_MIN_VALIDITY_MS (${least}) ` +
        'a quote is not served any more. Set it higher than that.',
    )
  }
  const { ORDER_EXPIRY_MARGIN_MS: margin } = values
  if (margin > least) {
    warnings.push(
      `ORDER_EXPIRY_MARGIN_MS=${margin} is more than QUOTE_MIN_VALIDITY_MS (${least}): quotes are served that no order ` +
        'can use any more. Set the second no lower.',
    )
  }
  const { LEDGER_TERMS_MS: termsMs, LEDGER_RETENTION_MS: retentionMs } = values
  if (termsMs === 0 || retentionMs === 0) {
    const [name, whose] =
      retentionMs === 0
        ? ['LEDGER_RETENTION_MS', 'an order']
        : ['LEDGER_TERMS_MS', 'an order that names no quote']
    warnings.push(
      `${name}=0 forgets quotes as they expire: ${whose} for an expired one is unknown then, not refused as expired.`,
    )
  }
  const { QUOTE_CACHE_BYTES: bytes, QUOTE_MAX_BYTES: most } = values
  if (bytes < most) {
    warnings.push(
      `QUOTE_CACHE_BYTES=${bytes} is less than QUOTE_MAX_BYTES (${most}): of quotes larger than that none is kept. ` +
        'Set it higher.',
    )
  }
  const { LEDGER_ENTRIES: known, QUOTE_CACHE_ENTRIES: cached } = values
  if (values.ORDER_UNKNOWN_QUOTE === 'refuse' && known < cached) {
    warnings.push(
      `LEDGER_ENTRIES=${known} is less than QUOTE_CACHE_ENTRIES (${cached}) and ORDER_UNKNOWN_QUOTE is refuse: with ` +
        'more live quotes than that, an order for one is refused as unknown. Set it higher.',
    )
  }
  if (values.NODE_ENV === 'prod') {
    warnings.push('NODE_ENV=prod means nothing here; only NODE_ENV=production keeps the sandbox out.')
  }
  return warnings
}

/** What no setting shows by itself, only several together. */
export function checkTogether(values: SettingValues, given: GivenSettings): Findings {
  const problems = [
    ...checkProduction(values),
    ...checkListeners(values, given),
    ...checkPartition(values),
    ...checkSaidToUs(values),
  ]
  return { problems: problems.filter(({ name }) => !given.isWrong(name)), warnings: warningsFor(values) }
}
