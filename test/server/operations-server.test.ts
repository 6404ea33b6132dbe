import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { createOperationsServer } from '../../src/server/operations-server.ts'
import { gatewayWith, quote } from '../operations/support.ts'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { pause, until } from '../support/gateways/between.ts'

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`
const dropAll =
  'POST /actions/drop-all HTTP/1.1\r\nHost: localhost\r\nX-Quotegate-Console: 1\r\n' +
  'Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}'

/** A server of its own, so that few connections are enough; its answers come when the test says so. */
async function serverOf(maxConnections: number) {
  const waiting: (() => void)[] = []
  const server = createOperationsServer(
    (_request, response) => {
      waiting.push(() => response.end('ok'))
    },
    { maxConnections },
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, waiting }
}

test('a pipelined request is served once the one before it is answered', async () => {
  const gateway = await gatewayWith()
  const { id } = await quote(gateway)
  const client = new RawConnection(gateway.operationsUrl)
  client.write(get('/stream') + dropAll)
  await until(() => client.received.includes('event: tick'), 'the stream to run')
  expect((await quote(gateway)).id).toBe(id)

  const next = new RawConnection(gateway.operationsUrl)
  next.write(get('/metrics') + dropAll + get('/healthz'))
  expect((await next.answer()).body.toString()).toContain('quotegate_build_info')
  expect((await next.answer()).body.toString()).toBe('{"dropped":1}')
  expect((await next.answer()).body.toString()).toBe('{"status":"ok"}')
  expect((await quote(gateway)).id).not.toBe(id)
})

test('of two thousand requests sent at once each is answered, one at a time and in order', async () => {
  const gateway = await gatewayWith()
  const client = new RawConnection(gateway.operationsUrl)
  client.write(`${get('/healthz').repeat(1_999)}${get('/nothing')}`)
  for (let count = 0; count < 1_999; count += 1) expect((await client.answer()).status).toBe(200)
  expect((await client.answer()).status).toBe(404)
})

test('256 connections are held, and a probe on a further one takes the place of the oldest that asks nothing', async () => {
  const { operationsUrl } = await gatewayWith()
  const silent = Array.from({ length: 256 }, () => new RawConnection(operationsUrl))
  const [unfinished, oldest, ...others] = silent
  await Promise.all(silent.map(({ socket }) => once(socket, 'connect')))
  unfinished?.write('POST /actions/drop-all HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{')
  expect(silent.filter(({ ended }) => ended)).toEqual([])
  for (let count = 0; count < 2; count += 1)
    expect((await rawExchange(operationsUrl, get('/healthz'))).status).toBe(200)
  await until(() => unfinished?.ended === true, 'the oldest to be closed')
  expect(others.filter(({ ended }) => ended).length + Number(oldest?.ended)).toBeLessThanOrEqual(1)
})

test('if every connection waits for an answer, a further one is closed, until one of them leaves', async () => {
  const { url, waiting } = await serverOf(3)
  const busy = Array.from({ length: 3 }, () => new RawConnection(url))
  for (const client of busy) client.write(get('/'))
  await until(() => waiting.length === 3, 'all to be served')
  const further = new RawConnection(url)
  further.write(get('/'))
  await further.closed()
  expect(further.received.length).toBe(0)

  waiting[0]?.()
  expect((await busy[0]?.answer())?.status).toBe(200)
  const late = new RawConnection(url)
  late.write(get('/'))
  await until(() => waiting.length === 4, 'the late one to be served')
  expect(busy.map(({ ended }) => ended)).toEqual([true, false, false])
})

test('no more is read from a connection while its request waits for an answer', async () => {
  const { url, waiting } = await serverOf(3)
  const client = new RawConnection(url)
  const flood = get('/').repeat(200_000)
  client.write(flood)
  await until(() => waiting.length === 1, 'the first to be served')
  await pause(200)
  expect(waiting.length).toBe(1)
  // What the kernel has no place for stays with the client.
  expect(client.socket.writableLength).toBeGreaterThan(0)
})
