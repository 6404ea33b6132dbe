import type { ServerResponse } from 'node:http'

/** The settings with which users of several addresses share a quote. */
export const sharedBy = {
  header: {
    TRUST_PROXY: 'loopback',
    QUOTE_PARTITION: 'header',
    QUOTE_PARTITION_HEADER: 'x-country',
  },
  none: { TRUST_PROXY: 'loopback', QUOTE_PARTITION: 'none' },
} as const

export const refusedAddress = '203.0.113.66'

/** The headers of a user at this address, in one country. */
export const at = (address: string) => [
  'App-Name',
  'wallet',
  'Forwarded',
  `for=${address}`,
  'X-Country',
  'DE',
]

/** A refusal that says to which address it was given. */
export function refuse(response: ServerResponse, status = 403): void {
  response.writeHead(status).end(`refused to ${response.req.headers.forwarded}`)
}
