import type { Socket } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { Events } from '../../src/events.ts'
import { Upstream } from '../../src/upstream/upstream.ts'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { gatewayTo, pause, rawUpstream } from '../support/gateways/between.ts'

const limits = {
  connectTimeoutMs: 1_000,
  headersTimeoutMs: 1_000,
  bodyTimeoutMs: 1_000,
  connections: 1,
  queue: 10,
  retries: 0,
  breakerFailures: 100,
  breakerOpenMs: 1_000,
}

/**
 * undici takes the end or the reset of a connection for the end of an answer with `Connection: close`, and asserts that
 * the answer is not paused: in the listener of a socket, where no code catches. One slow client and an upstream that
 * goes away ended the process with all that was in flight.
 */
async function pausedAnswer(onRequest: (socket: Socket) => void, whenPaused: (socket: Socket) => void) {
  let socket: Socket | undefined
  const upstream = await rawUpstream((accepted) => {
    socket = accepted
    onRequest(accepted)
  })
  const subject = new Upstream({
    name: 'payments',
    baseUrl: upstream.url,
    limits,
    events: new Events(),
  })
  onTestFinished(() => subject.close())
  let received = 0
  return new Promise<{ end: string; received: number }>((resolve) => {
    const call = subject.call(
      { kind: 'other', method: 'GET', target: '/', headers: [], body: null },
      {
        head() {},
        data(chunk) {
          const isFirst = received === 0
          received += chunk.length
          if (isFirst) whenPaused(socket as Socket)
          setTimeout(() => call.resume(), 150)
          return false
        },
        ended: (error) => resolve({ end: error === undefined ? 'complete' : 'error', received }),
      },
    )
  })
}

const heads = [
  'HTTP/1.1 200 OK\r\n\r\n',
  'HTTP/1.0 200 OK\r\n\r\n',
  'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1000\r\n\r\n',
  'HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n',
]

describe('an answer that its client has paused', () => {
  test.each(heads)('is broken off by a reset (%j)', async (head) => {
    const over = await pausedAnswer(
      (socket) => socket.write(`${head}short`),
      (socket) => setTimeout(() => socket.resetAndDestroy(), 50),
    )
    expect(over).toEqual({ end: 'error', received: 5 })
  })

  test.each([
    ['HTTP/1.1 200 OK\r\n\r\n'],
    ['HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 505\r\n\r\n'],
  ])('is complete if its connection has ended after the unread rest (%j)', async (head) => {
    const over = await pausedAnswer(
      (socket) => socket.write(`${head}short`),
      (socket) => setTimeout(() => socket.end('a'.repeat(500)), 50),
    )
    expect(over).toEqual({ end: 'complete', received: 505 })
  })

  test('is cut short when it ends before its length', async () => {
    const over = await pausedAnswer(
      (socket) => socket.write(`${heads[2]}short`),
      (socket) => setTimeout(() => socket.end('a'.repeat(500)), 50),
    )
    expect(over.end).toBe('error')
  })
})

describe('an answer that ends with its connection', () => {
  test.each(['HTTP/1.1 200 OK\r\n\r\n', 'HTTP/1.0 200 OK\r\n\r\n'])(
    'does not look whole when that is reset (%j)',
    async (head) => {
      const upstream = await rawUpstream((socket) => {
        socket.write(`${head}short`, () => setTimeout(() => socket.resetAndDestroy(), 50))
      })
      const gateway = await gatewayTo(upstream.url)
      const client = new RawConnection(gateway.url)
      client.write('GET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n')
      await client.closed()
      expect((await client.answer()).whole).toBe(false)
    },
  )

  // Node then tells of an end, not of an error: of a few in a hundred, and of all that are read late.
  test('does not look whole when the reset comes right behind it', async () => {
    const upstream = await rawUpstream((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nshort')
      setTimeout(() => socket.resetAndDestroy(), 1)
    })
    const gateway = await gatewayTo(upstream.url)
    for (let count = 0; count < 200; count += 1) {
      const client = new RawConnection(gateway.url)
      client.write('GET /checkouts HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n')
      await client.closed()
      const received = client.received.toString('latin1')
      const looksWhole = received.startsWith('HTTP/1.1 200 ') && received.endsWith('\r\n0\r\n\r\n')
      expect(looksWhole, `answer ${count}: ${received}`).toBe(false)
    }
  })

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

  test('resets an HTTP/1.0 client, too', async () => {
    const upstream = await rawUpstream((socket) => {
      socket.write('HTTP/1.1 200 OK\r\n\r\nshort', () => setTimeout(() => socket.resetAndDestroy(), 50))
    })
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(gateway.url)
    client.write('GET /checkouts HTTP/1.0\r\n\r\n')
    await client.closed()
    await pause(50)
    expect(client.error).toMatchObject({ code: 'ECONNRESET' })
  })
})

test('blanks after a transfer coding are not part of it (RFC 9110 5.5)', async () => {
  const upstream = await rawUpstream((socket) =>
    socket.end('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked  \r\n\r\n2\r\nok\r\n0\r\n\r\n'),
  )
  const gateway = await gatewayTo(upstream.url)
  const answer = await rawExchange(gateway.url, 'GET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n')
  expect(answer).toMatchObject({ status: 200, whole: true })
  expect(answer.body.toString()).toBe('ok')
})
