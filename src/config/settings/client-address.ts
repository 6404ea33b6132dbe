import { facts } from '../setting-facts.ts'
import { clientIpHeader, trustedProxies } from '../value-schemas.ts'

export const clientAddressSettings = {
  TRUST_PROXY: trustedProxies.optional().register(facts, {
    meaning:
      'Proxies whose client-IP header is trusted: addresses, CIDRs, or the names loopback, linklocal, ' +
      'uniquelocal, separated by commas. Host bits of a CIDR are masked; IPv4-mapped entries count as IPv4.',
  }),
  CLIENT_IP_HEADER: clientIpHeader.prefault('forwarded').register(facts, {
    meaning:
      'The one client-IP header that trusted proxies send: forwarded, x-forwarded-for (most proxies), or a one-address ' +
      'header such as cf-connecting-ip. If they send another one in its place, the provider sees the proxy for all its ' +
      'users, and the log names both. If it names no client, the provider gets for=unknown and the quote is not ' +
      'shared, unless QUOTE_PARTITION=none shares all quotes.',
  }),
}
