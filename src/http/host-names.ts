import { isIPv4, isIPv6 } from 'node:net'

/** One spelling for each host: lower case, no brackets, zone or final dot; IPv4-mapped IPv6 as IPv4. */
export function canonicalHost(host: string): string {
  const [bare = ''] = host
    .toLowerCase()
    .replace(/^\[|\]$/g, '')
    .split('%')
  if (!isIPv6(bare)) return bare.replace(/\.$/, '')
  const compressed = new URL(`http://[${bare}]`).hostname.slice(1, -1)
  const mapped = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(compressed)
  if (mapped === null) return compressed
  const octets = mapped.slice(1).flatMap((group) => {
    const bits = Number.parseInt(group, 16)
    return [bits >> 8, bits & 255]
  })
  return octets.join('.')
}

export function isWildcard(host: string): boolean {
  return ['0.0.0.0', '::'].includes(canonicalHost(host))
}

export function isLoopback(host: string): boolean {
  const name = canonicalHost(host)
  if (isIPv4(name)) return name.startsWith('127.')
  return name === '::1' || name === 'localhost' || name.endsWith('.localhost')
}
