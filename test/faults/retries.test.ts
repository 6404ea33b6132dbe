import type { LookupFunction, Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import { expectProblem, proxyStatus } from '../support/clients/problems.ts'
import { counted } from '../support/clients/quotes.ts'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { gatewayTo, rawUpstream, recordingUpstream } from '../support/gateways/between.ts'
import { edgeTo } from '../support/gateways/edge.ts'

const good = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const get = 'GET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n'
const withBody = (method: string, more = '') =>
  `${method} /checkouts HTTP/1.1\r\nHost: g\r\n${more}Content-Length: 2\r\n\r\n{}`

const deaths = [(socket: Socket) => socket.resetAndDestroy(), (socket: Socket) => socket.end()]

/** Does this with the first requests, one a connection, and answers the rest. */
function failingFirst(times: number, fail: (socket: Socket) => void) {
  let met = 0
  return rawUpstream((socket) => {
    met += 1
    if (met <= times) fail(socket)
    else socket.end(good)
  })
}

describe('a request whose connection dies before any byte of an answer', () => {
  test.each([
    ['GET', get],
    ['HEAD', 'HEAD /checkouts HTTP/1.1\r\nHost: g\r\n\r\n'],
  ])('is sent once more if it is a %s', async (_method, request) => {
    for (const fail of deaths) {
      const upstream = await failingFirst(1, fail)
      const gateway = await gatewayTo(upstream.url)
      expect((await rawExchange(gateway.url, request)).status).toBe(200)
      expect(upstream.received).toHaveLength(2)
      expect(upstream.received[1]).toEqual(upstream.received[0])
      expect(await counted(gateway, 'quotegate_upstream_retries_total{upstream="payments"}')).toBe(1)
    }
  })

  test.each([
    ['POST', withBody('POST')],
    ['POST with an Idempotency-Key', withBody('POST', 'Idempotency-Key: 1\r\n')],
    ['PUT', withBody('PUT')],
    ['PATCH', withBody('PATCH')],
    ['DELETE', 'DELETE /checkouts HTTP/1.1\r\nHost: g\r\n\r\n'],
    ['POST without a body', 'POST /checkouts HTTP/1.1\r\nHost: g\r\nContent-Length: 0\r\n\r\n'],
    ['GET with a body', withBody('GET')],
  ])('is never sent again if it is a %s', async (what, request) => {
    for (const fail of [...deaths, (socket: Socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Le')]) {
      const upstream = await failingFirst(1, fail)
      const gateway = await gatewayTo(upstream.url, { retries: 1 })
      const answer = await rawExchange(gateway.url, request)
      expect([what, answer.status, upstream.received.length]).toEqual([what, 502, 1])
      // Whether it was carried out is unknown: that is left to its sender.
      expect(JSON.parse(answer.body.toString()).retryable).toBe(what.startsWith('GET'))
      if (!deaths.includes(fail)) continue
      expectProblem(answer, 502, 'upstream-reset')
      expect(proxyStatus(answer)).toBe('quotegate; error=connection_terminated')
    }
  })

  test('is sent once with retries=0', async () => {
    const upstream = await failingFirst(1, (socket) => socket.resetAndDestroy())
    const gateway = await gatewayTo(upstream.url, { retries: 0 })
    expect(expectProblem(await rawExchange(gateway.url, get), 502, 'upstream-reset').retryable).toBe(true)
    expect(upstream.received).toHaveLength(1)
  })
})

describe('a GET is not sent again', () => {
  test.each([
    ['after a single byte of an answer', (socket: Socket) => socket.end('H')],
    ['after half a head', (socket: Socket) => socket.end('HTTP/1.1 200 OK\r\nX-A')],
    ['after an interim answer', (socket: Socket) => socket.end('HTTP/1.1 103 Early Hints\r\n\r\n')],
    ['after a head', (socket: Socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n')],
    ['after a 503', (socket: Socket) => socket.end('HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n')],
    ['after an answer that is not HTTP', (socket: Socket) => socket.end('SSH-2.0-x\r\n\r\n')],
    ['after our own timeout', () => {}],
  ])('%s', async (_when, fail) => {
    const upstream = await failingFirst(1, fail)
    const gateway = await gatewayTo(upstream.url, { UPSTREAM_HEADERS_TIMEOUT_MS: 200 })
    const client = new RawConnection(gateway.url)
    client.write(get)
    await client.answer()
    expect(upstream.received).toHaveLength(1)
    expect(await counted(gateway, 'quotegate_upstream_retries_total{upstream="payments"}')).toBe(0)
  })

  test('on a connection that was used before, after a single byte of its answer', async () => {
    const upstream = await rawUpstream((socket) => {
      socket.write(good)
      socket.on('data', () => socket.end('H'))
    })
    const edge = await edgeTo(upstream.url, { connections: 1 })
    expect((await rawExchange(edge.url, get)).status).toBe(200)
    expect((await rawExchange(edge.url, get)).status).toBe(502)
    expect([edge.retries, upstream.received.length]).toEqual([0, 1])
  })
})

describe('a POST that no connection was made for', () => {
  const body = Buffer.alloc(300_000, 'abcdefghij')
  const head = 'POST /checkouts HTTP/1.1\r\nHost: g\r\n'

  test.each([
    ['with a length', `${head}Content-Length: ${body.length}\r\n\r\n${body}`],
    [
      'in chunks',
      `${head}Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`,
    ],
  ])('is sent again, its body whole, and arrives once (%s)', async (_how, request) => {
    let lookups = 0
    const lookup: LookupFunction = (_name, _options, callback) => {
      lookups += 1
      // No server listens on the first address.
      callback(null, [{ address: lookups === 1 ? '127.0.0.9' : '127.0.0.1', family: 4 }])
    }
    const upstream = await recordingUpstream()
    const edge = await edgeTo(`http://upstream.test:${upstream.port}`, {}, { lookup })
    expect((await rawExchange(edge.url, request)).status).toBe(200)
    expect([lookups, edge.retries, upstream.requests.length]).toEqual([2, 1, 1])
    expect(upstream.requests[0]?.body.equals(body)).toBe(true)
  })
})

test('a failing upstream gets each GET twice at most', async () => {
  const upstream = await rawUpstream((socket) => socket.resetAndDestroy())
  const edge = await edgeTo(upstream.url)
  const answers = await Promise.all(Array.from({ length: 25 }, () => rawExchange(edge.url, get)))
  expect(answers.map(({ status }) => status)).toEqual(Array(25).fill(502))
  expect([edge.retries, upstream.received.length]).toEqual([25, 50])
})
