import { expect, test } from 'vitest'
import { sendRaw } from '../support/clients/raw-connection.ts'
import { gatewayTo, rawUpstream } from '../support/gateways/between.ts'

// Every problem, with its members and headers: test/promises/errors-as-documented.test.ts.

const nowhere = 'http://127.0.0.1:9'

async function detailOf(
  response: Response,
  status: number,
  slug: string,
): Promise<string> {
  expect(response.status).toBe(status)
  expect(response.headers.get('content-type')).toBe('application/problem+json')
  const { type, detail } = (await response.json()) as { type: string; detail: string }
  expect(type).toBe(`urn:quotegate:problem:${slug}`)
  return detail
}

test.each([
  ['', false],
  [nowhere, true],
])(
  'a 404 says which paths exist, names PAYMENTS_PATHS and says where the console is; WEBHOOKS_BASE_URL: "%s"',
  async (WEBHOOKS_BASE_URL, hasWebhooks) => {
    const { url } = await gatewayTo(nowhere, {
      PAYMENTS_PATHS: '/checkouts,/payouts',
      WEBHOOKS_BASE_URL,
    })
    const detail = await detailOf(await fetch(url), 404, 'not-found')
    for (const word of ['/v3', 'PAYMENTS_PATHS', '/checkouts, /payouts', 'ADMIN_PORT'])
      expect(detail).toContain(word)
    expect(detail.includes('/webhooks/*')).toBe(hasWebhooks)
  },
)

// Its spellings: test/routes/area.test.ts.
test('a 404 for another version says so, and reaches no upstream', async () => {
  const upstream = await rawUpstream((socket) =>
    socket.end('HTTP/1.1 204 No Content\r\n\r\n'),
  )
  const { url } = await gatewayTo(upstream.url, { PAYMENTS_PATHS: '/' })
  const detail = await detailOf(await fetch(`${url}/v4/pairs`), 404, 'not-found')
  expect(detail).toMatch(/serves only version \/v3.*whatever PAYMENTS_PATHS lists/)
  expect(upstream.received).toEqual([])
})

test.each([
  ['/checkouts', 'no-payments-upstream', 'PAYMENTS_BASE_URL'],
  ['/webhooks/payments', 'no-webhooks-upstream', 'WEBHOOKS_BASE_URL'],
])('a 404 for %s says which upstream is not set', async (path, slug, setting) => {
  const { url } = await gatewayTo(nowhere, { PAYMENTS_BASE_URL: undefined })
  const response = await fetch(url + path, { method: 'POST', body: '{}' })
  expect(await detailOf(response, 404, slug)).toContain(setting)
})

test('a problem names no secret of the request, and no address of the upstream', async () => {
  const { url } = await gatewayTo(nowhere)
  const response = await fetch(`${url}/checkouts?key=sk_live_1`, {
    method: 'POST',
    body: '{}',
  })
  expect(response.headers.get('proxy-status')).toBe('quotegate; error=connection_refused')
  const body = await response.text()
  expect(JSON.parse(body)).toMatchObject({ upstream: 'payments', retryable: true })
  expect(body).not.toMatch(/sk_live|127\.0\.0\.1|ECONN/)
})

test('a request that is refused in its body gets one problem, also if the wait for the rest ends first', async () => {
  const gateway = await gatewayTo(nowhere, { bodyIdleTimeoutMs: 300 })
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
