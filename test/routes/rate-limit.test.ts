import { once } from 'node:events'
import { createServer, get } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type Answered, ask, asking, counted, giveQuote, untilCounted } from '../support/clients/quotes.ts'
import { gatewayTo, recordingUpstream, until } from '../support/gateways/between.ts'

/** Quotes where they are asked for, else a short answer. */
async function limited(settings: Record<string, string | number> = {}) {
  const upstream = await recordingUpstream(({ target }, response) => {
    if (target.includes('/quotes')) giveQuote(response)
    else response.end('ok')
  })
  const gateway = await gatewayTo(upstream.url, {
    WEBHOOKS_BASE_URL: upstream.url,
    TRUST_PROXY: 'loopback',
    ...settings,
  })
  return { upstream, gateway }
}

const passing = (url: string, headers?: readonly string[]) =>
  ask(url, { path: '/v3/assets', ...(headers ? { headers } : {}) })
const statuses = (answers: Answered[]) => answers.map(({ status }) => status)

/** Each after the answer of the one before. */
async function inTurn(requests: (() => Promise<Answered>)[]): Promise<Answered[]> {
  const answers: Answered[] = []
  for (const request of requests) answers.push(await request())
  return answers
}

const times = (count: number, request: () => Promise<Answered>) =>
  inTurn(Array.from({ length: count }, () => request))

describe('what a client is answered', () => {
  it('on every counted answer: the policy, and how much is left for how long', async () => {
    const { gateway } = await limited({ RATE_LIMIT_PER_MINUTE: 100 })
    const answers = [await passing(gateway.url), await asking(gateway.url, '1')]
    for (const [index, { headers }] of answers.entries()) {
      expect(headers['ratelimit-policy']).toBe('"default";q=100;w=60')
      const [, left, seconds] = /^"default";r=(\d+);t=(\d+)$/.exec(String(headers.ratelimit)) ?? []
      expect(Number(left)).toBe(99 - index)
      expect(Number(seconds)).toBeGreaterThan(0)
      expect(Number(seconds)).toBeLessThanOrEqual(60)
    }
  })

  it('at the limit: 429 with Retry-After, and retryable; it is counted by its route', async () => {
    const { gateway, upstream } = await limited({ RATE_LIMIT_PER_MINUTE: 1 })
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
    expect(await counted(gateway, 'quotegate_problems_total{type="rate-limited"}')).toBe(2)
  })

  it('if the upstream fails: how much is left, too', async () => {
    const { gateway, upstream } = await limited({ RATE_LIMIT_PER_MINUTE: 5 })
    upstream.answer((_request, response) => response.socket?.resetAndDestroy())
    const answers = [
      await ask(gateway.url, { path: '/v3/orders/1', method: 'DELETE' }),
      await asking(gateway.url, '1'),
    ]
    expect(answers.map(({ status, headers }) => [status, headers['ratelimit-policy']])).toEqual([
      [502, '"default";q=5;w=60'],
      [502, '"default";q=5;w=60'],
    ])
  })

  it.each([
    ['RateLimit', '"theirs";r=7;t=3'],
    ['RateLimit-Policy', '"theirs";q=9;w=30'],
  ])("if the upstream sends %s itself: the upstream's fields only, unchanged", async (name, value) => {
    const { gateway, upstream } = await limited({ RATE_LIMIT_PER_MINUTE: 5 })
    upstream.answer((_request, response) => giveQuote(response, undefined, [name, value]))
    const order = await fetch(`${gateway.url}/v3/orders/float`, { method: 'POST', body: '{"id":"none"}' })
    expect([...order.headers].filter(([field]) => field.startsWith('ratelimit'))).toEqual([
      [name.toLowerCase(), value],
    ])
    for (const answer of [await passing(gateway.url), await asking(gateway.url, '1')]) {
      const said = answer.rawHeaders.filter((part) => /^ratelimit/i.test(part))
      expect(said).toEqual([name])
      expect(answer.headers[name.toLowerCase()]).toBe(value)
    }
  })

  it('if the upstream refuses with the older fields: both, each under its own name', async () => {
    const { gateway, upstream } = await limited({ RATE_LIMIT_PER_MINUTE: 5 })
    upstream.answer((_request, response) =>
      response.writeHead(429, { 'Retry-After': '9', 'X-RateLimit-Remaining': '0' }).end('slow down'),
    )
    const { body, headers, status } = await passing(gateway.url)
    expect([status, body, headers['retry-after'], headers['x-ratelimit-remaining']]).toEqual([
      429,
      'slow down',
      '9',
      '0',
    ])
    expect(headers.ratelimit).toMatch(/^"default";r=4;/)
  })

  it('without a limit: nothing', async () => {
    const { gateway } = await limited()
    const answers = [await passing(gateway.url), await asking(gateway.url, '1')]
    for (const { rawHeaders } of answers) expect(rawHeaders.join('\n')).not.toMatch(/ratelimit/i)
  })
})

