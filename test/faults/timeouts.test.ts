import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { expectProblem, proxyStatus } from '../support/clients/problems.ts'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { gatewayTo, pause, rawUpstream, recordingUpstream } from '../support/gateways/between.ts'

const get = 'GET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n'
const post = 'POST /checkouts HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}'

/** A port where a connection is neither accepted nor refused: its owner is stopped and its backlog full. */
async function deafUpstream(): Promise<string> {
  const script =
    "require('net').createServer().listen({port:0,host:'127.0.0.1',backlog:1},function(){process.stdout.write(String(this.address().port))})"
  const child: ChildProcess = spawn(process.execPath, ['-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  const [port] = (await once(child.stdout as NodeJS.ReadableStream, 'data')) as [Buffer]
  child.kill('SIGSTOP')
  const fillers: Socket[] = []
  onTestFinished(() => {
    for (const filler of fillers) filler.destroy()
  })
  for (let count = 0; count < 8; count += 1) {
    fillers.push(connect(Number(port), '127.0.0.1').on('error', () => {}))
  }
  await pause(100)
  return `http://127.0.0.1:${port}`
}

describe('an upstream that is too slow', () => {
  test('to connect is a 504 after connectTimeoutMs; no server has seen the request', async () => {
    const gateway = await gatewayTo(await deafUpstream(), { connectTimeoutMs: 300 })
    const answer = await rawExchange(gateway.url, post)
    expect(expectProblem(answer, 504, 'upstream-timeout')).toMatchObject({ retryable: true })
    expect(proxyStatus(answer)).toBe('quotegate; error=connection_timeout')
  })

  test.each([
    ['POST', post, false],
    ['GET', get, true],
  ])('to answer a %s is a 504 after UPSTREAM_HEADERS_TIMEOUT_MS', async (_method, bytes, retryable) => {
    const upstream = await rawUpstream(() => {})
    const gateway = await gatewayTo(upstream.url, { UPSTREAM_HEADERS_TIMEOUT_MS: 300 })
    const answer = await rawExchange(gateway.url, bytes)
    expect(expectProblem(answer, 504, 'upstream-timeout')).toMatchObject({ retryable })
    expect(proxyStatus(answer)).toBe('quotegate; error=http_response_timeout')
    expect(upstream.received).toHaveLength(1)
  })

  test('to finish its head is a 504 as well', async () => {
    const upstream = await rawUpstream((socket) => socket.write('HTTP/1.1 200 OK\r\nX-A'))
    const gateway = await gatewayTo(upstream.url, { UPSTREAM_HEADERS_TIMEOUT_MS: 300 })
    expectProblem(await rawExchange(gateway.url, get), 504, 'upstream-timeout')
  })

  test('within its body breaks the connection after bodyTimeoutMs', async () => {
    const upstream = await rawUpstream((socket) =>
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort'),
    )
    const gateway = await gatewayTo(upstream.url, { bodyTimeoutMs: 300 })
    const client = new RawConnection(gateway.url)
    client.write(get)
    await client.closed()
    expect(await client.answer()).toMatchObject({ status: 200, whole: false })
  })

  test('but never silent for that long is not cut, however long the whole answer takes', async () => {
    const upstream = await recordingUpstream(async (_request, response) => {
      for (let count = 0; count < 8; count += 1) {
        response.write('.')
        await pause(500)
      }
      response.end()
    })
    const gateway = await gatewayTo(upstream.url, {
      bodyTimeoutMs: 2_500,
      UPSTREAM_HEADERS_TIMEOUT_MS: 2_500,
    })
    expect((await rawExchange(gateway.url, get)).body.toString()).toBe('........')
  })
})

describe('a client that is slow', () => {
  test('to send its body does not use up the time for the head of the answer', async () => {
    const upstream = await recordingUpstream((request, response) => response.end(request.body))
    const gateway = await gatewayTo(upstream.url, { UPSTREAM_HEADERS_TIMEOUT_MS: 1_000 })
    const client = new RawConnection(gateway.url)
    client.write('POST /checkouts HTTP/1.1\r\nHost: g\r\nContent-Length: 8\r\n\r\n')
    for (const byte of 'slowpoke') {
      client.write(byte)
      await pause(500)
    }
    expect((await client.answer()).body.toString()).toBe('slowpoke')
  })

  test('is followed by the whole time for the head of the answer, and then by a 504', async () => {
    const upstream = await rawUpstream(() => {})
    const gateway = await gatewayTo(upstream.url, { UPSTREAM_HEADERS_TIMEOUT_MS: 1_000 })
    const client = new RawConnection(gateway.url)
    client.write('POST /checkouts HTTP/1.1\r\nHost: g\r\nContent-Length: 4\r\n\r\n')
    for (const byte of 'slow') {
      client.write(byte)
      await pause(600)
    }
    expectProblem(await client.answer(), 504, 'upstream-timeout')
  })

  test('because the upstream does not read gets no 408', async () => {
    const upstream = await rawUpstream((socket) => socket.pause())
    const gateway = await gatewayTo(upstream.url, {
      bodyIdleTimeoutMs: 300,
      UPSTREAM_HEADERS_TIMEOUT_MS: 2_000,
    })
    const client = new RawConnection(gateway.url)
    const size = 64 * 1024 * 1024
    client.write(`POST /checkouts HTTP/1.1\r\nHost: g\r\nContent-Length: ${size}\r\n\r\n`)
    client.socket.write(Buffer.alloc(size))
    expectProblem(await client.answer(), 504, 'upstream-timeout')
  })
})
