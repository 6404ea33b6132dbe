import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import { post, termsOf } from '../support/clients/orders.ts'
import {
  type Answered,
  ask,
  asking,
  counted,
  createTestClock,
  giveQuote,
  lookups,
  quoteBody,
  untilCounted,
} from '../support/clients/quotes.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { at, refuse, refusedAddress, sharedBy } from '../support/clients/refusals.ts'
import { gatewayWith, recordingUpstream, until } from '../support/gateways/between.ts'

const undated = ['Date', 'none']
const lifeMs = 10_000
const fifthMs = lifeMs / 5

type Give = (response: ServerResponse) => void

/** A quote of this life is in the cache, by a clock that stands still until it is set. */
async function cached(settings: Record<string, string | number> = {}, ms = lifeMs) {
  const clock = createTestClock()
  const bodyOf = (changes = {}) => quoteBody({ expiry: clock.nowMs() + ms, ...changes })
  const fresh: Give = (response) => giveQuote(response, bodyOf(), undated)
  let give = fresh
  const upstream = await recordingUpstream(({ method }, response) =>
    method === 'POST' ? response.writeHead(201).end('{}') : give(response),
  )
  const gateway = await gatewayWith(
    { SWAP_BASE_URL: upstream.url, retries: 0, ...settings },
    { clock },
  )
  const first = await ask(gateway.url, { headers: at('198.51.100.1') })
  const endMs = clock.nowMs() + ms
  /** The provider answers so from now on, with this much left of the first quote. */
  function near(next: Give, leftMs = fifthMs - 1) {
    clock.set(endMs - leftMs)
    give = next
  }
  const calls = () => upstream.requests.filter(({ method }) => method === 'GET').length
  const from = (address: string) => ask(gateway.url, { headers: at(address) })
  const own = () => from('198.51.100.1')
  return { clock, upstream, gateway, first, endMs, near, fresh, calls, from, own }
}

const how = ({ headers }: Answered) =>
  headers['cache-status']?.toString().replace('quotegate; ', '')

describe('a cached quote leaves time to order: it', () => {
  it.each([
    [10_000, {}, 2_000],
    [24_999, {}, 4_999],
    [60_000, {}, 5_000],
    [60_000, { QUOTE_MIN_VALIDITY_MS: 7_000 }, 7_000],
    [10_000, { QUOTE_MIN_VALIDITY_MS: 1 }, 1],
    [10_000, { QUOTE_MIN_VALIDITY_MS: 0 }, 1],
  ])(
    'is served while it has a fifth of its life, or the setting: %d ms, %j: %d ms',
    async (ms, settings, leftMs) => {
      const { near, own, fresh, first } = await cached(settings, ms)
      near(fresh, leftMs)
      const hit = await own()
      expect(how(hit)).toBe(`hit; ttl=${Math.floor(leftMs / 1_000)}`)
      expect(hit.body).toBe(first.body)
      near(fresh, leftMs - 1)
      const fetched = await own()
      expect(how(fetched)).toBe(
        `fwd=uri-miss; stored; ttl=${ms / 1_000}`.replace(/\.\d+/, ''),
      )
      expect(fetched.body).not.toBe(first.body)
    },
  )

  it('has a fifth of the life that it is served for, where the Date shows that our clock is behind', async () => {
    const clock = createTestClock()
    const upstream = await recordingUpstream((_request, response) => {
      const nowMs = clock.nowMs() + 3_600_000
      const date = ['Date', new Date(nowMs).toUTCString()]
      giveQuote(response, quoteBody({ expiry: nowMs + 11_250 }), date)
    })
    const gateway = await gatewayWith({ SWAP_BASE_URL: upstream.url }, { clock })
    await ask(gateway.url)
    clock.advance(8_000)
    expect(how(await ask(gateway.url))).toBe('hit; ttl=2')
    clock.advance(1)
    expect(how(await ask(gateway.url))).toBe('fwd=uri-miss; stored; ttl=10')
  })

  it('is fetched once for all that ask near its end', async () => {
    const { near, gateway, calls } = await cached()
    const waiting: ServerResponse[] = []
    near((response) => waiting.push(response))
    const answers = Array.from({ length: 5 }, () =>
      ask(gateway.url, { headers: at('198.51.100.1') }),
    )
    await untilCounted(gateway, lookups('collapsed'), 4)
    await until(() => waiting.length === 1, 'the call')
    giveQuote(waiting[0] as ServerResponse, quoteBody({ id: 'young' }), undated)
    for (const { body } of await Promise.all(answers))
      expect(JSON.parse(body).id).toBe('young')
    expect(calls()).toBe(2)
    expect(await counted(gateway, lookups('expired'))).toBe(1)
  })
})

