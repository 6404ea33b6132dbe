import { describe, expect, it } from 'vitest'
import { ask, counted, giveQuote } from '../support/clients/quotes.ts'
import { gatewayTo, recordingUpstream } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { keptLog, levels } from '../support/observing/log-lines.ts'

const trusting = { TRUST_PROXY: 'loopback', CLIENT_IP_HEADER: 'forwarded' }
const noted = (reason: string) => `quotegate_client_address_headers_ignored_total{reason="${reason}"}`

describe('a trusted proxy whose header names no client', () => {
  it.each([
    ['Forwarded', 'for="', 'malformed-header'],
    ['Forwarded', 'for=203.0.113.7, for=unknown', 'no-client-named'],
    ['X-Forwarded-For', '203.0.113.7, rubbish', 'malformed-header'],
    ['CF-Connecting-IP', '', 'no-client-named'],
  ])('makes its users unknown, shares none of their quotes, and is counted: %s: %s', async (...row) => {
    const [name, value, reason] = row
    const upstream = await recordingUpstream((_request, response) => giveQuote(response))
    const settings = { TRUST_PROXY: 'loopback', CLIENT_IP_HEADER: name }
    const gateway = await gatewayTo(upstream.url, settings)
    for (let times = 0; times < 2; times += 1) {
      const { headers } = await ask(gateway.url, { headers: ['App-Name', 'a', name, value] })
      expect(headers['cache-status']).toBe('quotegate; fwd=bypass; detail=unknown-client')
    }
    expect(upstream.requests.map(({ headers }) => headers.forwarded)).toEqual(['for=unknown', 'for=unknown'])
    expect(await counted(gateway, noted(reason))).toBe(2)
  })

  it('is named once in the log, with its header', async () => {
    const log = await keptLog('info')
    const upstream = await recordingUpstream((_request, response) => giveQuote(response))
    const settings = { SWAP_BASE_URL: upstream.url, ...trusting }
    await using gateway = await startGateway(settings, { logger: log.logger })
    for (const value of ['for="', 'for=unknown', 'for=203.0.113.7'])
      await ask(gateway.url, { headers: ['App-Name', 'a', 'Forwarded', value] })
    expect(log.lines(levels.warn)).toMatchObject([
      {
        peer: '127.0.0.1',
        reason: 'malformed-header',
        msg:
          '127.0.0.1 sent Forwarded that cannot be read: the provider gets for=unknown, and the ' +
          'quote is not shared',
      },
    ])
  })

  it('shares with all clients with QUOTE_PARTITION=none, and the log says so', async () => {
    const log = await keptLog('info')
    const upstream = await recordingUpstream((_request, response) => giveQuote(response))
    const settings = { SWAP_BASE_URL: upstream.url, ...trusting, QUOTE_PARTITION: 'none' }
    await using gateway = await startGateway(settings, { logger: log.logger })
    const ids = new Set<string>()
    for (const client of ['for=unknown', 'for=203.0.113.7', 'for=unknown'])
      ids.add((await ask(gateway.url, { headers: ['App-Name', 'a', 'Forwarded', client] })).body)
    expect([ids.size, upstream.requests.length]).toEqual([1, 1])
    expect(upstream.requests[0]?.headers.forwarded).toBe('for=unknown')
    expect(log.lines(levels.warn).map(({ msg }) => msg)).toEqual([
      expect.stringMatching(/^QUOTE_PARTITION=none shares quotes among all clients/),
      '127.0.0.1 sent Forwarded that names no client: the provider gets for=unknown, and the quote is shared with ' +
        'all clients (QUOTE_PARTITION=none)',
    ])
  })

  it('shares no quote by place either, because the provider does not see the place', async () => {
    const upstream = await recordingUpstream((_request, response) => giveQuote(response))
    const gateway = await gatewayTo(upstream.url, {
      TRUST_PROXY: 'loopback',
      QUOTE_PARTITION: 'header',
      QUOTE_PARTITION_HEADER: 'cf-ipcountry',
    })
    for (const client of ['for=unknown', 'for=203.0.113.7', 'for=unknown', 'for=203.0.113.8'])
      await ask(gateway.url, { headers: ['App-Name', 'a', 'CF-IPCountry', 'DE', 'Forwarded', client] })
    expect(upstream.requests).toHaveLength(3)
  })
})
