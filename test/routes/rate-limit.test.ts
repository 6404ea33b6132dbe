import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import {
  type Answered,
  ask,
  asking,
  counted,
  giveQuote,
  lookups,
  quoteBody,
  quotePath,
  untilCounted,
} from '../support/clients/quotes.ts'
import { gatewayTo, recordingUpstream, until } from '../support/gateways/between.ts'

/** Quotes where they are asked for, else a short answer. */
async function limited(
  perMinute?: number,
  settings: Record<string, string | number> = {},
) {
  const upstream = await recordingUpstream(({ target }, response) => {
    if (target.includes('/quotes')) giveQuote(response)
    else response.end('ok')
  })
  const gateway = await gatewayTo(upstream.url, {
    RATE_LIMIT_PER_MINUTE: perMinute,
    WEBHOOKS_BASE_URL: upstream.url,
    TRUST_PROXY: 'loopback',
    ...settings,
  })
  return { upstream, gateway }
}

const passing = (url: string, headers?: readonly string[]) =>
  ask(url, { path: '/v3/assets', ...(headers ? { headers } : {}) })
const ordering = (url: string, body: string, path = '/v3/orders/float') =>
  ask(url, { path, method: 'POST', body })
const statuses = (answers: Answered[]) => answers.map(({ status }) => status)
/** How much is left, if the answer says so. */
const left = ({ headers }: Answered) => /r=(\d+)/.exec(String(headers.ratelimit))?.[1]

/** Each after the answer of the one before. */
async function inTurn(requests: (() => Promise<Answered>)[]): Promise<Answered[]> {
  const answers: Answered[] = []
  for (const request of requests) answers.push(await request())
  return answers
}

describe('what a caller is answered', () => {
  it('on every counted answer: the policy, and how much is left for how long', async () => {
    const { gateway } = await limited(100)
    const answers = [await passing(gateway.url), await asking(gateway.url, '1')]
    for (const [index, { headers }] of answers.entries()) {
      expect(headers['ratelimit-policy']).toBe('"default";q=100;w=60')
      const [, left, seconds] =
        /^"default";r=(\d+);t=(\d+)$/.exec(String(headers.ratelimit)) ?? []
      expect(Number(left)).toBe(99 - index)
      expect(Number(seconds)).toBeGreaterThan(0)
      expect(Number(seconds)).toBeLessThanOrEqual(60)
    }
  })

  it('at the limit: 429 with Retry-After, and retryable; it is counted by its route', async () => {
    const { gateway, upstream } = await limited(1)
    await passing(gateway.url)
    const refused = await passing(gateway.url)
    expect(refused.status).toBe(429)
    expect(refused.headers['content-type']).toBe('application/problem+json')
    const seconds = Number(refused.headers['retry-after'])
    expect(seconds).toBeGreaterThan(0)
    expect(seconds).toBeLessThanOrEqual(60)
    expect(refused.headers['ratelimit-policy']).toBe('"default";q=1;w=60')
    expect(refused.headers.ratelimit).toBe(`"default";r=0;t=${seconds}`)
    expect(JSON.parse(refused.body)).toMatchObject({
      type: 'urn:quotegate:problem:rate-limited',
      retryable: true,
    })
    expect(upstream.requests).toHaveLength(1)
    await asking(gateway.url, '1')
    const byRoute = ['swap', 'quote', 'order'].map((route) =>
      counted(gateway, `quotegate_rate_limited_total{route="${route}"}`),
    )
    expect(await Promise.all(byRoute)).toEqual([1, 1, 0])
    expect(await counted(gateway, 'quotegate_problems_total{type="rate-limited"}')).toBe(
      2,
    )
  })

  it('if the upstream fails: how much is left, too', async () => {
    const { gateway, upstream } = await limited(5)
    upstream.answer((_request, response) => response.socket?.resetAndDestroy())
    const float = { path: '/v3/orders/float', method: 'POST', body: '{}' }
    for (const [request, name] of [
      [{ path: '/v3/orders/1', method: 'DELETE' }, 'default'],
      [float, 'orders'],
      [{}, 'default'],
    ] as const) {
      const { status, headers } = await ask(gateway.url, request)
      expect([status, headers['ratelimit-policy']]).toEqual([502, `"${name}";q=5;w=60`])
    }
  })

  it.each([
    ['RateLimit', '"theirs";r=7;t=3'],
    ['RateLimit-Policy', '"theirs";q=9;w=30'],
  ])(
    "if the upstream sends %s itself: the upstream's fields only, unchanged",
    async (name, value) => {
      const { gateway, upstream } = await limited(5)
      upstream.answer((_request, response) =>
        giveQuote(response, undefined, [name, value]),
      )
      const { url } = gateway
      for (const answer of [
        await passing(url),
        await asking(url, '1'),
        await ordering(url, '{"id":"none"}'),
      ]) {
        const said = answer.rawHeaders.filter((part) => /^ratelimit/i.test(part))
        expect(said).toEqual([name])
        expect(answer.headers[name.toLowerCase()]).toBe(value)
      }
    },
  )

  it('if the upstream refuses with the older fields: both, each under its own name', async () => {
    const { gateway, upstream } = await limited(5)
    upstream.answer((_request, response) =>
      response
        .writeHead(429, { 'Retry-After': '9', 'X-RateLimit-Remaining': '0' })
        .end('slow down'),
    )
    const { body, headers, status } = await passing(gateway.url)
    expect([status, body, headers['x-ratelimit-remaining']]).toEqual([
      429,
      'slow down',
      '0',
    ])
    expect(headers.ratelimit).toMatch(/^"default";r=4;/)
  })

  it('without a limit: nothing', async () => {
    const { gateway } = await limited()
    const answers = [await passing(gateway.url), await asking(gateway.url, '1')]
    for (const { rawHeaders } of answers)
      expect(rawHeaders.join('\n')).not.toMatch(/ratelimit/i)
  })
})

