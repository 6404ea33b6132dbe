import { isIP, isIPv4 } from 'node:net'
import { normalizeAddress } from '../http/ip-address.ts'

/** Whether `host` is an IP address without brackets, or a host name. */
export function isHost(host: string): boolean {
  if (isIP(host) !== 0) return true
  // Some resolvers take a name whose last label is a number (127.1, 0) for an address, others do not.
  const lastLabel = host.split('.').at(-1) ?? ''
  return /^[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?$/i.test(host) && !/^\d*$|^0x/i.test(lastLabel)
}

/** The canonical spelling of a host: a normalized address, or a name in lower case without a final dot. */
export function canonicalHost(host: string): string {
  const bare = host.toLowerCase().replace(/^\[|\]$/g, '')
  return normalizeAddress(bare) ?? bare.replace(/%.*$/s, '').replace(/\.$/, '')
}

export function isWildcard(host: string): boolean {
  return ['0.0.0.0', '::'].includes(canonicalHost(host))
}

export function isLoopback(host: string): boolean {
  const name = canonicalHost(host)
  if (isIPv4(name)) return name.startsWith('127.')
  return name === '::1' || name === 'localhost' || name.endsWith('.localhost')
}
