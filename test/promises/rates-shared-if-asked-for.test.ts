import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import {
  type Ask,
  ask,
  asking,
  counted,
  createTestClock,
  giveQuote,
  untilCounted,
} from '../support/clients/quotes.ts'
import { gatewayWith, recordingUpstream, until } from '../support/gateways/between.ts'

const ratesPath = '/v3/pairs/ETH_USDC/rates'
const startMs = createTestClock().nowMs()

/** Two rates, the first of which is over after 20 s, and the other after 30. */
const list = (nowMs: number) =>
  JSON.stringify(
    [30_000, 20_000].map((lifeMs) => ({
      pairId: 'ETH_USDC',
      amount: { assetId: 'USDC', value: 2896.45 },
      expiry: nowMs + lifeMs,
    })),
  )

interface Given {
  status?: number
  body?: string
  headers?: readonly string[]
}

/** A provider of rates, whose clock is that of the gateway. */
async function stage(settings = {}, given: () => Given = () => ({})) {
  const clock = createTestClock()
  const upstream = await recordingUpstream(({ target }, response) => {
    const date = ['Date', new Date(clock.nowMs()).toUTCString()]
    if (target.includes('/quotes')) return giveQuote(response, undefined, date)
    const { status = 200, body = list(clock.nowMs()), headers = [] } = given()
    response.sendDate = false
    response.writeHead(status, [...date, ...headers]).end(body)
  })
  const all = { SWAP_BASE_URL: upstream.url, SHARE_RATES: 'on', ...settings }
  const gateway = await gatewayWith({ TRUST_PROXY: 'loopback', ...all }, { clock })
  const rates = (options: Ask = {}) => ask(gateway.url, { path: ratesPath, ...options })
  return { clock, upstream, gateway, rates }
}

const from = (client: number, ...more: string[]) => ({
  headers: ['App-Name', 'web', 'Forwarded', `for=192.0.2.${client}`, ...more],
})

describe('with SHARE_RATES=on a list of rates', () => {
  it('is one call for all who ask at once, each of whom gets its bytes', async () => {
    const { gateway, rates, upstream } = await stage()
    const waiting: ServerResponse[] = []
    upstream.answer((_request, response) => waiting.push(response))
    const crowd = Array.from({ length: 5 }, () => rates())
    await until(() => waiting.length > 0, 'the call')
    await untilCounted(gateway, 'quotegate_http_requests_in_flight', crowd.length)
    const body = ` ${list(startMs)}\n`
    const date = ['Date', new Date(startMs).toUTCString()]
    waiting[0]?.writeHead(200, date).end(body)
    for (const answer of await Promise.all(crowd))
      expect([answer.status, answer.body]).toEqual([200, body])
    expect(upstream.requests).toHaveLength(1)
  })

  it('is served until the first of its rates is over, but for the time to order', async () => {
    const { clock, rates, upstream } = await stage({ QUOTE_MIN_VALIDITY_MS: 0 })
    const first = await rates()
    clock.advance(19_999)
    const hit = await rates()
    expect(hit.body).toBe(first.body)
    expect(hit.headers).toMatchObject({
      'cache-status': 'quotegate; hit; ttl=0',
      'cache-control': 'private, max-age=0',
    })
    clock.advance(1)
    expect((await rates()).body).not.toBe(first.body)
    expect(upstream.requests).toHaveLength(2)
  })

  it('is not shared with another address, application, query, credential or pair', async () => {
    const { rates, upstream } = await stage()
    const asked: Ask[] = [
      from(1),
      from(2),
      from(1, 'Authorization', 'Bearer theirs'),
      { headers: ['App-Name', 'shop', 'Forwarded', 'for=192.0.2.1'] },
      { headers: ['Forwarded', 'for=192.0.2.1'] },
      { ...from(1), path: `${ratesPath}?from=eth` },
      { ...from(1), path: `${ratesPath}?from=ETH` },
      { ...from(1), path: `${ratesPath}?` },
      { ...from(1), path: '/v3/pairs/eth_usdc/rates' },
    ]
    for (const options of asked) expect((await rates(options)).status).toBe(200)
    // A question mark with nothing behind it means no query.
    expect(upstream.requests).toHaveLength(asked.length - 1)
    for (const options of asked)
      expect((await rates(options)).headers['cache-status']).toContain('hit')
    expect(upstream.requests.map(({ target }) => target)).toContain(
      `${ratesPath}?from=eth`,
    )
  })

  it('is noted nowhere, not counted as a quote, and refuses no order', async () => {
    const { clock, gateway, rates } = await stage({ ORDER_UNKNOWN_QUOTE: 'refuse' })
    for (let times = 0; times < 3; times += 1) await rates()
    for (const series of [
      'quotegate_entries{in="ledger"}',
      'quotegate_quotes_served_total{pair="other"}',
      'quotegate_quote_calls_total{pair="other"}',
      'quotegate_quote_lifetime_seconds_count',
      'quotegate_cache_lookups_total{result="hit"}',
    ])
      expect([series, await counted(gateway, series)]).toEqual([series, 0])
    const page = await fetch(`${gateway.operationsUrl}/actions/drop-all`, {
      method: 'POST',
      headers: { 'X-Quotegate-Console': '1', 'Content-Type': 'application/json' },
      body: '{}',
    })
    expect([page.status, await page.json()]).toEqual([200, { dropped: 0 }])
    clock.advance(60_000)
    const order = { path: '/v3/orders/float', method: 'POST' }
    const body = '{"pairId":"ETH_USDC","fromAmount":1,"toAmount":2896.45}'
    expect((await ask(gateway.url, { ...order, body })).body).toContain('quote-unknown')
  })
})

