import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { createGateway } from '../../src/index.ts'
import { quotePath } from '../support/clients/quotes.ts'
import { recordingUpstream } from '../support/gateways/between.ts'

const sendAndReset = `
  const socket = require('node:net').connect(Number(process.argv[1]), '127.0.0.1', () => {
    socket.write('GET ${quotePath}?amount=2 HTTP/1.1\\r\\nHost: g\\r\\nApp-Name: wallet\\r\\n\\r\\n', () => {
      socket.resetAndDestroy()
      process.stdout.write('reset')
    })
  })`

/** A user's app that mounts the gateway, and is asked for nothing else. */
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
  // With a connection to the provider that is open already, a call goes out as soon as it is made.
  await fetch(`http://127.0.0.1:${port}${quotePath}?amount=1`, { headers: { 'App-Name': 'wallet' } })
  expect(upstream.requests).toHaveLength(1)
  const client = spawnSync(process.execPath, ['-e', sendAndReset, String(port)], { encoding: 'utf8' })
  // This process stood still while the client came and went. It accepts the connection after that.
  expect(client.stdout).toBe('reset')
  await setTimeout(300)
  expect(upstream.requests).toHaveLength(1)
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