describe('a quote near its end is served while it lives if the call for a younger one', () => {
  it.each<[string, Give, string, Record<string, number>?]>([
    ['is answered 500', (response) => response.writeHead(500).end(), 'fwd-status=500'],
    ['is answered 503', (response) => response.writeHead(503).end('x'), 'fwd-status=503'],
    ['is answered 408', (response) => response.writeHead(408).end(), 'fwd-status=408'],
    ['is answered 429', (response) => response.writeHead(429).end(), 'fwd-status=429'],
    ['is reset', (response) => response.socket?.resetAndDestroy(), 'detail=failed'],
    [
      'takes too long',
      () => {},
      'detail=failed',
      { UPSTREAM_TOTAL_TIMEOUT_MS: 300, UPSTREAM_HEADERS_TIMEOUT_MS: 300 },
    ],
    [
      'brings one that is over',
      (response) => giveQuote(response, quoteBody({ expiry: 1e12 }), undated),
      'fwd-status=200',
    ],
  ])('%s', async (_what, fail, went, settings = {}) => {
    const { clock, near, gateway, first, endMs, own, calls } = await cached(settings)
    const waiting: ServerResponse[] = []
    near((response) => waiting.push(response), 1_999)
    const crowd = Array.from({ length: 3 }, own)
    await untilCounted(gateway, lookups('collapsed'), 2)
    await until(() => waiting.length === 1, 'the call')
    // Each answer says what is left then.
    clock.set(endMs - 1_001)
    fail(waiting[0] as ServerResponse)
    const answers = await Promise.all(crowd)
    expect(answers.map(how).sort()).toEqual([
      `fwd=stale; ${went}; collapsed; ttl=1`,
      `fwd=stale; ${went}; collapsed; ttl=1`,
      `fwd=stale; ${went}; ttl=1`,
    ])
    for (const { status, body, headers } of answers) {
      expect([status, body]).toEqual([200, first.body])
      expect(headers['cache-control']).toBe('private, max-age=1')
      expect(headers['x-request-id']).toBeDefined()
    }
    expect(calls()).toBe(2)
    clock.set(endMs)
    near(fail, 0)
    expect((await own()).body).not.toBe(first.body)
  })

  it('is not made, because the provider limits this caller, or a limit of ours does', async () => {
    const { near, own, calls, gateway } = await cached({ RATE_LIMIT_PER_MINUTE: 2 })
    near((response) => response.writeHead(429, { 'Retry-After': '30' }).end())
    expect(how(await own())).toBe('fwd=stale; fwd-status=429; ttl=1')
    const limited = await own()
    expect(how(limited)).toBe('hit; ttl=1')
    expect((await asking(gateway.url, '5', at('198.51.100.1'))).status).toBe(429)
    expect(how(await own())).toBe('hit; ttl=1')
    expect(calls()).toBe(2)
  })

  it('is not made, because the provider cannot be reached', async () => {
    const { near, own, upstream, first } = await cached()
    near(() => {})
    await upstream.close()
    const answer = await own()
    expect([how(answer), answer.body]).toEqual(['hit; ttl=1', first.body])
  })

  it('fails for a HEAD, too', async () => {
    const { near, gateway, first } = await cached()
    near((response) => response.writeHead(502).end())
    const headers = at('198.51.100.1')
    const head = await ask(gateway.url, { method: 'HEAD', headers })
    expect(how(head)).toBe('fwd=stale; fwd-status=502; ttl=1')
    expect(head.headers['content-length']).toBe(String(first.body.length))
    expect(head.body).toBe('')
  })

  it('brings the same quote, which the provider is not asked for again', async () => {
    const { clock, near, own, first, calls, endMs, fresh } = await cached()
    near((response) => giveQuote(response, first.body, undated))
    const repeated = await own()
    expect([how(repeated), repeated.body]).toEqual([
      'fwd=uri-miss; stored; ttl=1',
      first.body,
    ])
    clock.set(endMs - 1)
    expect(how(await own())).toBe('hit; ttl=0')
    expect(calls()).toBe(2)
    near(fresh, 0)
    expect((await own()).body).not.toBe(first.body)
  })

  it('brings a quote of the same id that ends later: it is another one', async () => {
    const { clock, near, own, first, endMs } = await cached()
    const { id } = JSON.parse(first.body)
    near((response) =>
      giveQuote(response, quoteBody({ id, expiry: endMs + 5_000 }), undated),
    )
    expect(how(await own())).toBe('fwd=uri-miss; stored; ttl=6')
    clock.set(endMs)
    expect(how(await own())).toBe('hit; ttl=5')
  })

  it('is refused to another user: the user who is refused gets the refusal', async () => {
    const { near, gateway, from, first, calls } = await cached(sharedBy.none)
    const waiting: ServerResponse[] = []
    near((response) => waiting.push(response))
    const refused = from(refusedAddress)
    await until(() => waiting.length === 1, 'the call')
    const other = from('198.51.100.2')
    await untilCounted(gateway, lookups('collapsed'), 1)
    refuse(waiting[0] as ServerResponse)
    expect(await refused).toMatchObject({
      status: 403,
      body: `refused to for=${refusedAddress}`,
    })
    const given = await other
    expect([how(given), given.body]).toEqual([
      'fwd=stale; fwd-status=403; collapsed; ttl=1',
      first.body,
    ])
    expect(calls()).toBe(2)
  })
})

