import { memoize } from './memoize.ts'

/** Every header, lower case, that claims a client's address; `x-forwarded-…` is matched by its prefix. */
export const clientAddressHeaders: ReadonlySet<string> = new Set(
  `forwarded forwarded-for x-forwarded x-original-forwarded-for x-vercel-forwarded-for x-vercel-proxied-for
  x-real-ip x-client-ip client-ip x-cluster-client-ip proxy-client-ip wl-proxy-client-ip x-proxyuser-ip
  true-client-ip x-true-client-ip fastly-client-ip fly-client-ip incap-client-ip x-nf-client-connection-ip
  cf-connecting-ip cf-connecting-ipv6 cf-pseudo-ipv4 do-connecting-ip cloudfront-viewer-address
  x-azure-clientip x-azure-socketip x-sucuri-clientip x-appengine-user-ip x-envoy-external-address
  ali-cdn-real-ip cdn-src-ip x-host-ip x-originating-ip x-remote-ip x-remote-addr`.split(/\s+/),
)

/** Most header names are shorter than each of these, and need not be brought into lower case for a look. */
export const shortestClientAddressHeader = Math.min(...[...clientAddressHeaders].map((name) => name.length))

export const claimsClientAddress = memoize((lowerCaseName) => {
  // To servers behind CGI or WSGI a "_" is a "-".
  const name = lowerCaseName.includes('_') ? lowerCaseName.replaceAll('_', '-') : lowerCaseName
  return clientAddressHeaders.has(name) || name.startsWith('x-forwarded-')
})
