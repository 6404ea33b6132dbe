import { describe, expect, it } from 'vitest'
import { ask, counted, giveQuote } from '../support/clients/quotes.ts'
import { gatewayTo, recordingUpstream } from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { keptLog, levels } from '../support/observing/log-lines.ts'

const noted = 'quotegate_client_address_headers_ignored_total{reason="other-header"}'

async function statusOf(operationsUrl: string): Promise<{ outages: object[]; otherHeaderPeers: object }> {
  const answer = await fetch(`${operationsUrl}/status`)
  return JSON.parse(await answer.text())
}

/** TRUST_PROXY is set, CLIENT_IP_HEADER was forgotten or is wrong: every user looks like the proxy to the provider. */
describe('a trusted proxy that sends another client-address header than CLIENT_IP_HEADER', () => {
  it.each([
    [undefined, 'forwarded', ['X-Forwarded-For', '203.0.113.7'], 'X-Forwarded-For'],
    ['forwarded', 'forwarded', ['x-real-ip', '203.0.113.7'], 'x-real-ip'],
    ['x-forwarded-for', 'x-forwarded-for', ['Forwarded', 'for=203.0.113.7'], 'Forwarded'],
    ['cf-connecting-ip', 'cf-connecting-ip', ['X-Forwarded-For', '203.0.113.7'], 'X-Forwarded-For'],
    // To HTTP this is another name.
    ['x-forwarded-for', 'x-forwarded-for', ['X_Forwarded_For', '203.0.113.7'], 'X_Forwarded_For'],
    // Of several, the one that proxies write a list into.
    [
      undefined,
      'forwarded',
      ['X-Real-IP', '203.0.113.7', 'X-Forwarded-For', '203.0.113.7'],
      'X-Forwarded-For',
    ],
  ])(
    'is named once in the log, with both headers: CLIENT_IP_HEADER=%s',
    async (given, inUse, sent, named) => {
      const log = await keptLog('info')
      const upstream = await recordingUpstream((_request, response) => giveQuote(response))
      const settings = { SWAP_BASE_URL: upstream.url, TRUST_PROXY: 'loopback', CLIENT_IP_HEADER: given }
      await using gateway = await startGateway(settings, { logger: log.logger })
      const before = log.lines(levels.warn).length
      for (let times = 0; times < 3; times += 1)
        await ask(gateway.url, {
          headers: ['App-Name', 'a', ...sent],
          path: `/v3/pairs/P_${times}/quotes?amount=1`,
        })
      expect(upstream.requests.map(({ headers }) => headers.forwarded)).toEqual(
        Array(3).fill('for=127.0.0.1'),
      )
      expect(log.lines(levels.warn).slice(before)).toMatchObject([
        {
          peer: '127.0.0.1',
          reason: 'other-header',
          msg:
            `127.0.0.1 is trusted and sends ${named}, but CLIENT_IP_HEADER is ${inUse}: the provider sees 127.0.0.1 for ` +
            `all its users whose requests have no ${inUse} header. If your proxy writes ${named} itself, set ` +
            `CLIENT_IP_HEADER=${named.toLowerCase()}`,
        },
      ])
    },
  )

  it('is counted with each request, and /status has a sentence of it', async () => {
    const upstream = await recordingUpstream((_request, response) => giveQuote(response))
    const gateway = await gatewayTo(upstream.url, { TRUST_PROXY: 'loopback' })
    expect(await statusOf(gateway.operationsUrl)).toMatchObject({
      outages: [],
      otherHeaderPeers: { count: 0, peers: [], headers: [] },
    })
    for (const user of ['203.0.113.7', '203.0.113.8'])
      await ask(gateway.url, { headers: ['App-Name', 'a', 'X-Forwarded-For', user] })
    expect(await counted(gateway, noted)).toBe(2)
    await expect
      .poll(async () => (await statusOf(gateway.operationsUrl)).outages, { timeout: 10_000 })
      .toMatchObject([
        {
          what: 'client-ip-header',
          isSevere: false,
          names: ['127.0.0.1'],
          howMany: 1,
          headers: ['X-Forwarded-For'],
          clientIpHeader: 'forwarded',
          requests: 2,
          concerned: 'misplaced',
        },
      ])
    expect((await statusOf(gateway.operationsUrl)).otherHeaderPeers).toEqual({
      count: 1,
      peers: ['127.0.0.1'],
      headers: ['X-Forwarded-For'],
    })
  })
})

describe('no proxy is named for', () => {
  it.each([
    ['both headers', ['Forwarded', 'for=203.0.113.7', 'X-Forwarded-For', '203.0.113.7']],
    ['its header alone', ['Forwarded', 'for=203.0.113.7']],
    ['neither header: its own request', []],
    ['what says nothing of an address', ['X-Forwarded-Proto', 'https', 'X-Forwarded-Host', 'swap.example']],
  ])('%s', async (_what, sent) => {
    const log = await keptLog('info')
    const settings = { TRUST_PROXY: 'loopback', CLIENT_IP_HEADER: 'forwarded' }
    await using gateway = await startGateway(settings, { logger: log.logger })
    await ask(gateway.url, { headers: ['App-Name', 'a', ...sent] })
    expect(log.lines(levels.warn)).toEqual([])
    expect(await counted(gateway, noted)).toBe(0)
    expect((await statusOf(gateway.operationsUrl)).outages).toEqual([])
  })
})

it('a trusted proxy whose header is missing in some requests gets its own address there, and the others are right', async () => {
  const upstream = await recordingUpstream((_request, response) => giveQuote(response))
  const gateway = await gatewayTo(upstream.url, { TRUST_PROXY: 'loopback', CLIENT_IP_HEADER: 'forwarded' })
  const forwarded = ['Forwarded', 'for=203.0.113.7']
  const listed = ['X-Forwarded-For', '203.0.113.8']
  for (const sent of [forwarded, listed, forwarded, [...forwarded, ...listed]])
    await ask(gateway.url, { headers: ['App-Name', 'a', ...sent] })
  // The third and the fourth are hits.
  expect(upstream.requests.map(({ headers }) => headers.forwarded)).toEqual([
    'for=203.0.113.7',
    'for=127.0.0.1',
  ])
  expect(await counted(gateway, noted)).toBe(1)
})