describe('what has a limit of its own', () => {
  const app = (name: string, client = 7) => [
    'App-Name',
    name,
    'Forwarded',
    `for=203.0.113.${client}`,
  ]
  const ipv6 = (text: string) => ['App-Name', text, 'Forwarded', `for="[${text}]"`]
  const unknown = (name: string) => ['App-Name', name, 'Forwarded', 'for=unknown']
  const long = 'n'.repeat(4_000)
  const byIp = { RATE_LIMIT_BY: 'client-ip' }
  const both = { RATE_LIMIT_BY: 'both' }
  const untrusting = { ...byIp, TRUST_PROXY: '192.0.2.1' }

  it.each<[string, Record<string, string>, string[][], number[]]>([
    [
      'by default an App-Name, from any address',
      {},
      [app('a', 7), app('a', 8)],
      [200, 429],
    ],
    ['by default not another App-Name', {}, [app('a'), app('b')], [200, 200]],
    [
      'SWAP_APP_NAME without one',
      { SWAP_APP_NAME: 'house' },
      [[], app('house'), app('a')],
      [200, 429, 200],
    ],
    [
      'all of a long App-Name',
      {},
      [app(`${long}a`), app(`${long}b`), app(`${long}a`)],
      [200, 200, 429],
    ],
    [
      'by client-ip an address, with any App-Name',
      byIp,
      [app('a'), app('b'), app('a', 8)],
      [200, 429, 200],
    ],
    [
      'by client-ip an address in any spelling',
      byIp,
      [ipv6('::2'), ipv6('0:0::2')],
      [200, 429],
    ],
    [
      'by client-ip all unknown addresses',
      byIp,
      [unknown('a'), unknown('b')],
      [200, 429],
    ],
    [
      'by client-ip not what a peer claims',
      untrusting,
      [app('a', 7), app('a', 8)],
      [200, 429],
    ],
    [
      'by both an App-Name at an address',
      both,
      [app('a'), app('b'), app('a', 8)],
      [200, 200, 200],
    ],
  ])('is %s', async (_who, settings, requests, expected) => {
    const { gateway } = await limited(1, settings)
    const answers = await inTurn(
      requests.map((headers) => () => passing(gateway.url, headers)),
    )
    expect(statuses(answers)).toEqual(expected)
  })
})