describe('a quote near its end is not served in place of', () => {
  it.each([
    ['ends sooner', 3_000, 'fwd=uri-miss; stored; ttl=1', 1_750],
    ['may be over', 1_000, 'fwd=bypass; detail=expired', 0],
  ])(
    'the same one whose Date says that it %s',
    async (_when, providersMs, told, servedMs) => {
      const { clock, near, own, first, endMs, fresh } = await cached({}, 30_000)
      const nearMs = 4_999
      near((response) => {
        const date = new Date(endMs - providersMs).toUTCString()
        giveQuote(response, first.body, ['Date', date])
      }, nearMs)
      expect(how(await own())).toBe(told)
      clock.set(endMs - nearMs + servedMs)
      near(fresh, nearMs - servedMs)
      expect((await own()).body).not.toBe(first.body)
    },
  )

  it('an answer that is not a failure', async () => {
    const { near, own } = await cached()
    near((response) => response.end('{"code":"NO_LIQUIDITY"}'))
    expect((await own()).body).toBe('{"code":"NO_LIQUIDITY"}')
  })

  it('a failure, once an order has used it', async () => {
    const { near, own, gateway, first } = await cached()
    const waiting: ServerResponse[] = []
    near((response) => waiting.push(response))
    const asked = own()
    await until(() => waiting.length === 1, 'the call')
    const { id } = JSON.parse(first.body)
    const order = JSON.stringify({ ...termsOf(JSON.parse(first.body)), quoteId: id })
    expect((await rawExchange(gateway.url, post(order))).status).toBe(201)
    waiting[0]?.writeHead(500).end()
    expect((await asked).status).toBe(500)
  })
})
