import type { LookupFunction, Socket } from 'node:net'
import { expect, test } from 'vitest'
import { counted } from '../support/clients/quotes.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { gatewayTo, rawUpstream, recordingUpstream } from '../support/gateways/between.ts'
import { edgeTo } from '../support/gateways/edge.ts'

// Which method and which failure may be tried again is in test/upstream/call.test.ts; here is what arrives at a socket.

const good = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const get = 'GET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n'
const resends = 'quotegate_upstream_retries_total{upstream="payments"}'

const deaths: [how: string, end: (socket: Socket) => void][] = [
  ['reset', (socket) => socket.resetAndDestroy()],
  ['closed', (socket) => socket.destroy()],
  ['half-closed', (socket) => socket.end()],
]

/** Does this with the first request, and answers the rest, each on a connection of its own. */
function failingFirst(fail: (socket: Socket) => void) {
  let met = 0
  return rawUpstream((socket) => {
    met += 1
    if (met === 1) fail(socket)
    else socket.end(good)
  })
}

test.each(deaths)(
  'a GET or HEAD whose connection is %s before any byte of an answer is sent once more, as it was',
  async (_how, end) => {
    for (const request of [get, get.replace('GET', 'HEAD')]) {
      const upstream = await failingFirst(end)
      const gateway = await gatewayTo(upstream.url)
      expect((await rawExchange(gateway.url, request)).status).toBe(200)
      expect(upstream.received).toHaveLength(2)
      expect(upstream.received[1]).toEqual(upstream.received[0])
      expect(await counted(gateway, resends)).toBe(1)
    }
  },
)

test.each<[string, (socket: Socket) => void, status: number, retries: number]>([
  [
    'not sent again after a single byte of its answer',
    (socket) => socket.end('H'),
    502,
    0,
  ],
  ['sent again after no byte of its answer', (socket) => socket.destroy(), 200, 1],
])(
  'a GET whose connection was used before and ends is %s',
  async (_what, end, status, retries) => {
    const upstream = await rawUpstream((socket) => {
      socket.write(good)
      if (upstream.received.length === 1) socket.on('data', () => end(socket))
    })
    const edge = await edgeTo(upstream.url, { connections: 1 })
    expect((await rawExchange(edge.url, get)).status).toBe(200)
    expect((await rawExchange(edge.url, get)).status).toBe(status)
    expect([edge.retries, upstream.received.length]).toEqual([retries, 1 + retries])
  },
)

const body = Buffer.alloc(300_000, 'abcdefghij')
const chunked = `Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`

test.each([
  ['with a length', `Content-Length: ${body.length}\r\n\r\n${body}`],
  ['in chunks', chunked],
])(
  'a POST that no connection was made for is sent again, its body whole (%s)',
  async (_how, rest) => {
    let lookups = 0
    const lookup: LookupFunction = (_name, _options, callback) => {
      lookups += 1
      // No server listens on the first address.
      callback(null, [{ address: lookups === 1 ? '127.0.0.9' : '127.0.0.1', family: 4 }])
    }
    const upstream = await recordingUpstream()
    const edge = await edgeTo(`http://upstream.test:${upstream.port}`, {}, { lookup })
    const { status } = await rawExchange(
      edge.url,
      `POST /checkouts HTTP/1.1\r\nHost: g\r\n${rest}`,
    )
    expect([status, lookups, edge.retries, upstream.requests.length]).toEqual([
      200, 2, 1, 1,
    ])
    expect(upstream.requests[0]?.body.equals(body)).toBe(true)
  },
)
