import { once } from 'node:events'
import { expect, test } from 'vitest'
import { createOperationsServer } from '../../src/server/pipeline.ts'
import { quote } from '../operations/support.ts'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { gatewayWith, until } from '../support/gateways/between.ts'
import { listening } from '../support/machine/listening.ts'

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`
const dropAll =
  'POST /actions/drop-all HTTP/1.1\r\nHost: localhost\r\nX-Quotegate-Console: 1\r\n' +
  'Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}'

/** A server of its own, so that few connections are enough; its answers come when the test says so. */
async function serverOf(maxConnections: number) {
  const waiting: (() => void)[] = []
  const server = createOperationsServer((_request, response) => {
    waiting.push(() => response.end('ok'))
  }, maxConnections)
  return { url: (await listening(server)).url, waiting }
}

test('a pipelined request is served once the one before it is answered', async () => {
  const gateway = await gatewayWith()
  const { id } = await quote(gateway)
  // The second of them waits until the status may be made again.
  await rawExchange(gateway.operationsUrl, get('/status'))
  const client = new RawConnection(gateway.operationsUrl, get('/status') + dropAll)
  expect((await quote(gateway)).id).toBe(id)
  expect((await client.answer()).body.toString()).toContain(`"entries":1`)
  expect((await client.answer()).body.toString()).toBe('{"dropped":1}')
  const { id: second } = await quote(gateway)
  expect(second).not.toBe(id)

  const next = new RawConnection(
    gateway.operationsUrl,
    get('/metrics') + dropAll + get('/healthz'),
  )
  expect((await next.answer()).body.toString()).toContain('quotegate_build_info')
  expect((await next.answer()).body.toString()).toBe('{"dropped":1}')
  expect((await next.answer()).body.toString()).toBe('{"status":"ok"}')
  expect((await quote(gateway)).id).not.toBe(second)
})

test('256 connections are held, and a probe on a further one takes the place of one without a whole request', async () => {
  const { operationsUrl } = await gatewayWith()
  const held = Array.from({ length: 256 }, () => new RawConnection(operationsUrl))
  await Promise.all(held.map(({ socket }) => once(socket, 'connect')))
  for (const client of held)
    client.write(dropAll.replace('\r\n', '\r\nExpect: 100-continue\r\n').slice(0, -1))
  await until(
    () => held.every(({ received }) => received.length > 0),
    'each to be asked for its body',
  )
  expect(held.filter(({ ended }) => ended)).toEqual([])
  for (const path of ['/healthz', '/readyz'])
    expect((await rawExchange(operationsUrl, get(path))).status).toBe(200)
  // The second probe finds the place of the first.
  await until(() => held.some(({ ended }) => ended), 'the oldest to be closed')
  expect(held.filter(({ ended }) => ended).length).toBeLessThanOrEqual(2)
})

test('if every connection waits for an answer, a further one is closed, until one of them leaves', async () => {
  const { url, waiting } = await serverOf(3)
  const busy = Array.from({ length: 3 }, () => new RawConnection(url))
  for (const client of busy) client.write(get('/'))
  await until(() => waiting.length === 3, 'all to be served')
  const further = new RawConnection(url, get('/'))
  await further.closed()
  expect(further.received.length).toBe(0)

  waiting[0]?.()
  expect((await busy[0]?.answer())?.status).toBe(200)
  new RawConnection(url).write(get('/'))
  await until(() => waiting.length === 4, 'the late one to be served')
  expect(busy.map(({ ended }) => ended)).toEqual([true, false, false])
})
