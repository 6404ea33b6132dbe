import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { gatewayTo, pause, rawUpstream, recordingUpstream, until } from '../support/gateways/between.ts'
import { escapedErrors } from '../support/machine/escaped-errors.ts'

// Clients and upstreams that leave at random are in queue-stress.test.ts.

const get = 'GET /checkouts HTTP/1.1\r\nHost: g\r\n\r\n'
const post = 'POST /checkouts HTTP/1.1\r\nHost: g\r\nContent-Length: 1000\r\n\r\nsome'
const good = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

test.each([
  ['within the body', 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome', get],
  ['within both bodies', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n', post],
  ['before the head, with a body on its way', '', post],
])('both sides that close at once %s harm no other client', async (_when, said, request) => {
  const escaped = escapedErrors()
  const sockets: Socket[] = []
  const upstream = await rawUpstream((socket) => {
    sockets.push(socket)
    if (said !== '') socket.write(said)
  })
  const gateway = await gatewayTo(upstream.url, { retries: 0 })
  for (let count = 0; count < 24; count += 1) {
    const client = new RawConnection(gateway.url)
    client.write(request)
    await until(() => sockets.length === count + 1, 'the request to arrive')
    if (said !== '') await until(() => client.received.length > 0, 'the answer to begin')
    const closes = [() => client.socket.resetAndDestroy(), () => sockets[count]?.destroy()]
    if (count % 2 === 0) closes.reverse()
    for (const close of closes) close()
  }
  await pause(100)
  const answered = rawExchange(gateway.url, get)
  await until(() => sockets.length === 25, 'another request to arrive')
  sockets[24]?.end(said === '' ? good : '')
  expect((await answered).status).toBe(200)
  expect(escaped).toEqual([])
})

test("a client's broken chunk while the upstream answers: at most one answer, and the gateway keeps running", async () => {
  const escaped = escapedErrors()
  const waiting: ServerResponse[] = []
  const upstream = await recordingUpstream(undefined, {
    listener: (_request, response) => waiting.push(response),
  })
  const gateway = await gatewayTo(upstream.url)
  for (let count = 0; count < 10; count += 1) {
    const client = new RawConnection(gateway.url)
    client.write('POST /checkouts HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n')
    await until(() => waiting.length === count + 1, 'the request to arrive')
    client.write('zz\r\n')
    waiting[count]?.end('answer')
    const answer = await client.answer()
    expect([0, 200, 400]).toContain(answer.status)
    expect(client.received.toString()).not.toContain('HTTP/1.1')
    client.socket.destroy()
  }
  await pause(100)
  expect(escaped).toEqual([])
})
