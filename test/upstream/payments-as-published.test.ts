import { createHmac } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { post } from '../support/clients/orders.ts'
import { rawExchange, valuesOf, withoutHopByHop } from '../support/clients/raw-connection.ts'
import { gatewayTo, recordingUpstream } from '../support/gateways/between.ts'

const sign = (bytes: Buffer | string) => createHmac('sha256', 'sk_test_1').update(bytes).digest('base64')

/** Bytes that a parser would write otherwise: space, order, a repeated key, big and long numbers, escapes, UTF-8. */
const charge = Buffer.from(
  ' {\t"charge_nonce" : 115792089237316195423570985008687907853269984665640564039457584007913129639935,\r\n' +
    '  "amount":"9990000", "amount" : "9990000","a":0.1000000000000000055,"e":1E+2,"__proto__":{"x":-0},\n' +
    '"10":1,"2":2,"name":"Zo\\u00eb Zo\u00eb \u20ac \ud83d\ude80 \\/ \u2028" }\n\n',
)
const refund = Buffer.from(
  '{"deadline":1779192168,\n"destination" :"0xAbC0000000000000000000000000000000000001"}',
)
const signatures = Buffer.from('{ "payment_method":"direct","signatures":[ "0x1c" ,"0x1b"],"deadline":1e9 }')
const none = Buffer.alloc(0)

const requests: [method: string, target: string, body: Buffer][] = [
  ['POST', '/checkouts', signatures],
  ['POST', '/subscription-checkouts', charge],
  ['GET', '/subscription-checkouts?limit=2&&after=schk_%31', none],
  ['PATCH', '/subscription-checkouts/schk_1/cancel', none],
  ['PATCH', '/subscription-checkouts/schk_1/cancel', Buffer.from(' {"reason" : "\u00e9"} ')],
  ['POST', '/subscriptions', charge],
  ['POST', '/subscriptions/abcdefghijklmnopqrstuvwx/charge-quote', none],
  ['POST', '/subscriptions/abcdefghijklmnopqrstuvwx/charge', charge],
  ['POST', '/subscriptions/abcdefghijklmnopqrstuvwx/charge', none],
  ['GET', '/subscriptions/abcdefghijklmnopqrstuvwx/charges?status=failed', none],
  ['POST', '/payments/pay_1/capture', charge],
  ['POST', '/payments/pay_1/refund', refund],
  ['GET', '/settings', none],
]
const headers = (body: Buffer) => [
  'AUTHORIZATION: Bearer sk_test_1',
  `x-Signature: ${sign(body)}`,
  'content-TYPE: application/json',
  'X-Odd:',
]
const pairsOf = (lines: readonly string[]) =>
  lines.flatMap((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()])

/** As the provider's pages show errors, in bytes that a parser would write otherwise. */
const error = Buffer.from(
  '{ "error" : {"type":"not_found", "message":"Caf\\u00e9 \u00e9 9007199254740993",\t"type":"not_found"} }\r\n',
)
const answers: [status: number, reason: string, body: Buffer][] = [
  [201, 'Made', charge],
  [404, 'Not Found', error],
  [422, 'Reverted', error],
  [503, 'Service Unavailable', error],
]

async function stage(status = 201, reason = 'Made', body: Buffer = charge) {
  const upstream = await recordingUpstream((_request, response) => {
    response.sendDate = false
    response.writeHead(status, reason, [
      ...[
        'X-REQUEST-ID',
        'theirs',
        'set-Cookie',
        'a=1',
        'Set-cookie',
        'b=2',
        'Content-TYPE',
        'application/json',
      ],
      ...['Content-Length', String(body.length)],
    ])
    response.end(body)
  })
  return { upstream, gateway: await gatewayTo(upstream.url) }
}

describe.each(requests)('%s %s of the published payments API', (method, target, body) => {
  test('reaches the provider byte for byte, with its signature', async () => {
    const { upstream, gateway } = await stage()
    await rawExchange(gateway.url, post(body, { method, path: target, headers: headers(body) }))
    expect(upstream.requests).toHaveLength(1)
    const [got] = upstream.requests
    expect([got?.method, got?.target]).toEqual([method, target])
    expect(got?.body.equals(body)).toBe(true)
    expect(got?.headers['x-signature']).toBe(sign(got?.body ?? 'no body'))
    expect(withoutHopByHop(got?.rawHeaders ?? [], 'content-length')).toEqual(pairsOf(headers(body)))
    expect(got?.headers['content-length'] ?? '0').toBe(String(body.length))
  })

  test('in chunks, and without a length where it has no body, is the same body there', async () => {
    const { upstream, gateway } = await stage()
    const head = [`${method} ${target} HTTP/1.1`, 'Host: g', ...headers(body)]
    const inChunks = [...head, 'Transfer-Encoding: chunked', '', `${body.length.toString(16)}`, ''].join(
      '\r\n',
    )
    const bytes = Buffer.concat([Buffer.from(inChunks), body, Buffer.from('\r\n0\r\n\r\n')])
    const bare = Buffer.from([...head, '', ''].join('\r\n'))
    await rawExchange(gateway.url, body.length > 0 ? bytes : bare)
    expect(upstream.requests[0]?.body.equals(body)).toBe(true)
    expect(upstream.requests[0]?.headers['x-signature']).toBe(sign(body))
  })
})

test.each(answers)(
  'a request is answered %i %s as the provider answered it',
  async (status, reason, answered) => {
    const { upstream, gateway } = await stage(status, reason, answered)
    for (const [count, [method, target, body]] of requests.entries()) {
      const bytes = post(body, { method, path: target, headers: headers(body) })
      const answer = await rawExchange(gateway.url, bytes)
      expect([answer.status, answer.reason, answer.whole]).toEqual([status, reason, true])
      expect(answer.body.equals(answered)).toBe(true)
      expect(valuesOf(answer.rawHeaders, 'x-request-id')).toEqual(['theirs'])
      const names = answer.rawHeaders.filter((_, index) => index % 2 === 0)
      expect(names.slice(0, 4)).toEqual(['X-REQUEST-ID', 'set-Cookie', 'Set-cookie', 'Content-TYPE'])
      // An answer that says 503 was not sent a second time by the gateway either.
      expect(upstream.requests).toHaveLength(count + 1)
    }
  },
)

test('a charge that the client repeats is sent each time, because the gateway does not judge its nonce', async () => {
  const { upstream, gateway } = await stage(422, 'Reverted', error)
  const bytes = post(charge, { path: '/subscriptions/s/charge', headers: headers(charge) })
  const sent = await Promise.all([rawExchange(gateway.url, bytes), rawExchange(gateway.url, bytes)])
  expect(sent.map(({ status }) => status)).toEqual([422, 422])
  expect(upstream.requests).toHaveLength(2)
})
