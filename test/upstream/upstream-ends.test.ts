import type { Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import { RawConnection } from '../support/clients/raw-connection.ts'
import { gatewayTo, pause, rawUpstream } from '../support/gateways/between.ts'
import { edgeTo } from '../support/gateways/edge.ts'

/**
 * undici takes the end or the reset of a connection for the end of an answer with `Connection: close`, and asserts that
 * the answer is not paused: in the listener of a socket, where no code catches. One slow client and an upstream that
 * goes away ended the process with all that was in flight.
 */
async function pausedAnswer(
  onRequest: (socket: Socket) => void,
  whenPaused: (socket: Socket) => void,
) {
  let socket: Socket | undefined
  const upstream = await rawUpstream((accepted) => {
    socket = accepted
    onRequest(accepted)
  })
  const edge = await edgeTo(
    upstream.url,
    { connections: 1, retries: 0 },
    { name: 'payments' },
  )
  let received = 0
  return new Promise<{ end: string; received: number }>((resolve) => {
    const call = edge.upstream.call(
      { kind: 'other', method: 'GET', target: '/', headers: [], body: null },
      {
        onHead() {},
        onData(chunk) {
          const isFirst = received === 0
          received += chunk.length
          if (isFirst) whenPaused(socket as Socket)
          setTimeout(() => call.resume(), 150)
          return false
        },
        onEnd: (error) =>
          resolve({ end: error === undefined ? 'complete' : 'error', received }),
      },
    )
    call.start()
  })
}

const untilItsEnd = 'HTTP/1.1 200 OK\r\n\r\n'
const withLength = 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 505\r\n\r\n'
const inChunks =
  'HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n'
const reset = (socket: Socket) => socket.resetAndDestroy()
const restOf = (bytes: number) => (socket: Socket) => socket.end('a'.repeat(bytes))

test.each<[string, string, (socket: Socket) => void, string, number]>([
  ['until its end, and a reset, is broken off', untilItsEnd, reset, 'error', 5],
  ['with a length, and a reset, is broken off', withLength, reset, 'error', 5],
  ['in chunks, and a reset, is broken off', inChunks, reset, 'error', 5],
  [
    'until its end, and that after an unread rest, is complete',
    untilItsEnd,
    restOf(500),
    'complete',
    505,
  ],
  [
    'with a length, and an end after the unread rest, is complete',
    withLength,
    restOf(500),
    'complete',
    505,
  ],
  [
    'with a length, and an end before that, is cut short',
    withLength,
    restOf(400),
    'error',
    405,
  ],
])(
  'an answer that its client has paused, %s',
  async (_what, head, ends, end, received) => {
    const over = await pausedAnswer(
      (socket) => socket.write(`${head}short`),
      (socket) => setTimeout(() => ends(socket), 50),
    )
    expect(over.end).toBe(end)
    if (end === 'complete' || ends === reset) expect(over.received).toBe(received)
  },
)

describe('an answer that ends with its connection', () => {
  test('does not look whole when that is reset, to HTTP/1.1 or to HTTP/1.0', async () => {
    const upstream = await rawUpstream((socket) => {
      socket.write(`${untilItsEnd}short`, () =>
        setTimeout(() => socket.resetAndDestroy(), 50),
      )
    })
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(
      gateway.url,
      'GET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n',
    )
    await client.closed()
    expect((await client.answer()).whole).toBe(false)
    const old = new RawConnection(gateway.url, 'GET /checkouts HTTP/1.0\r\n\r\n')
    await old.closed()
    await expect.poll(() => old.error).toMatchObject({ code: 'ECONNRESET' })
  })

  // Node then tells of an end, not of an error: of a few in a hundred, and of all that are read late.
  test('does not look whole when a client reads it long after the reset', async () => {
    const upstream = await rawUpstream((socket) => {
      socket.write(`HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n${'a'.repeat(6_000_000)}`)
      setTimeout(() => socket.resetAndDestroy(), 200)
    })
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(gateway.url)
    client.socket.pause()
    client.write('GET /checkouts HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n')
    await pause(500)
    client.socket.resume()
    await client.closed()
    const received = client.received.toString('latin1')
    expect(received).toMatch(/^HTTP\/1\.1 200 /)
    expect(received.endsWith('\r\n0\r\n\r\n')).toBe(false)
  })
})
