import { createServer, type Socket } from 'node:net'
import { describe, expect, it } from 'vitest'
import { floatPath, post } from '../support/clients/orders.ts'
import { expectProblem } from '../support/clients/problems.ts'
import {
  type ParsedAnswer,
  RawConnection,
  rawExchange,
} from '../support/clients/raw-connection.ts'
import {
  gatewayTo,
  pause,
  rawUpstream,
  recordingUpstream,
} from '../support/gateways/between.ts'
import { listening } from '../support/machine/listening.ts'

const order = '{"pairId":"ETH_USDC","fromAmount":0.1}'
const paths = [floatPath, '/v3/orders']
const ends = ['end', 'destroy', 'resetAndDestroy'] as const
const send = (url: string, path: string): Promise<ParsedAnswer> =>
  rawExchange(url, post(order, { path }))

/** How often the order stands in what an upstream has received. */
function timesIn(received: readonly Buffer[]): number {
  return received.join('').split('POST /v3/orders').length - 1
}

/** Part of an answer, and then the end of the connection. */
const created = 'HTTP/1.1 201 Created\r\n'
const stages: [when: string, answer: string][] = [
  ['before the head of the answer', ''],
  ['in the middle of the head', `${created}Content-Le`],
  ['after an interim answer', 'HTTP/1.1 102 Processing\r\n\r\n'],
  ['after the head', `${created}Content-Length: 10\r\n\r\n`],
  ['in the middle of the body', `${created}Content-Length: 10\r\n\r\n{"id"`],
  [
    'in the middle of a chunked body',
    `${created}Transfer-Encoding: chunked\r\n\r\n5\r\n{"id"\r\n`,
  ],
]

describe.each(paths)('an order is sent once to %s', (path) => {
  it.each(stages.flatMap((stage) => ends.map((end) => [...stage, end] as const)))(
    'though the provider ends the connection %s: %j, %s',
    async (_when, answer, end) => {
      const upstream = await rawUpstream((socket) => {
        if (answer === '') socket[end]()
        else socket.write(answer, () => setTimeout(() => socket[end](), 20))
      })
      const gateway = await gatewayTo(upstream.url, { retries: 1 })
      await expectFailure(gateway.url, path)
      await pause(100)
      expect(timesIn(upstream.received)).toBe(1)
    },
  )

  it.each(ends)(
    'though the provider ends the connection before it has read the order: %s',
    async (end) => {
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

  it.each(ends)(
    'at most, on a connection that the provider closes between two: %s',
    async (end) => {
      const upstream = await recordingUpstream(({ body }, response) => {
        const { socket } = response
        response.writeHead(201).end()
        // On its way to us, just noticed, and in between.
        setTimeout(() => socket?.[end](), JSON.parse(body.toString()).a % 4)
      })
      const gateway = await gatewayTo(upstream.url, { retries: 1 })
      for (let number = 0; number < 60; number += 1) {
        const { status } = await rawExchange(
          gateway.url,
          post(`{"a":${number}}`, { path }),
        )
        expect([201, 502]).toContain(status)
        await pause(number % 3)
      }
      const seen = upstream.requests.map(({ body }) => body.toString())
      expect(seen.length).toBeGreaterThan(20)
      expect(new Set(seen).size).toBe(seen.length)
    },
  )

  it('and again only where no connection was made', async () => {
    const upstream = await recordingUpstream()
    await upstream.close()
    const gateway = await gatewayTo(upstream.url, { retries: 1 })
    const answer = await send(gateway.url, path)
    expect(expectProblem(answer, 502, 'upstream-unreachable').retryable).toBe(true)
    expect(await gateway.metrics()).toMatch(
      /quotegate_upstream_retries_total\{upstream="swap"\} [12]\n/,
    )
  })

  it('though its caller sends it slowly and the provider answers early', async () => {
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
  expect(type).toMatch(/^urn:quotegate:problem:upstream-(reset|invalid)$/)
}

/** Connections and nothing else: not even their bytes are read. */
async function rawServer(onConnection: (socket: Socket) => void): Promise<string> {
  const server = createServer((socket) => onConnection(socket.on('error', () => {})))
  return (await listening(server)).url
}
