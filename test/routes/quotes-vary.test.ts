import { createServer } from 'node:http'
import { describe, expect, it } from 'vitest'
import { giveQuote, quoteBody, quotePath } from '../support/clients/quotes.ts'
import { rawExchange, valuesOf } from '../support/clients/raw-connection.ts'
import { gatewayTo, recordingUpstream } from '../support/gateways/between.ts'
import { listening } from '../support/machine/listening.ts'

const byDefault = 'App-Name, App-Version, User-Agent, Authorization, Forwarded'
const request = (method = 'GET', line = 'X-A: 1') =>
  `${method} ${quotePath}?amount=0.1 HTTP/1.1\r\nHost: g\r\nApp-Name: a\r\n${line}\r\n\r\n`

/** A gateway in front of an upstream whose quotes come with these headers. */
async function quoting(headers: readonly string[] = [], settings = {}) {
  const upstream = await recordingUpstream((_request, response) =>
    giveQuote(response, quoteBody(), headers),
  )
  return gatewayTo(upstream.url, settings)
}

async function varyOf(
  url: string,
  bytes = request(),
): Promise<[status: string, vary: string[]]> {
  const { rawHeaders } = await rawExchange(url, bytes)
  const [status = ''] = valuesOf(rawHeaders, 'cache-status')
  return [
    /hit|stored|detail=.*/.exec(status)?.[0] ?? status,
    valuesOf(rawHeaders, 'vary'),
  ]
}

// A cache of the backend's own would otherwise hand one user's quote to another.
describe('a quote names in Vary every header that chose it:', () => {
  it('fetched, from the cache, and without its body', async () => {
    const { url } = await quoting()
    expect(await varyOf(url)).toEqual(['stored', [byDefault]])
    expect(await varyOf(url)).toEqual(['hit', [byDefault]])
    expect(await varyOf(url, request('HEAD'))).toEqual(['hit', [byDefault]])
  })

  it('where each answer is written by Node: with a rate limit, or mounted in another server', async () => {
    const limited = await quoting([], { RATE_LIMIT_PER_MINUTE: 100 })
    const mounted = await quoting(['Vary', 'Origin'])
    const { url: mountedUrl } = await listening(createServer(mounted.listener))
    for (const how of ['stored', 'hit']) {
      expect(await varyOf(limited.url)).toEqual([how, [byDefault]])
      expect(await varyOf(mountedUrl)).toEqual([how, [`${byDefault}, Origin`]])
    }
  })

  it('those of QUOTE_KEY_HEADERS, CLIENT_IP_HEADER and QUOTE_PARTITION_HEADER', async () => {
    const settings = {
      TRUST_PROXY: 'loopback',
      QUOTE_KEY_HEADERS: 'app-name,x-tier',
      CLIENT_IP_HEADER: 'x-forwarded-for',
      QUOTE_PARTITION: 'header',
      QUOTE_PARTITION_HEADER: 'x-country,x-region',
    }
    const { url } = await quoting([], settings)
    const chosenBy = 'App-Name, X-Tier, X-Forwarded-For, X-Country, X-Region'
    expect(await varyOf(url)).toEqual(['stored', [chosenBy]])
    const byIp = await quoting([], { ...settings, QUOTE_PARTITION: 'ip' })
    expect(await varyOf(byIp.url)).toEqual([
      'stored',
      ['App-Name, X-Tier, X-Forwarded-For'],
    ])
  })
})

describe('the Vary of the provider', () => {
  it.each([
    [
      ['Vary', 'Origin, user-agent'],
      `${byDefault.replace('User-Agent', 'user-agent')}, Origin`,
    ],
    [
      ['vary', 'Accept', 'X-A', '1', 'VARY', ', accept,Origin ,'],
      `${byDefault}, accept, Origin`,
    ],
  ])('%j is merged with it, and no name comes twice', async (headers, merged) => {
    const { url } = await quoting(headers)
    for (const how of ['stored', 'hit', 'hit'])
      expect(await varyOf(url)).toEqual([how, [merged]])
  })

  it('stays where it is *, which says more than any name', async () => {
    const { url } = await quoting(['Vary', 'Accept', 'vary', 'Origin, *'])
    expect(await varyOf(url)).toEqual(['detail=vary', ['Accept', 'Origin, *']])
  })
})
