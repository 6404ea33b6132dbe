import { createServer, type LookupFunction, type Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import { expectProblem, proxyStatus } from '../support/clients/problems.ts'
import { counted } from '../support/clients/quotes.ts'
import { rawExchange } from '../support/clients/raw-connection.ts'
import { gatewayTo, rawUpstream, recordingUpstream } from '../support/gateways/between.ts'
import { edgeTo } from '../support/gateways/edge.ts'
import { listening } from '../support/machine/listening.ts'

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

test('a GET is not sent again on a connection that was used before, after a single byte of its answer', async () => {
  const upstream = await rawUpstream((socket) => {
    socket.write(good)
    socket.on('data', () => socket.end('H'))
  })
  const edge = await edgeTo(upstream.url, { connections: 1 })
  expect((await rawExchange(edge.url, get)).status).toBe(200)
  expect((await rawExchange(edge.url, get)).status).toBe(502)
  expect([edge.retries, upstream.received.length]).toEqual([0, 1])
})

const body = Buffer.alloc(300_000, 'abcdefghij')
const chunked = `Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`

test.each([
  ['with a length', `Content-Length: ${body.length}\r\n\r\n${body}`],
  ['in chunks', chunked],
])('a POST that no connection was made for is sent again, its body whole (%s)', async (_how, rest) => {
  let lookups = 0
  const lookup: LookupFunction = (_name, _options, callback) => {
    lookups += 1
    // No server listens on the first address.
    callback(null, [{ address: lookups === 1 ? '127.0.0.9' : '127.0.0.1', family: 4 }])
  }
  const upstream = await recordingUpstream()
  const edge = await edgeTo(`http://upstream.test:${upstream.port}`, {}, { lookup })
  const { status } = await rawExchange(edge.url, `POST /checkouts HTTP/1.1\r\nHost: g\r\n${rest}`)
  expect([status, lookups, edge.retries, upstream.requests.length]).toEqual([200, 2, 1, 1])
  expect(upstream.requests[0]?.body.equals(body)).toBe(true)
})

const stages = ['connection', 'first byte', 'end of the head', 'middle of the body', 'last byte'] as const
type Stage = (typeof stages)[number]

/** Ends the connection of every POST at one stage of its arrival; counts those of which it saw as much as a byte. */
async function endingUpstream(stage: Stage, end: (socket: Socket) => void) {
  const posts: string[] = []
  const server = createServer((socket) => {
    socket.on('error', () => {})
    if (stage === 'connection') return end(socket)
    const index = posts.push('') - 1
    socket.on('data', (chunk) => {
      const post = (posts[index] ?? '') + chunk.toString('latin1')
      posts[index] = post
      const headEnd = post.indexOf('\r\n\r\n')
      const length = Number(/content-length: (\d+)/i.exec(post)?.[1])
      const arrived = headEnd === -1 ? -1 : post.length - headEnd - 4
      const due = {
        'first byte': -1,
        'end of the head': 0,
        'middle of the body': length / 2,
        'last byte': length,
      }
      if (arrived >= due[stage]) end(socket)
    })
  })
  return { url: (await listening(server)).url, posts }
}

describe.each(deaths)('a POST whose connection is %s', (_how, end) => {
  test.each(stages)(
    'at its %s is sent once, and called retryable only if no byte of it was',
    async (stage) => {
      for (const size of [100, 1_000_000]) {
        const upstream = await endingUpstream(stage, end)
        const gateway = await gatewayTo(upstream.url, { retries: 1 })
        const head = `POST /checkouts HTTP/1.1\r\nHost: g\r\nContent-Length: ${size}\r\n\r\n`
        const answer = await rawExchange(gateway.url, head + 'x'.repeat(size))
        const problem = expectProblem(answer, 502, 'upstream-reset')
        expect(proxyStatus(answer)).toBe('quotegate; error=connection_terminated')
        expect(upstream.posts).toHaveLength(stage === 'connection' ? 0 : 1)
        if (stage !== 'connection') expect(problem.retryable).toBe(false)
      }
    },
  )
})
