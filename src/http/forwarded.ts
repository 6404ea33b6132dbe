import { isIPv4 } from 'node:net'
import { memoize } from './headers.ts'
import { plainAddress } from './ip-address.ts'

/**
 * The one element that the upstream receives. `address` is the client's, as `normalizeAddress` writes it. Text that is
 * not an address becomes `unknown`, so that no other text can reach the header.
 */
export function formatForwarded(address: string | undefined): string {
  if (address === undefined) return 'for=unknown'
  if (isIPv4(address)) return `for=${address}`
  const plain = plainAddress(address)
  // RFC 7239 section 6: brackets are not token characters, so an IPv6 address is always quoted. The swap
  // upstream ignores it otherwise and judges the gateway's own address instead.
  return plain === undefined ? 'for=unknown' : `for="[${plain}]"`
}

/** Every header, lower case, that claims a client's address; `x-forwarded-…` is matched by its prefix. */
export const clientAddressHeaders: ReadonlySet<string> = new Set(
  `forwarded forwarded-for x-forwarded x-original-forwarded-for x-vercel-forwarded-for x-vercel-proxied-for
  x-real-ip x-client-ip client-ip x-cluster-client-ip proxy-client-ip wl-proxy-client-ip x-proxyuser-ip
  true-client-ip x-true-client-ip fastly-client-ip fly-client-ip incap-client-ip x-nf-client-connection-ip
  cf-connecting-ip cf-connecting-ipv6 cf-pseudo-ipv4 do-connecting-ip cloudfront-viewer-address
  x-azure-clientip x-azure-socketip x-sucuri-clientip x-appengine-user-ip x-envoy-external-address
  ali-cdn-real-ip cdn-src-ip x-host-ip x-originating-ip x-remote-ip x-remote-addr`.split(/\s+/),
)

/** Those of them that name an address. What else begins with `x-forwarded-` says how the client asked, not from where. */
function namesClientAddress(name: string): boolean {
  const lowerCaseName = name.toLowerCase().replaceAll('_', '-')
  return lowerCaseName === 'x-forwarded-for' || clientAddressHeaders.has(lowerCaseName)
}

/** A shorter name is not in the list. Most header names are shorter, and need not be lowercased to find that out. */
const shortestClientAddressHeader = Math.min(...[...clientAddressHeaders].map((name) => name.length))

export const claimsClientAddress = memoize((lowerCaseName) => {
  // CGI and WSGI servers do not tell "_" from "-" in a header name.
  const name = lowerCaseName.includes('_') ? lowerCaseName.replaceAll('_', '-') : lowerCaseName
  return clientAddressHeaders.has(name) || name.startsWith('x-forwarded-')
})

/** The first header that claims a client's address, as spelled. */
export function claimingHeader(rawHeaders: readonly string[]): string | undefined {
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]
    if (name === undefined || name.length < shortestClientAddressHeader) continue
    if (claimsClientAddress(name.toLowerCase())) return name
  }
  return undefined
}

/**
 * The header that names a client's address, as spelled. Of several, the one into which most proxies write: its name is
 * the advice to the operator.
 */
export function otherHeader(rawHeaders: readonly string[]): string | undefined {
  let first: string | undefined
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? ''
    if (name.length < shortestClientAddressHeader || !namesClientAddress(name)) continue
    if (name.toLowerCase() === 'x-forwarded-for') return name
    first ??= name
  }
  return first
}
