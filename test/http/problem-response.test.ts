import { afterEach, describe, expect, test } from 'vitest'
import type { SettingValue } from '../../src/config/problems.ts'
import { sendRaw } from '../support/clients/raw-client.ts'
import { type RunningGateway, startGateway } from '../support/gateways/gateway.ts'
import { type RawUpstream, startRawUpstream } from '../support/upstreams/raw-upstream.ts'

const open: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const part of open.splice(0)) await part.close()
})

async function gatewayWith(settings: Record<string, SettingValue> = {}): Promise<RunningGateway> {
  const gateway = await startGateway(settings)
  open.push(gateway)
  return gateway
}

async function upstreamThat(answers: Parameters<typeof startRawUpstream>[0]): Promise<RawUpstream> {
  const upstream = await startRawUpstream(answers)
  open.push(upstream)
  return upstream
}

async function problemIn(response: Response): Promise<Record<string, unknown>> {
  expect(response.headers.get('content-type')).toBe('application/problem+json')
  const body = (await response.json()) as Record<string, unknown>
  expect(body).toMatchObject({
    type: expect.stringMatching(/^urn:quotegate:problem:[a-z-]+$/),
    title: expect.any(String),
    status: response.status,
    detail: expect.any(String),
    instance: `urn:quotegate:request:${body.requestId}`,
    requestId: response.headers.get('x-request-id'),
    retryable: expect.any(Boolean),
  })
  return body
}

describe('a path without a route', () => {
  test.each(['/', '/nowhere', '/v3x/pairs', '/checkoutsX', '/checkout'])(
    'is a 404 for %s that says what exists and names PAYMENTS_PATHS',
    async (path) => {
      const { url } = await gatewayWith({ PAYMENTS_PATHS: '/checkouts,/payouts' })
      const response = await fetch(url + path)
      expect(response.status).toBe(404)
      const { type, detail } = await problemIn(response)
      expect(type).toBe('urn:quotegate:problem:not-found')
      for (const word of ['/v3', '/webhooks', 'PAYMENTS_PATHS', '/checkouts, /payouts']) {
        expect(detail).toContain(word)
      }
    },
  )

  // Its spellings: test/routes/area.test.ts.
  test('is a 404 for another version that says so, and reaches no upstream', async () => {
    const upstream = await upstreamThat((socket) => socket.end('HTTP/1.1 204 No Content\r\n\r\n'))
    const { url } = await gatewayWith({
      SWAP_BASE_URL: upstream.url,
      PAYMENTS_BASE_URL: upstream.url,
      PAYMENTS_PATHS: '/',
    })
    const response = await fetch(`${url}/v4/pairs`)
    expect([response.status, (await problemIn(response)).detail]).toEqual([
      404,
      expect.stringMatching(/serves only version \/v3.*whatever PAYMENTS_PATHS lists/),
    ])
    expect(upstream.received).toEqual([])
  })

  test('is a 404 with the reason without a payments upstream', async () => {
    const { url } = await gatewayWith({ SWAP_BASE_URL: 'http://127.0.0.1:9' })
    const response = await fetch(`${url}/checkouts`, { method: 'POST', body: '{}' })
    expect(response.status).toBe(404)
    expect(await problemIn(response)).toMatchObject({
      type: 'urn:quotegate:problem:no-payments-upstream',
      detail: expect.stringContaining('PAYMENTS_BASE_URL'),
    })
  })

  test('is a 404 with the reason where no receiver of webhooks is set', async () => {
    const { url } = await gatewayWith()
    const response = await fetch(`${url}/webhooks/payments`, { method: 'POST', body: '{}' })
    expect(response.status).toBe(404)
    expect(await problemIn(response)).toMatchObject({
      type: 'urn:quotegate:problem:no-webhooks-upstream',
      detail: expect.stringContaining('WEBHOOKS_BASE_URL'),
    })
  })
})

describe('an upstream that fails', () => {
  test('is a 502 that can be sent again, even as a POST, while nothing listens there', async () => {
    const upstream = await upstreamThat(() => {})
    await upstream.close()
    const { url } = await gatewayWith({ SWAP_BASE_URL: upstream.url, PAYMENTS_BASE_URL: upstream.url })
    const response = await fetch(`${url}/checkouts?key=sk_live_1`, { method: 'POST', body: '{}' })
    expect(response.status).toBe(502)
    expect(response.headers.get('proxy-status')).toBe('quotegate; error=connection_refused')
    const body = await problemIn(response)
    expect(body).toMatchObject({ upstream: 'payments', retryable: true })
    expect(JSON.stringify(body)).not.toMatch(new RegExp(`sk_live|127\\.0\\.0\\.1|${upstream.port}|ECONN`))
  })

  test.each([
    ['GET', true],
    ['POST', false],
    ['PATCH', false],
    ['DELETE', false],
  ])('is a 502 for a %s that it saw, with retryable %s', async (method, retryable) => {
    const upstream = await upstreamThat((socket) => socket.destroy())
    const { url } = await gatewayWith({ SWAP_BASE_URL: upstream.url })
    const response = await fetch(`${url}/v3/orders/1`, {
      method,
      ...(method === 'GET' ? {} : { body: '{}' }),
    })
    expect(response.status).toBe(502)
    expect(await problemIn(response)).toMatchObject({
      type: 'urn:quotegate:problem:upstream-reset',
      retryable,
    })
  })

  test('is a 504 for a POST that it never answered, not to be sent again', async () => {
    const upstream = await upstreamThat(() => {})
    const { url } = await gatewayWith({ SWAP_BASE_URL: upstream.url, UPSTREAM_HEADERS_TIMEOUT_MS: 50 })
    const response = await fetch(`${url}/v3/orders`, { method: 'POST', body: '{}' })
    expect(response.status).toBe(504)
    expect(response.headers.get('proxy-status')).toBe('quotegate; error=http_response_timeout')
    expect(await problemIn(response)).toMatchObject({ retryable: false })
  })

  test('that answers an error itself: the error is relayed unchanged', async () => {
    const answer =
      'HTTP/1.1 503 Closed For Lunch\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nlunch'
    const upstream = await upstreamThat((socket) => socket.end(answer))
    const { url } = await gatewayWith({ SWAP_BASE_URL: upstream.url })
    const response = await fetch(`${url}/v3/pairs`)
    expect([response.status, response.statusText, await response.text()]).toEqual([
      503,
      'Closed For Lunch',
      'lunch',
    ])
    expect(response.headers.get('proxy-status')).toBeNull()
  })
})

describe('a request that was refused in the middle of its body', () => {
  test('gets one problem, also if the wait for the rest of the body ends first', async () => {
    const gateway = await gatewayWith({ bodyIdleTimeoutMs: 300 })
    const answer = await sendRaw(
      gateway.url,
      'POST /v3/orders/float HTTP/1.1\r\nHost: g\r\nApp-Name: a\r\nTransfer-Encoding: chunked\r\n\r\nnot a chunk\r\n',
      { waitMs: 5_000 },
    )
    expect(answer.text).toContain('urn:quotegate:problem:malformed-request')
    const metrics = await gateway.metrics()
    expect(metrics).toContain('quotegate_problems_total{type="malformed-request"} 1')
    expect(metrics).toContain('quotegate_problems_total{type="request-timeout"} 0')
    expect(metrics).toContain('{route="float-order",method="POST",status_class="4xx"} 1')
  })
})
