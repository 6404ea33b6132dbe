import { expect, test } from 'vitest'
import { sendRaw } from '../support/clients/raw-connection.ts'
import { recordingUpstream } from '../support/gateways/between.ts'
import { startLogged } from './support.ts'

const secret = 'sk_live_secret'
const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
const payment = `POST /checkouts?key=${secret} HTTP/1.1\r\nHost: gate\r\n`
const ofPayment = { method: 'POST', path: '/checkouts' }

const twoHosts =
  'GET /v3/pairs?a=1 HTTP/1.1\r\nHost: a\r\nHost: b\r\nApp-Name: wallet\r\n\r\n'
const traceparent = `traceparent: 00-${traceId}-00f067aa0ba902b7-01`
const tooLarge = { status: 431, problem: 'head-too-large' }
const malformed = { status: 400, problem: 'malformed-request' }
const unmet = { status: 417, problem: 'expectation-failed' }
const ofRoute = { upstream: 'payments', durationMs: expect.any(Number) }

test.each<[string, string, Record<string, unknown>]>([
  [
    'a head that is too large to be taken',
    `${payment}X: ${'x'.repeat(17_000)}\r\n${traceparent}\r\n\r\n`,
    { ...tooLarge, ...ofPayment, traceId },
  ],
  [
    'a head that is too large to be read',
    `${payment}X: ${'x'.repeat(30_000)}\r\n\r\n`,
    tooLarge,
  ],
  ['a head that does not end', payment, { status: 408, problem: 'request-timeout' }],
  ['bytes that are not HTTP', 'nonsense\r\n\r\n', malformed],
  [
    'a head with two hosts',
    twoHosts,
    { ...malformed, method: 'GET', path: '/v3/pairs?a=…', application: 'wallet' },
  ],
  [
    'CONNECT',
    'CONNECT gate:443 HTTP/1.1\r\nHost: gate:443\r\n\r\n',
    { status: 405, problem: 'method-not-allowed', method: 'CONNECT' },
  ],
  [
    'an expectation that cannot be met',
    `${payment}Expect: 200-ok\r\nContent-Length: 2\r\n\r\n`,
    { ...unmet, ...ofPayment },
  ],
  [
    'a body that is malformed, though its route has begun',
    `${payment}Transfer-Encoding: chunked\r\n\r\nnonsense\r\n`,
    { status: 400, ...ofPayment, ...ofRoute },
  ],
])('with ACCESS_LOG=on there is one line for %s', async (_what, bytes, expected) => {
  const { url } = await recordingUpstream()
  const gateway = await startLogged({
    SWAP_BASE_URL: url,
    PAYMENTS_BASE_URL: url,
    headTimeoutMs: 500,
  })
  const { text } = await sendRaw(gateway.url, bytes, { waitMs: 60_000 })
  expect(text).toMatch(new RegExp(`^HTTP/1.1 ${expected.status} `))
  const [, requestId] = /^x-request-id: (.+)\r$/im.exec(text) ?? []
  await gateway.requests(1)
  await gateway.close()
  const isOfRoute = 'durationMs' in expected
  expect(await gateway.requests(1)).toEqual([
    {
      level: 'info',
      time: expect.any(String),
      log: 'access',
      client: '127.0.0.x',
      requestId: isOfRoute ? expect.any(String) : requestId,
      msg: isOfRoute ? 'request' : 'request refused',
      ...expected,
    },
  ])
  expect(gateway.text()).not.toContain(secret)
})