describe('what is not limited', () => {
  it('payments and webhooks, whose answers have no rate-limit fields either', async () => {
    const { gateway, upstream } = await limited(1)
    await passing(gateway.url)
    for (const path of ['/checkouts', '/webhooks/in']) {
      const answers = await inTurn(
        [1, 2].map(() => () => ask(gateway.url, { path, method: 'POST' })),
      )
      expect(statuses(answers)).toEqual([200, 200])
      for (const { rawHeaders } of answers)
        expect(rawHeaders.join('\n')).not.toMatch(/ratelimit/i)
    }
    expect(upstream.requests).toHaveLength(5)
    expect((await passing(gateway.url)).status).toBe(429)
  })

  it('a request that is refused before it reaches an upstream', async () => {
    const { gateway, upstream } = await limited(1)
    const refused = await inTurn([
      () => asking(gateway.url, 'nonsense'),
      () => asking(gateway.url, '1', []),
      () => passing(gateway.url, ['App-Name', 'wallet', 'Via', '1.1 quotegate']),
      () => ask(gateway.url, { path: '/v3/../x' }),
      () => ask(gateway.url, { path: '/nowhere' }),
    ])
    expect(statuses(refused)).toEqual([400, 400, 508, 400, 404])
    for (const { rawHeaders } of refused)
      expect(rawHeaders.join('\n')).not.toMatch(/ratelimit/i)
    expect((await passing(gateway.url)).status).toBe(200)
    expect(upstream.requests).toHaveLength(1)
  })
})

it('a request counts, even if its caller left before it was sent', async () => {
  const { gateway, upstream } = await limited(10, { UPSTREAM_CONNECTIONS: 1 })
  let finish = () => {}
  upstream.answer((_request, response) => {
    finish = () => response.end('ok')
  })
  const busy = passing(gateway.url, ['App-Name', 'other'])
  await until(() => upstream.requests.length === 1, 'the only connection to be busy')
  const leaving = new AbortController()
  const { signal } = leaving
  const waiting = [
    ask(gateway.url, { path: '/v3/assets', signal }),
    ask(gateway.url, { signal }),
  ]
  const left = Promise.allSettled(waiting)
  await untilCounted(gateway, 'quotegate_upstream_requests_in_flight{upstream="swap"}', 3)
  leaving.abort()
  await left
  await untilCounted(
    gateway,
    'quotegate_upstream_requests_total{upstream="swap",outcome="given-up"}',
    waiting.length,
  )
  upstream.answer((_request, response) => response.end('ok'))
  finish()
  await busy
  expect((await passing(gateway.url)).headers.ratelimit).toContain('r=7;')
  expect(upstream.requests).toHaveLength(2)
})

describe('quotes under a rate limit', () => {
  it('count if the upstream is called, and not if they are cached, even for a caller at its limit', async () => {
    const { gateway, upstream } = await limited(2)
    expect(left(await asking(gateway.url, '1'))).toBe('1')
    const hit = await asking(gateway.url, '1.0')
    expect([hit.status, left(hit)]).toEqual([200, undefined])
    expect(left(await asking(gateway.url, '2'))).toBe('0')
    expect((await asking(gateway.url, '3')).status).toBe(429)
    const head = await ask(gateway.url, { path: `${quotePath}?amount=4`, method: 'HEAD' })
    expect([head.status, head.body, left(head)]).toEqual([429, '', '0'])
    expect((await asking(gateway.url, '1')).status).toBe(200)
    expect(upstream.requests).toHaveLength(2)
  })

  it('that cannot be shared count for each request', async () => {
    const { gateway, upstream } = await limited(2)
    const waiting: ServerResponse[] = []
    upstream.answer((_request, response) => waiting.push(response))
    const crowd = Array.from({ length: 3 }, () => asking(gateway.url, '1'))
    await untilCounted(gateway, lookups('collapsed'), 2)
    await until(() => waiting.length > 0, 'the upstream call')
    upstream.answer((_request, response) =>
      giveQuote(response, quoteBody(), ['Vary', '*']),
    )
    giveQuote(waiting[0] as ServerResponse, quoteBody(), ['Vary', '*'])
    expect(statuses(await Promise.all(crowd)).sort()).toEqual([200, 200, 429])
    expect(upstream.requests).toHaveLength(2)
  })

  it('that are fetched in the background are not charged to any caller', async () => {
    const { gateway, upstream } = await limited(1, { QUOTE_REFRESH_AHEAD_MS: 60_000 })
    await asking(gateway.url, '1')
    expect((await asking(gateway.url, '1')).status).toBe(200)
    await until(() => upstream.requests.length === 2, 'the refresh')
  })
})

