import { networkInterfaces } from 'node:os'
import { upstreamNames, upstreamTable } from '../http/upstreams.ts'
import { canonicalHost, isLoopback, isWildcard } from './host-name.ts'
import type { SettingName, SettingValues } from './settings.ts'
import { type WarningContext, warningsFor } from './warnings.ts'
import { withoutEffect } from './without-effect.ts'

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

export interface GivenSettings extends WarningContext {
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
  for (const name of [...baseUrlNames, 'UPSTREAM_PROXY', 'OTEL_EXPORTER_OTLP_ENDPOINT'] as const) {
    const value = name === 'UPSTREAM_PROXY' ? values[name]?.url : values[name]
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

/** Finds what only several settings together show. */
export function crossCheck(values: SettingValues, given: GivenSettings): Findings {
  const problems = [
    ...checkProduction(values),
    ...checkListeners(values, given),
    ...checkPartition(values),
    ...checkKeyHeaders(values),
  ]
  return {
    problems: problems.filter(({ name }) => !given.isWrong(name)),
    warnings: [...warningsFor(values, given), ...withoutEffect(values, given.isSet)],
  }
}
