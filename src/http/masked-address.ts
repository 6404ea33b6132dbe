import { isIPv4 } from 'node:net'
import { ipv6Groups, normalizeAddress } from './ip-address.ts'

/** Enough to tell networks apart, not people: without the last octet, or without the last 64 bits. */
export function maskedAddress(text: string | undefined): string {
  const address = text && normalizeAddress(text)
  if (!address) return 'unknown'
  if (isIPv4(address)) return address.replace(/\d+$/, 'x')
  const network = ipv6Groups(address).slice(0, 4)
  return `${network.map((group) => group.toString(16)).join(':')}:x`
}