describe('with SHARE_RATES=on it passes, each time a call:', () => {
  const expiry = startMs + 20_000
  it.each<[string, Given]>([
    ['a rate without an expiry', { body: JSON.stringify([{ expiry }, { amount: 1 }]) }],
    ['an expiry that is text', { body: `[{"expiry":"${expiry}"}]` }],
    ['an expiry in seconds', { body: `[{"expiry":${Math.floor(expiry / 1_000)}}]` }],
    ['an expiry that is over', { body: `[{"expiry":${startMs - 1}}]` }],
    ['an empty list', { body: '[]' }],
    ['an object', { body: `{"expiry":${expiry}}` }],
    ['half a list', { body: list(startMs).slice(0, 50) }],
    ['a Vary of *', { headers: ['Vary', '*'] }],
    ['a refusal', { status: 403, body: '{"code":"RESTRICTED_GEOLOCATION"}' }],
    ['a limit', { status: 429, body: '', headers: ['Retry-After', '9'] }],
  ])('%s', async (_what, given) => {
    const { gateway, rates, upstream } = await stage({}, () => given)
    const { status = 200, body = list(startMs) } = given
    for (let times = 0; times < 2; times += 1)
      expect(await rates()).toMatchObject({ status, body })
    expect(upstream.requests).toHaveLength(2)
    // Nor does it stop a quote.
    expect((await asking(gateway.url, '0.1')).status).toBe(200)
  })

  it.each(['HEAD', 'POST', 'DELETE'])('a %s', async (method) => {
    const { rates, upstream } = await stage()
    for (let times = 0; times < 2; times += 1)
      expect((await rates({ method })).status).toBe(200)
    expect(upstream.requests.map((request) => request.method)).toEqual([method, method])
  })
})

it('without SHARE_RATES rates pass, each time a call', async () => {
  const { rates, upstream } = await stage({ SHARE_RATES: undefined })
  const asked = { headers: ['Accept-Language', 'de'] }
  for (let times = 0; times < 2; times += 1)
    expect((await rates(asked)).headers['cache-status']).toBeUndefined()
  expect(upstream.requests.map(({ headers }) => headers['accept-language'])).toEqual([
    'de',
    'de',
  ])
})
