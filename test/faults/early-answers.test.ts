import { describe, expect, test } from 'vitest'
import { expectProblem } from '../support/clients/problems.ts'
import { RawConnection } from '../support/clients/raw-connection.ts'
import {
  gatewayTo,
  pause,
  rawUpstream,
  recordingUpstream,
} from '../support/gateways/between.ts'

const size = 5 * 1024 * 1024
const tooLarge =
  'HTTP/1.1 413 Too Large\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\ntoo large'
const close = 'Connection: close\r\n'

/** Sends a whole large body to /checkouts, and reads nothing before all of it is sent, as many clients do. */
async function upload(
  url: string,
  { headers = '', chunked = false } = {},
): Promise<RawConnection> {
  const framing = chunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${size}`
  const client = new RawConnection(
    url,
    `POST /checkouts HTTP/1.1\r\nHost: g\r\n${headers}${framing}\r\n\r\n`,
  )
  client.socket.pause()
  if (chunked) client.write(`${size.toString(16)}\r\n`)
  for (let sent = 0; sent < size; sent += 65_536) {
    await new Promise<void>((resolve, reject) => {
      client.socket.write(Buffer.alloc(65_536, 'x'), (error) =>
        error ? reject(error) : resolve(),
      )
    })
    if (sent % (20 * 65_536) === 0) await pause(20)
  }
  if (chunked) client.write('\r\n0\r\n\r\n')
  client.socket.resume()
  return client
}

describe('an upstream that answers before it has read the body', () => {
  test.each([
    ['on a connection that is kept', '', false],
    ['in chunks, and its answer too, on a connection that is to be closed', close, true],
  ])(
    'and goes on reading: the sender gets all of its 413 (%s)',
    async (_what, headers, chunked) => {
      const upstream = await recordingUpstream(undefined, {
        listener: (request, response) => {
          request.resume()
          response.writeHead(413, 'Too Large', chunked ? {} : { 'Content-Length': 9 })
          response.write('too ')
          response.end('large')
        },
      })
      const gateway = await gatewayTo(upstream.url)
      const client = await upload(gateway.url, { headers, chunked })
      const answer = await client.answer()
      expect([answer.status, answer.reason, answer.body.toString()]).toEqual([
        413,
        'Too Large',
        'too large',
      ])
      expect(answer).toMatchObject({
        whole: true,
        framing: chunked ? 'chunked' : 'length',
      })
      expect(client.error).toBeUndefined()
      if (chunked) return
      client.write('POST /checkouts HTTP/1.1\r\nHost: g\r\nContent-Length: 0\r\n\r\n')
      expect((await client.answer()).status).toBe(413)
    },
  )

  test.each(['', close])(
    'and reads no more: the sender gets all of its 413 (%j)',
    async (headers) => {
      const upstream = await rawUpstream((socket) => {
        socket.pause()
        socket.write(tooLarge)
      })
      const gateway = await gatewayTo(upstream.url)
      const client = await upload(gateway.url, { headers })
      const answer = await client.answer()
      expect([answer.status, answer.body.toString()]).toEqual([413, 'too large'])
      expect(client.error).toBeUndefined()
    },
  )

  test.each([
    ['', tooLarge, /^HTTP\/1\.1 413 [\s\S]*\r\n\r\ntoo large$/],
    [close, 'HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n', /^HTTP\/1\.1 401 /],
  ])(
    'is answered at once to a sender that waits in the middle of its body (%j)',
    async (headers, said, expected) => {
      const upstream = await rawUpstream((socket) => socket.write(said))
      const gateway = await gatewayTo(upstream.url)
      const client = new RawConnection(gateway.url)
      client.write(
        `POST /checkouts HTTP/1.1\r\nHost: g\r\n${headers}Content-Length: 1000\r\n\r\nfirst bytes`,
      )
      await expect
        .poll(() => client.received.toString(), { timeout: 10_000 })
        .toMatch(expected)
      // Before it was given up on: that would have brought the answer and the end together.
      expect(client.ended).toBe(false)
      await client.closed()
    },
  )

  // Node keeps no HTTP/1.0 connection behind an answer without a length, also where its client has asked for that.
  test('without a length: no HTTP/1.0 client is disconnected in the middle of its body', async () => {
    const upstream = await rawUpstream((socket) =>
      socket.write(
        'HTTP/1.1 413 Too Large\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntoo\r\n0\r\n\r\n',
      ),
    )
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(gateway.url)
    client.write(
      'POST /checkouts HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 1000\r\n\r\nfirst bytes',
    )
    await expect
      .poll(() => client.received.toString(), { timeout: 10_000 })
      .toMatch(/^HTTP\/1\.1 413 /)
    await pause(100)
    expect(client.received.toString()).toMatch(/\r\n\r\ntoo$/)
    expect(client.ended).toBe(false)
    client.write(Buffer.alloc(1000 - 'first bytes'.length))
    await client.closed()
    expect(client.error).toBeUndefined()
  })
})

// That of 8 MiB to an unknown path is in test/promises/heads-are-bounded.test.ts.
describe('a refusal by the gateway itself', () => {
  const dead = 'http://127.0.0.1:9'

  test('reaches the sender of 5 MiB whole, without a reset, though no upstream takes them', async () => {
    const gateway = await gatewayTo(dead)
    for (const headers of ['', close]) {
      const client = await upload(gateway.url, { headers })
      expectProblem(await client.answer(), 502, 'upstream-unreachable')
      await client.closed()
      expect(client.error).toBeUndefined()
    }
  })

  // A small body is read to its end where the connection is kept; one of these is not. The sender reads once all is sent.
  test.each([
    ['a small body that asked for the end', 'HTTP/1.1', close, 40_000, 100],
    ['a small body in HTTP/1.0', 'HTTP/1.0', '', 40_000, 100],
    ['a body that is slow but does not stop', 'HTTP/1.1', '', 100_000, 700],
  ])('reaches the sender of %s', async (_what, version, headers, length, pauseMs) => {
    const gateway = await gatewayTo(dead)
    const client = new RawConnection(gateway.url)
    client.write(
      `POST /nowhere ${version}\r\nHost: g\r\n${headers}Content-Length: ${length}\r\n\r\n`,
    )
    client.socket.pause()
    for (let sent = 0; sent < length; sent += length / 5) {
      client.socket.write(Buffer.alloc(length / 5))
      await pause(pauseMs)
    }
    client.socket.resume()
    expectProblem(await client.answer(), 404, 'not-found')
    expect(client.error).toBeUndefined()
  })

  test('keeps the connection after a small body, and gives up on a sender that has stopped', async () => {
    const gateway = await gatewayTo(dead)
    const head = 'POST /nowhere HTTP/1.1\r\nHost: g\r\nContent-Length: 4\r\n\r\n'
    const client = new RawConnection(gateway.url, head)
    expectProblem(await client.answer(), 404, 'not-found')
    client.write(
      `bodyPOST /checkouts HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}${head}`,
    )
    expectProblem(await client.answer(), 502, 'upstream-unreachable')
    expectProblem(await client.answer(), 404, 'not-found')
    await client.closed()
  })
})