describe('orders under a rate limit', () => {
  it.each(['app-name', 'client-ip', 'both'])(
    'by %s are sent while the quotes have used up their limit, and the other way round',
    async (by) => {
      const { gateway, upstream } = await limited(2, { RATE_LIMIT_BY: by })
      const quotes = await inTurn(
        ['1', '2', '3'].map((n) => () => asking(gateway.url, n)),
      )
      expect(statuses(quotes)).toEqual([200, 200, 429])
      const list = await ask(gateway.url, { path: '/v3/orders' })
      expect([list.status, list.headers['ratelimit-policy']]).toEqual([
        429,
        '"default";q=2;w=60',
      ])
      const orders = await inTurn(
        ['/v3/orders/float', '/v3/orders', '/v3/orders/float'].map(
          (path) => () => ordering(gateway.url, '{}', path),
        ),
      )
      expect(orders.map(({ headers, status }) => [status, headers.ratelimit])).toEqual([
        [200, expect.stringMatching(/^"orders";r=1;t=\d+$/)],
        [200, expect.stringMatching(/^"orders";r=0;t=\d+$/)],
        [429, expect.stringMatching(/^"orders";r=0;t=\d+$/)],
      ])
      expect(orders[2]?.body).toContain('has reached its limit of 2 a minute for orders')
      expect(upstream.requests).toHaveLength(4)
      const refused = 'quotegate_rate_limited_total{route="float-order"}'
      expect(await counted(gateway, refused)).toBe(1)
    },
  )

  it('count, both float and other orders, and are not sent beyond the limit', async () => {
    const { gateway, upstream } = await limited(2)
    const both = ['/v3/orders/float', '/v3/orders']
    const answers = await inTurn(
      [...both, ...both].map((path) => () => ordering(gateway.url, '{}', path)),
    )
    expect(answers.map((answer) => [answer.status, left(answer)])).toEqual([
      [200, '1'],
      [200, '0'],
      [429, '0'],
      [429, '0'],
    ])
    expect(upstream.requests).toHaveLength(2)
  })

  it('are not counted if the gateway refuses them: late, unknown, unreadable, or at the wrong path', async () => {
    const { gateway, upstream } = await limited(3, { ORDER_UNKNOWN_QUOTE: 'refuse' })
    for (const [amount, id, lifeMs] of [
      ['1', 'late', -1_000],
      ['2', 'live', 30_000],
    ] as const) {
      upstream.answer((_request, response) =>
        giveQuote(response, quoteBody({ id, expiry: Date.now() + lifeMs })),
      )
      await asking(gateway.url, amount)
    }
    const refused = await inTurn([
      () => ordering(gateway.url, '{"quoteId":"late"}'),
      () => ordering(gateway.url, '{"quoteId":"never seen"}'),
      () => ordering(gateway.url, '{"id":'),
      () => ordering(gateway.url, '{"quoteId":"live"}', '/v3/orders'),
    ])
    expect(refused.map((answer) => [answer.status, left(answer)])).toEqual(
      [409, 409, 400, 409].map((status) => [status, undefined]),
    )
    const live = { path: '/v3/orders/float', body: '{"quoteId":"live"}' }
    const sent = await inTurn(
      [1, 2, 3].map(() => () => ordering(gateway.url, live.body, live.path)),
    )
    expect(sent.map(left)).toEqual(['2', '1', '0'])
    expect(upstream.requests).toHaveLength(5)
    // At the limit too, the answer says that the quote has expired.
    expect((await ordering(gateway.url, '{"quoteId":"late"}')).body).toContain(
      ':quote-expired',
    )
  })
})
