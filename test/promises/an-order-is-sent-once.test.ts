import { createServer, type Socket } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { floatPath, post } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import { type ParsedAnswer, RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { gatewayTo, pause, rawUpstream, recordingUpstream } from '../support/gateways/between.ts'

const order = '{"pairId":"ETH_USDC","fromAmount":0.1}'
const paths = [floatPath, '/v3/orders']
const ends = ['end', 'destroy', 'resetAndDestroy'] as const

/** How often the order stands in what an upstream has received. */
function timesIn(received: readonly Buffer[]): number {
  return received.join('').split('POST /v3/orders').length - 1
}

/** Part of an answer, and then the end of the connection. */
const stages: [when: string, answer: string][] = [
  ['before the head of the answer', ''],
  ['in the middle of the head', 'HTTP/1.1 201 Created\r\nContent-Le'],
  ['after an interim answer', 'HTTP/1.1 102 Processing\r\n\r\n'],
  ['after the head', 'HTTP/1.1 201 Created\r\nContent-Length: 10\r\n\r\n'],
  ['in the middle of the body', 'HTTP/1.1 201 Created\r\nContent-Length: 10\r\n\r\n{"id"'],
  [
    'in the middle of a chunked body',
    'HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"id"\r\n',
  ],
]
const table = stages.flatMap(([when, answer]) =>
  ends.flatMap((end) => paths.map((path) => [when, end, path, answer] as const)),
)

describe('an order is sent once', () => {
  it.each(table)('though the provider ends the connection %s (%s, %s)', async (_when, end, path, answer) => {
    const upstream = await rawUpstream((socket) => finish(socket, answer, end))
    const gateway = await gatewayTo(upstream.url, { retries: 1 })
    await expectFailure(gateway.url, path)
    await pause(100)
    expect(timesIn(upstream.received)).toBe(1)
  })

  it.each(ends.flatMap((end) => paths.map((path) => [end, path] as const)))(
    'though the provider ends the connection before it has read the order (%s, %s)',
    async (end, path) => {
      let connections = 0
      const upstream = await rawServer((socket) => {
        connections += 1
        socket.once('readable', () => socket[end]())
      })
      const gateway = await gatewayTo(upstream, { retries: 1 })
      await expectFailure(gateway.url, path)
      await pause(100)
      expect(connections).toBe(1)
    },
  )

  it.each(ends.flatMap((end) => paths.map((path) => [end, path] as const)))(
    'at most, on a connection that the provider closes between two requests (%s, %s)',
    async (end, path) => {
      const upstream = await recordingUpstream(({ body }, response) => {
        const { socket } = response
        response.writeHead(201).end()
        // On its way to us, just noticed, and in between.
        setTimeout(() => socket?.[end](), JSON.parse(body.toString()).a % 4)
      })
      const gateway = await gatewayTo(upstream.url, { retries: 1 })
      for (let number = 0; number < 60; number += 1) {
        const { status } = await rawExchange(gateway.url, post(`{"a":${number}}`, { path }))
        expect([201, 502]).toContain(status)
        await pause(number % 3)
      }
      const seen = upstream.requests.map(({ body }) => body.toString())
      expect(new Set(seen).size).toBe(seen.length)
    },
  )

  it.each(paths)('and again only where no connection was made (%s)', async (path) => {
    const upstream = await rawUpstream((socket) =>
      socket.end('HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n'),
    )
    await upstream.close()
    const gateway = await gatewayTo(upstream.url, { retries: 1 })
    const answer = await send(gateway.url, path)
    expect(expectProblem(answer, 502, 'upstream-unreachable').retryable).toBe(true)
    expect(await gateway.metrics()).toMatch(/quotegate_upstream_retries_total\{upstream="swap"\} [12]\n/)
  })

  it.each(paths)('though its client sends it slowly and the provider answers early (%s)', async (path) => {
    const upstream = await rawUpstream((socket) => {
      socket.write('HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n')
    })
    const gateway = await gatewayTo(upstream.url, { retries: 1 })
    const client = new RawConnection(gateway.url)
    const bytes = post(order, { path })
    client.write(bytes.subarray(0, -1))
    await pause(50)
    expect(timesIn(upstream.received)).toBe(0)
    client.write(bytes.subarray(-1))
    expect((await client.answer()).status).toBe(503)
    expect(timesIn(upstream.received)).toBe(1)
  })
})

function finish(socket: Socket, answer: string, end: (typeof ends)[number]): void {
  if (answer === '') socket[end]()
  else socket.write(answer, () => setTimeout(() => socket[end](), 20))
}

function send(url: string, path: string): Promise<ParsedAnswer> {
  return rawExchange(url, post(order, { path }))
}

/** A 502 that warns of sending again, or, where the head was out already, a connection that breaks off. */
async function expectFailure(url: string, path: string): Promise<void> {
  const answer = await send(url, path)
  if (!answer.whole) {
    expect(path).toBe('/v3/orders')
    return
  }
  expect(answer.status).toBe(502)
  const { retryable, type } = JSON.parse(answer.body.toString())
  expect(retryable).toBe(false)
  expect(['urn:quotegate:problem:upstream-reset', 'urn:quotegate:problem:upstream-invalid']).toContain(type)
}

/** Connections and nothing else: not even their bytes are read. */
async function rawServer(onConnection: (socket: Socket) => void): Promise<string> {
  const server = createServer({ pauseOnConnect: false }, (socket) => {
    socket.on('error', () => {})
    onConnection(socket)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.close()
  })
  const address = server.address()
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
}
