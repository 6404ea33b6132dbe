import { describe, expect, test } from 'vitest'
import { expectProblem, proxyStatus } from '../support/clients/problems.ts'
import { ask, asking, counted, giveQuote, quoteBody, quotePath } from '../support/clients/quotes.ts'
import { rawExchange, valuesOf } from '../support/clients/raw-connection.ts'
import { aSecond, gatewayTo, pause, recordingUpstream } from '../support/gateways/between.ts'
import type { Recorded } from '../support/upstreams/recording-upstream.ts'

const settings = { breakerFailures: 3, breakerOpenMs: 60_000, retries: 0 }
const state = (upstream: string, breaker: string, name: string) =>
  `quotegate_breaker_state{upstream="${upstream}",breaker="${breaker}",state="${name}"}`
const times = (count: number) => Array.from({ length: count }, (_none, index) => index)
const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: g\r\nApp-Name: wallet\r\n\r\n`

function order(fields: object): string {
  const body = JSON.stringify(fields)
  return (
    'POST /v3/orders/float HTTP/1.1\r\nHost: g\r\nApp-Name: wallet\r\nContent-Type: application/json\r\n' +
    `Content-Length: ${body.length}\r\n\r\n${body}`
  )
}

/** An upstream that gives quotes until the test makes it fail. */
async function quotingUpstream() {
  const upstream = await recordingUpstream((request, response) => {
    if (request.target.startsWith(quotePath)) giveQuote(response, quoteBody({ id: 'the-quote' }))
    else response.end('ok')
  })
  return {
    ...upstream,
    failSwap: () =>
      upstream.answer((request: Recorded, response) => {
        if (request.target.startsWith('/v3')) response.writeHead(503).end()
        else response.end('ok')
      }),
  }
}

describe('a swap upstream that has failed three times in a row', () => {
  test('gets no quote requests, which are answered 503 breaker-open at once', async () => {
    const upstream = await quotingUpstream()
    const gateway = await gatewayTo(upstream.url, settings)
    upstream.failSwap()
    for (const amount of ['1', '2']) expect((await asking(gateway.url, amount)).status).toBe(503)
    await aSecond()
    expect((await asking(gateway.url, '3')).status).toBe(503)
    expect(upstream.requests).toHaveLength(3)
    const answer = await rawExchange(gateway.url, get(`${quotePath}?amount=4`))
    expect(expectProblem(answer, 503, 'breaker-open')).toMatchObject({
      retryable: true,
      upstream: 'swap',
      breaker: 'pair',
    })
    expect(proxyStatus(answer)).toBe('quotegate; error=destination_unavailable')
    expect(Number(valuesOf(answer.rawHeaders, 'retry-after')[0])).toBeGreaterThanOrEqual(1)
    expect(upstream.requests).toHaveLength(3)
    expect(await counted(gateway, 'quotegate_breaker_open_pairs{pair="other"}')).toBe(1)
  })

  test('does not stop cached quotes, or payments to the same address', async () => {
    const upstream = await quotingUpstream()
    const gateway = await gatewayTo(upstream.url, settings)
    const quote = await asking(gateway.url, '0.1')
    upstream.failSwap()
    for (const amount of ['1', '2']) await asking(gateway.url, amount)
    await aSecond()
    for (const amount of ['3', '4']) await asking(gateway.url, amount)
    const cached = await asking(gateway.url, '0.10')
    expect([cached.status, cached.body]).toEqual([200, quote.body])
    expect(cached.headers['cache-status']).toMatch(/^quotegate; hit/)
    expect((await rawExchange(gateway.url, get('/checkouts'))).status).toBe(200)
    expect(await counted(gateway, state('payments', 'connections', 'closed'))).toBe(1)
  })

  // One breaker for all of swap refused live orders because quotes, or a client's list of assets, failed.
  test('still gets float orders, until three of them have failed as well', async () => {
    const upstream = await quotingUpstream()
    const gateway = await gatewayTo(upstream.url, settings)
    await asking(gateway.url, '0.1')
    upstream.failSwap()
    for (let count = 0; count < 4; count += 1) {
      if (count === 2) await aSecond()
      await rawExchange(gateway.url, get('/v3/assets'))
      await asking(gateway.url, `1${count}`)
    }
    const posts = () => upstream.requests.filter(({ method }) => method === 'POST').length
    for (let count = 1; count <= 3; count += 1) {
      if (count === 3) await aSecond()
      expect((await rawExchange(gateway.url, order({ quoteId: 'the-quote' }))).status).toBe(503)
      expect(posts()).toBe(count)
    }
    const answer = await rawExchange(gateway.url, order({ quoteId: 'the-quote' }))
    expect(expectProblem(answer, 503, 'breaker-open')).toMatchObject({ retryable: true, breaker: 'orders' })
    expect(posts()).toBe(3)
  })

  test('gets one request after breakerOpenMs, and all requests once that one is answered', async () => {
    const upstream = await quotingUpstream()
    const gateway = await gatewayTo(upstream.url, { ...settings, breakerOpenMs: 300 })
    upstream.failSwap()
    for (const count of times(3)) {
      if (count === 2) await aSecond()
      await rawExchange(gateway.url, get('/v3/assets'))
    }
    expectProblem(await rawExchange(gateway.url, get('/v3/assets')), 503, 'breaker-open')
    upstream.answer((_request, response) => response.end('back'))
    await pause(350)
    for (let count = 0; count < 5; count += 1) {
      expect((await rawExchange(gateway.url, get('/v3/assets'))).body.toString()).toBe('back')
    }
    expect(await counted(gateway, state('swap', 'rest', 'closed'))).toBe(1)
  })
})

test('each upstream has its own breaker, even if all have the same dead address', async () => {
  const gateway = await gatewayTo('http://127.0.0.1:9', {
    ...settings,
    WEBHOOKS_BASE_URL: 'http://127.0.0.1:9',
  })
  const unreachable = async (path: string) =>
    expectProblem(await rawExchange(gateway.url, get(path)), 502, 'upstream-unreachable')
  for (const path of ['/v3/assets', '/checkouts', '/webhooks/a']) {
    await unreachable(path)
    await unreachable(path)
    await aSecond()
    await unreachable(path)
    expectProblem(await rawExchange(gateway.url, get(path)), 503, 'breaker-open')
  }
})

test('errors that the payments API answers are relayed and open no breaker', async () => {
  const upstream = await recordingUpstream((_request, response) => response.writeHead(503).end('mine'))
  const gateway = await gatewayTo(upstream.url, { ...settings, breakerFailures: 1 })
  for (const count of times(5)) {
    if (count === 1) await aSecond()
    const answer = await rawExchange(gateway.url, get('/checkouts'))
    expect([answer.status, answer.body.toString()]).toEqual([503, 'mine'])
  }
})

test("clients that leave during their quote's call open no breaker", async () => {
  const upstream = await recordingUpstream(() => {})
  const gateway = await gatewayTo(upstream.url, { ...settings, breakerFailures: 1 })
  for (let count = 1; count <= 4; count += 1) {
    if (count === 2) await aSecond()
    const leaving = new AbortController()
    const asked = ask(gateway.url, { path: `${quotePath}?amount=${count}`, signal: leaving.signal })
    while (upstream.requests.length < count) await pause(5)
    leaving.abort()
    await expect(asked).rejects.toThrow()
  }
  expect(await counted(gateway, 'quotegate_breaker_open_pairs{pair="other"}')).toBe(0)
})

// RFC 9110 8.6: a 304 may state the length of the body that it leaves out. undici then finds that body missing.
test('304s with a Content-Length are answers, and open no breaker of the swap side', async () => {
  const upstream = await recordingUpstream((_request, response) =>
    response.writeHead(304, { ETag: '"a"', 'Content-Length': '40' }).end(),
  )
  const gateway = await gatewayTo(upstream.url, settings)
  const conditional = 'GET /v3/assets HTTP/1.1\r\nHost: g\r\nApp-Name: wallet\r\nIf-None-Match: "a"\r\n\r\n'
  for (const count of times(5)) {
    if (count === 4) await aSecond()
    const answer = await rawExchange(gateway.url, conditional)
    expect([answer.status, valuesOf(answer.rawHeaders, 'content-length')]).toEqual([304, ['40']])
  }
  expect(await counted(gateway, state('swap', 'rest', 'closed'))).toBe(1)
  const answered = 'quotegate_upstream_requests_total{upstream="swap",outcome="answered"}'
  expect(await counted(gateway, answered)).toBe(5)
})
