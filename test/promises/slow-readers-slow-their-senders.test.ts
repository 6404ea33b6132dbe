import type { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { RawConnection } from '../support/clients/raw-connection.ts'
import {
  gatewayTo,
  pause,
  rawUpstream,
  recordingUpstream,
  until,
} from '../support/gateways/between.ts'

const mebibyte = 1024 * 1024
const whole = 128 * mebibyte
/** What the kernel may hold for four ends of two connections, with room to spare; far from the whole. */
const heldMost = 48 * mebibyte
const block = Buffer.alloc(mebibyte, 'x')

/** Waits until a counter has stood still for a while, and says where. */
async function standstill(count: () => number): Promise<number> {
  let last = -1
  for (let quiet = 0; quiet < 10; ) {
    await pause(100)
    quiet = count() === last ? quiet + 1 : 0
    last = count()
  }
  return last
}

test('a caller that stops reading stops the upstream, and gets everything when it reads again', async () => {
  let sent = 0
  const upstream = await recordingUpstream(async (_request, response) => {
    response.writeHead(200, { 'Content-Length': whole })
    while (sent < whole) {
      sent += block.length
      if (!response.write(block))
        await new Promise((resolve) => response.once('drain', resolve))
    }
    response.end()
  })
  const gateway = await gatewayTo(upstream.url)
  const client = new RawConnection(gateway.url)
  let received = 0
  client.socket.removeAllListeners('data')
  client.socket.on('data', (chunk) => {
    received += chunk.length
  })
  client.write('GET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n')
  await until(() => received > 0, 'the beginning of the answer')
  client.socket.pause()
  expect(await standstill(() => sent)).toBeLessThan(heldMost)
  client.socket.resume()
  await until(() => received >= whole, 'the rest of the answer')
})

test('an upstream that stops reading stops the caller, and gets everything when it reads again', async () => {
  let reader: Socket | undefined
  let read = 0
  const upstream = await rawUpstream((socket) => {
    reader = socket
    socket.removeAllListeners('data')
    socket.pause()
  })
  const gateway = await gatewayTo(upstream.url, { UPSTREAM_HEADERS_TIMEOUT_MS: 60_000 })
  const client = new RawConnection(gateway.url)
  client.write(`POST /checkouts HTTP/1.1\r\nHost: g\r\nContent-Length: ${whole}\r\n\r\n`)
  let sent = 0
  const sending = (async () => {
    while (sent < whole) {
      await new Promise((resolve) => client.socket.write(block, resolve))
      sent += block.length
    }
  })()
  expect(await standstill(() => sent)).toBeLessThan(heldMost)
  expect(reader).toBeDefined()
  // Its own first piece was read together with the head.
  const already =
    (upstream.received[0]?.length ?? 0) -
    ((upstream.received[0]?.indexOf('\r\n\r\n') ?? 0) + 4)
  reader?.on('data', (chunk) => {
    read += chunk.length
    if (already + read === whole)
      reader?.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
  })
  reader?.resume()
  await sending
  expect((await client.answer()).body.toString()).toBe('ok')
  expect(already + read).toBe(whole)
})
