import { describe, expect, test } from 'vitest'
import { expectProblem } from '../support/clients/problems.ts'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { gatewayTo, pause, rawUpstream, recordingUpstream } from '../support/gateways/between.ts'

const size = 5 * 1024 * 1024
const tooLarge = 'HTTP/1.1 413 Too Large\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\ntoo large'

/** Sends a whole large body, and reads nothing before all of it is sent, as many clients do. */
async function upload(
  url: string,
  options: { path: string; headers?: string; chunked?: boolean },
): Promise<RawConnection> {
  const client = new RawConnection(url)
  const framing = options.chunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${size}`
  client.write(`POST ${options.path} HTTP/1.1\r\nHost: g\r\n${options.headers ?? ''}${framing}\r\n\r\n`)
  client.socket.pause()
  if (options.chunked) client.write(`${size.toString(16)}\r\n`)
  for (let sent = 0; sent < size; sent += 65_536) {
    const flushed = new Promise<void>((resolve, reject) => {
      client.socket.write(Buffer.alloc(65_536, 'x'), (error) => (error ? reject(error) : resolve()))
    })
    await flushed
    if (sent % (20 * 65_536) === 0) await pause(20)
  }
  if (options.chunked) client.write('\r\n0\r\n\r\n')
  client.socket.resume()
  return client
}

describe('an upstream that answers before it has read the body', () => {
  test.each([
    ['on a connection that is kept', '', false],
    ['on a connection that is to be closed', 'Connection: close\r\n', false],
    ['in chunks', '', true],
    ['in chunks on a connection that is to be closed', 'Connection: close\r\n', true],
  ])('and goes on reading: the sender gets all of its 413 (%s)', async (_what, headers, chunked) => {
    const upstream = await recordingUpstream(undefined, {
      listener: (request, response) => {
        request.resume()
        response.writeHead(413, 'Too Large', { 'Content-Length': 9 }).end('too large')
      },
    })
    const gateway = await gatewayTo(upstream.url)
    const client = await upload(gateway.url, { path: '/checkouts', headers, chunked })
    const answer = await client.answer()
    expect([answer.status, answer.reason, answer.body.toString()]).toEqual([413, 'Too Large', 'too large'])
    expect(client.error).toBeUndefined()
  })

  test.each(['', 'Connection: close\r\n'])(
    'and reads no more: the sender gets all of its 413 (%j)',
    async (headers) => {
      const upstream = await rawUpstream((socket) => {
        socket.pause()
        socket.write(tooLarge)
      })
      const gateway = await gatewayTo(upstream.url)
      const client = await upload(gateway.url, { path: '/checkouts', headers })
      const answer = await client.answer()
      expect([answer.status, answer.body.toString()]).toEqual([413, 'too large'])
      expect(client.error).toBeUndefined()
    },
  )

  test('with chunks: the sender sees their end as well', async () => {
    const upstream = await recordingUpstream(undefined, {
      listener: (request, response) => {
        request.resume()
        response.writeHead(413)
        response.write('too ')
        response.end('large')
      },
    })
    const gateway = await gatewayTo(upstream.url)
    const client = await upload(gateway.url, { path: '/checkouts', headers: 'Connection: close\r\n' })
    expect(await client.answer()).toMatchObject({ status: 413, whole: true, framing: 'chunked' })
  })

  test('keeps the connection of a sender that came to its end', async () => {
    const upstream = await recordingUpstream(undefined, {
      listener: (request, response) => {
        request.resume()
        response.end('early')
      },
    })
    const gateway = await gatewayTo(upstream.url)
    const client = await upload(gateway.url, { path: '/checkouts' })
    expect((await client.answer()).body.toString()).toBe('early')
    client.write('GET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n')
    expect((await client.answer()).body.toString()).toBe('early')
  })

  test('is answered at once to a sender that waits for the answer in the middle of its body', async () => {
    const upstream = await rawUpstream((socket) => socket.write(tooLarge))
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(gateway.url)
    client.write('POST /checkouts HTTP/1.1\r\nHost: g\r\nContent-Length: 1000\r\n\r\nfirst bytes')
    expect((await client.answer()).body.toString()).toBe('too large')
    await client.closed()
  })

  test('with an empty body: the sender gets the answer at once, even if the connection is to be closed', async () => {
    const upstream = await rawUpstream((socket) =>
      socket.write('HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n'),
    )
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(gateway.url)
    client.write(
      'POST /checkouts HTTP/1.1\r\nHost: g\r\nConnection: close\r\nContent-Length: 1000\r\n\r\nfirst',
    )
    await expect.poll(() => client.received.toString(), { timeout: 10_000 }).toMatch(/^HTTP\/1\.1 401 /)
    // Before it was given up on: that would have brought the answer and the end together.
    expect(client.ended).toBe(false)
  })

  // Node keeps no HTTP/1.0 connection behind an answer without a length, also where its client has asked for that.
  test('without a length: no HTTP/1.0 client is disconnected in the middle of its body', async () => {
    const upstream = await rawUpstream((socket) =>
      socket.write('HTTP/1.1 413 Too Large\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntoo\r\n0\r\n\r\n'),
    )
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(gateway.url)
    client.write(
      'POST /checkouts HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 1000\r\n\r\nfirst bytes',
    )
    await expect.poll(() => client.received.toString(), { timeout: 10_000 }).toMatch(/^HTTP\/1\.1 413 /)
    await pause(100)
    expect(client.received.toString()).toMatch(/\r\n\r\ntoo$/)
    expect(client.ended).toBe(false)
    client.write(Buffer.alloc(1000 - 'first bytes'.length))
    await client.closed()
    expect(client.error).toBeUndefined()
  })
})

describe('a refusal by the gateway itself', () => {
  test.each(['', 'Connection: close\r\n'])(
    'reaches the sender of 5 MiB whole, without a reset (%j)',
    async (headers) => {
      const gateway = await gatewayTo('http://127.0.0.1:9')
      const client = await upload(gateway.url, { path: '/nowhere', headers })
      expectProblem(await client.answer(), 404, 'not-found')
      await client.closed()
      expect(client.error).toBeUndefined()
    },
  )

  // A small body is read to its end where the connection is kept, and this one is not.
  test.each([
    ['HTTP/1.1', 'Connection: close\r\n'],
    ['HTTP/1.0', ''],
  ])('reaches the sender of a small body that asked for the end: %s', async (version, headers) => {
    const gateway = await gatewayTo('http://127.0.0.1:9')
    const client = new RawConnection(gateway.url)
    client.write(`POST /nowhere ${version}\r\nHost: g\r\n${headers}Content-Length: 40000\r\n\r\n`)
    client.socket.pause()
    for (let sent = 0; sent < 40_000; sent += 10_000) {
      client.socket.write(Buffer.alloc(10_000))
      await pause(100)
    }
    client.socket.resume()
    expectProblem(await client.answer(), 404, 'not-found')
    await client.closed()
    expect(client.error).toBeUndefined()
  })

  test('reaches a sender that is slow but does not stop', async () => {
    const gateway = await gatewayTo('http://127.0.0.1:9')
    const client = new RawConnection(gateway.url)
    client.write('POST /nowhere HTTP/1.1\r\nHost: g\r\nContent-Length: 100000\r\n\r\n')
    client.socket.pause()
    for (let sent = 0; sent < 100_000; sent += 20_000) {
      client.socket.write(Buffer.alloc(20_000))
      await pause(700)
    }
    client.socket.resume()
    expectProblem(await client.answer(), 404, 'not-found')
    expect(client.error).toBeUndefined()
  })

  test('keeps the connection after a small body, and what follows is served', async () => {
    const upstream = await recordingUpstream()
    const gateway = await gatewayTo(upstream.url)
    const client = new RawConnection(gateway.url)
    client.write('POST /nowhere HTTP/1.1\r\nHost: g\r\nContent-Length: 4\r\n\r\n')
    expectProblem(await client.answer(), 404, 'not-found')
    client.write('bodyGET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n')
    expect((await client.answer()).body.toString()).toBe('ok')
  })

  test('gives up on a sender that has stopped', async () => {
    const gateway = await gatewayTo('http://127.0.0.1:9')
    const client = new RawConnection(gateway.url)
    client.write('POST /nowhere HTTP/1.1\r\nHost: g\r\nContent-Length: 4\r\n\r\n')
    expectProblem(await client.answer(), 404, 'not-found')
    await client.closed()
  })

  test('of HEAD has no body', async () => {
    const gateway = await gatewayTo('http://127.0.0.1:9')
    const answer = await rawExchange(gateway.url, 'HEAD /nowhere HTTP/1.1\r\nHost: g\r\n\r\n')
    expect([answer.status, answer.body.length]).toEqual([404, 0])
  })
})
