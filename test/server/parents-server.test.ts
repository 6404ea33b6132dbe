import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { quotePath, untilCounted } from '../support/clients/quotes.ts'
import { get, RawConnection } from '../support/clients/raw-connection.ts'
import {
  gatewayTo,
  rawUpstream,
  recordedGateway,
  until,
} from '../support/gateways/between.ts'
import { listening } from '../support/machine/listening.ts'
import { newFolder } from '../support/machine/new-folder.ts'

// A reset, which shows an HTTP/1.0 client that its answer is incomplete, threw there and ended the process.
test('an answer that an upstream cuts ends with its connection, on a Unix socket too', async () => {
  const upstream = await rawUpstream((socket) => {
    socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n')
    setTimeout(() => socket.resetAndDestroy(), 50)
  })
  const { app } = await gatewayTo(upstream.url)
  const path = join(newFolder(), 'socket')
  const server = createServer(app).listen(path)
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  for (let times = 0; times < 2; times += 1) {
    const client = connect(path)
    client.resume().write('GET /checkouts HTTP/1.0\r\nHost: g\r\n\r\n')
    await once(client, 'close')
  }
  expect(upstream.received).toHaveLength(2)
})

test('pipelined requests are served in their turn, and hold nothing where their client leaves before it', async () => {
  const { gateway, upstream } = await recordedGateway({}, ({ target }, response) => {
    if (target !== '/checkouts/slow') response.end(target)
  })
  const { url } = await listening(createServer(gateway.app))
  const client = new RawConnection(url, get('/checkouts/1') + get('/checkouts/2'))
  for (const path of ['/checkouts/1', '/checkouts/2'])
    expect((await client.answer()).body.toString()).toBe(path)

  const paths = ['/checkouts/slow', '/checkouts/3', `${quotePath}?amount=1`, '/nowhere']
  const leaving = new RawConnection(url, paths.map((path) => get(path)).join(''))
  await until(() => upstream.requests.length === 3, 'the first to be sent')
  leaving.socket.destroy()
  await untilCounted(gateway, 'quotegate_http_requests_in_flight', 0)
  expect(upstream.requests.at(-1)?.target).toBe('/checkouts/slow')
})
