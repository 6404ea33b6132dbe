import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { ask, giveQuote, lookups, quoteBody, untilCounted } from '../support/clients/quotes.ts'
import { rawExchange, valuesOf } from '../support/clients/raw-connection.ts'
import { gatewayTo, recordingUpstream, until } from '../support/gateways/between.ts'

const byDefault = 'App-Name, App-Version, User-Agent, Authorization, Forwarded'
const request = (method = 'GET', ...lines: string[]) =>
  [
    `${method} /v3/pairs/ETH_USDC/quotes?amount=0.1 HTTP/1.1`,
    'Host: g',
    'App-Name: a',
    ...lines,
    '',
    '',
  ].join('\r\n')

/** A gateway in front of an upstream whose quotes come with these headers. */
async function quoting(headers: readonly string[] = [], settings = {}) {
  const upstream = await recordingUpstream((_request, response) => giveQuote(response, quoteBody(), headers))
  return gatewayTo(upstream.url, settings)
}

async function varyOf(url: string, bytes = request()): Promise<[status: string, vary: string[]]> {
  const { rawHeaders } = await rawExchange(url, bytes)
  const [status = ''] = valuesOf(rawHeaders, 'cache-status')
  return [/hit|stored|collapsed|detail=.*/.exec(status)?.[0] ?? status, valuesOf(rawHeaders, 'vary')]
}

// A cache of the backend's own would otherwise hand one user's quote to another.
describe('a quote names in Vary every header that chose it:', () => {
  it('fetched, from the cache, and without its body', async () => {
    const { url } = await quoting()
    expect(await varyOf(url)).toEqual(['stored', [byDefault]])
    expect(await varyOf(url)).toEqual(['hit', [byDefault]])
    expect(await varyOf(url, request('HEAD'))).toEqual(['hit', [byDefault]])
  })

  it('fetched for another client a moment before', async () => {
    const waiting: ServerResponse[] = []
    const upstream = await recordingUpstream((_request, response) => void waiting.push(response))
    const gateway = await gatewayTo(upstream.url)
    const both = [varyOf(gateway.url), varyOf(gateway.url)]
    await untilCounted(gateway, lookups('collapsed'), 1)
    await until(() => waiting.length === 1, 'the one call')
    giveQuote(waiting[0] as ServerResponse)
    expect((await Promise.all(both)).sort()).toEqual([
      ['collapsed', [byDefault]],
      ['stored', [byDefault]],
    ])
  })

  it('where each answer is written by Node: with a rate limit, or mounted in another server', async () => {
    const limited = await quoting([], { RATE_LIMIT_PER_MINUTE: 100 })
    const mounted = await quoting(['Vary', 'Origin'])
    const server = createServer(mounted.listener).listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await new Promise((resolve) => server.once('listening', resolve))
    const mountedUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
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
    expect(await varyOf(byIp.url)).toEqual(['stored', ['App-Name, X-Tier, X-Forwarded-For']])
  })

  it('also if it is not cached', async () => {
    const { url } = await quoting([], { TRUST_PROXY: 'loopback' })
    expect(await varyOf(url, request('GET', 'Forwarded: for=unknown'))).toEqual([
      'detail=unknown-client',
      [byDefault],
    ])
    const small = await quoting([], { quoteBytes: 1 })
    expect(await varyOf(small.url)).toEqual(['detail=too-large', [byDefault]])
  })
})

describe('the Vary of the provider', () => {
  it.each([
    [['Vary', 'Origin, user-agent'], `${byDefault.replace('User-Agent', 'user-agent')}, Origin`],
    [['vary', 'Accept', 'X-A', '1', 'VARY', ', accept,Origin ,'], `${byDefault}, accept, Origin`],
    [['Vary', ''], byDefault],
  ])('%j is merged with it, and no name comes twice', async (headers, merged) => {
    const { url } = await quoting(headers)
    for (const how of ['stored', 'hit', 'hit']) expect(await varyOf(url)).toEqual([how, [merged]])
  })

  it('stays where it is *, which says more than any name', async () => {
    const { url } = await quoting(['Vary', 'Accept', 'vary', 'Origin, *'])
    expect(await varyOf(url)).toEqual(['detail=vary', ['Accept', 'Origin, *']])
  })

  it('is left unchanged on an answer that is not a quote', async () => {
    const upstream = await recordingUpstream((_request, response) =>
      giveQuote(response, '{}', ['Vary', 'Accept']),
    )
    const { url } = await gatewayTo(upstream.url)
    expect((await ask(url)).headers.vary).toBe('Accept')
  })
})
