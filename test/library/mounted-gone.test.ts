import { once } from 'node:events'
import { createServer, request } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { createGateway } from '../../src/index.ts'
import { quotePath } from '../support/clients/quotes.ts'
import { recordingUpstream } from '../support/gateways/between.ts'

/** An app of somebody else that mounts the gateway, and is asked for nothing else. */
async function mounted(listenAt: { port: number; host: string } | string) {
  const upstream = await recordingUpstream()
  const gateway = await createGateway({ SWAP_BASE_URL: upstream.url, PAYMENTS_BASE_URL: upstream.url })
  const server = createServer(gateway.app)
  onTestFinished(async () => {
    server.closeAllConnections()
    server.close()
    await gateway.close()
  })
  await once(server.listen(listenAt as never), 'listening')
  return { upstream, server }
}

// Such a client has no address: it was served as an unknown one, past the cache and past the provider's geolocation.
test('in an app that it is mounted in, the request of a client that has reset its connection is dropped', async () => {
  const { upstream, server } = await mounted({ port: 0, host: '127.0.0.1' })
  const { port } = server.address() as AddressInfo
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  await new Promise((resolve) =>
    socket.write(`GET ${quotePath}?amount=1 HTTP/1.1\r\nHost: g\r\nApp-Name: wallet\r\n\r\n`, resolve),
  )
  socket.resetAndDestroy()
  // The app is busy until the reset has arrived. It accepts the connection after that.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100)
  await setTimeout(200)
  expect(upstream.requests).toEqual([])
})

test('a client behind a Unix socket, which has no address, is served', async () => {
  const path = join(tmpdir(), `quotegate-mounted-${process.pid}.sock`)
  const { upstream } = await mounted(path)
  const sent = request({ socketPath: path, path: '/v3/pairs', headers: { 'App-Name': 'wallet' } }).end()
  const [answer] = await once(sent, 'response')
  answer.resume()
  expect(answer.statusCode).toBe(200)
  expect(upstream.requests[0]?.headers.forwarded).toBe('for=unknown')
})
