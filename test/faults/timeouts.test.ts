import { expect, test } from 'vitest'
import { expectProblem } from '../support/clients/problems.ts'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import {
  gatewayTo,
  pause,
  rawUpstream,
  recordingUpstream,
} from '../support/gateways/between.ts'

// What is too slow is in upstream-fails.test.ts; these take long and are not.

test('an upstream that is never silent for too long is not cut, however long the whole answer takes', async () => {
  const upstream = await recordingUpstream(async (_request, response) => {
    for (let count = 0; count < 8; count += 1) {
      response.write('.')
      await pause(500)
    }
    response.end()
  })
  const settings = { bodyTimeoutMs: 2_500, UPSTREAM_HEADERS_TIMEOUT_MS: 2_500 }
  const gateway = await gatewayTo(upstream.url, settings)
  const answer = await rawExchange(
    gateway.url,
    'GET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n',
  )
  expect(answer.body.toString()).toBe('........')
})

test('a client that is slow to send its body does not use up the time for the head of the answer', async () => {
  const upstream = await recordingUpstream((request, response) =>
    response.end(request.body),
  )
  const gateway = await gatewayTo(upstream.url, { UPSTREAM_HEADERS_TIMEOUT_MS: 1_000 })
  const client = new RawConnection(gateway.url)
  client.write('POST /checkouts HTTP/1.1\r\nHost: g\r\nContent-Length: 8\r\n\r\n')
  for (const byte of 'slowpoke') {
    client.write(byte)
    await pause(500)
  }
  expect((await client.answer()).body.toString()).toBe('slowpoke')
})

test('a client that is slow because the upstream does not read gets no 408', async () => {
  const upstream = await rawUpstream((socket) => socket.pause())
  const settings = { bodyIdleTimeoutMs: 300, UPSTREAM_HEADERS_TIMEOUT_MS: 2_000 }
  const gateway = await gatewayTo(upstream.url, settings)
  const client = new RawConnection(gateway.url)
  const size = 64 * 1024 * 1024
  client.write(`POST /checkouts HTTP/1.1\r\nHost: g\r\nContent-Length: ${size}\r\n\r\n`)
  client.socket.write(Buffer.alloc(size))
  expectProblem(await client.answer(), 504, 'upstream-timeout')
})