describe('what counts as one client', () => {
  const one = { RATE_LIMIT_PER_MINUTE: 1 }

  const app = (name: string, address?: string) =>
    address === undefined ? ['App-Name', name] : ['App-Name', name, 'Forwarded', `for="${address}"`]
  const long = 'n'.repeat(4_000)
  const byAddress = { RATE_LIMIT_BY: 'client-ip' }

  it.each<[string, Record<string, string>, string[][], number[]]>([
    [
      'by default an App-Name, from any address',
      {},
      [app('a', '203.0.113.7'), app('a', '203.0.113.8')],
      [200, 429],
    ],
    ['by default not another App-Name', {}, [app('a', '203.0.113.7'), app('b', '203.0.113.7')], [200, 200]],
    ['SWAP_APP_NAME without one', { SWAP_APP_NAME: 'house' }, [[], app('house'), app('a')], [200, 429, 200]],
    ['all of a long App-Name', {}, [app(`${long}a`), app(`${long}b`), app(`${long}a`)], [200, 200, 429]],
    [
      'by client-ip an address, in any spelling and with any App-Name',
      byAddress,
      [app('a', '[2001:db8::1]'), app('b', '[2001:DB8:0::1]'), app('a', '203.0.113.7')],
      [200, 429, 200],
    ],
    [
      'by client-ip an address that an untrusted header cannot change',
      { ...byAddress, TRUST_PROXY: '192.0.2.1' },
      [app('a', '203.0.113.7'), app('a', '203.0.113.8')],
      [200, 429],
    ],
    [
      'by both an App-Name at an address',
      { RATE_LIMIT_BY: 'both' },
      [app('a', '203.0.113.7'), app('b', '203.0.113.7'), app('a', '203.0.113.8'), app('a', '203.0.113.7')],
      [200, 200, 200, 429],
    ],
  ])('is %s', async (_who, settings, requests, expected) => {
    const { gateway } = await limited({ ...one, ...settings })
    const answers = await inTurn(requests.map((headers) => () => passing(gateway.url, headers)))
    expect(statuses(answers)).toEqual(expected)
  })

  it('by client-ip all clients with unknown addresses, together', async () => {
    const { gateway } = await limited({ ...one, RATE_LIMIT_BY: 'client-ip' })
    const path = join(tmpdir(), `quotegate-${process.pid}-${Date.now()}.sock`)
    const server = createServer(gateway.listener).listen(path)
    onTestFinished(() => {
      server.close()
    })
    await once(server, 'listening')
    const overSocket = (name: string) =>
      new Promise((resolve, reject) => {
        const options = { socketPath: path, path: '/v3/assets', headers: { 'App-Name': name }, agent: false }
        get(options, (response) => {
          response.resume().on('end', () => resolve(response.statusCode))
        }).on('error', reject)
      })
    expect([await overSocket('a'), await overSocket('b')]).toEqual([200, 429])
  })
})

describe('what is not limited', () => {
  it('payments and webhooks, whose answers have no rate-limit fields either', async () => {
    const { gateway, upstream } = await limited({ RATE_LIMIT_PER_MINUTE: 1 })
    await passing(gateway.url)
    for (const path of ['/checkouts', '/subscriptions/1', '/webhooks/in']) {
      const answers = await times(3, () => ask(gateway.url, { path, method: 'POST' }))
      expect(statuses(answers)).toEqual([200, 200, 200])
      for (const { rawHeaders } of answers) expect(rawHeaders.join('\n')).not.toMatch(/ratelimit/i)
    }
    expect(upstream.requests).toHaveLength(10)
    expect((await passing(gateway.url)).status).toBe(429)
  })

  it('a request that is refused before it reaches an upstream', async () => {
    const { gateway, upstream } = await limited({ RATE_LIMIT_PER_MINUTE: 1 })
    const refused = await inTurn([
      () => asking(gateway.url, 'nonsense'),
      () => asking(gateway.url, '1', []),
      () => passing(gateway.url, ['App-Name', 'wallet', 'Via', '1.1 quotegate']),
      () => ask(gateway.url, { path: '/v3/../x' }),
      () => ask(gateway.url, { path: '/nowhere' }),
    ])
    expect(statuses(refused)).toEqual([400, 400, 508, 400, 404])
    for (const { rawHeaders } of refused) expect(rawHeaders.join('\n')).not.toMatch(/ratelimit/i)
    expect((await passing(gateway.url)).status).toBe(200)
    expect(upstream.requests).toHaveLength(1)
  })
})

it('a request counts, even if its client left before it was sent', async () => {
  const { gateway, upstream } = await limited({ RATE_LIMIT_PER_MINUTE: 10, UPSTREAM_CONNECTIONS: 1 })
  let finish = () => {}
  upstream.answer((_request, response) => {
    finish = () => response.end('ok')
  })
  const busy = passing(gateway.url, ['App-Name', 'other'])
  await until(() => upstream.requests.length === 1, 'the only connection to be busy')
  const leaving = new AbortController()
  const { signal } = leaving
  const waiting = [ask(gateway.url, { path: '/v3/assets', signal }), ask(gateway.url, { signal })]
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
