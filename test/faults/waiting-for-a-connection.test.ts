import type { LookupFunction, Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { fetchWhole } from '../../src/upstream/fetch.ts'
import { expectProblem, proxyStatus } from '../support/clients/problems.ts'
import { counted, untilCounted } from '../support/clients/quotes.ts'
import { RawConnection, rawExchange, valuesOf } from '../support/clients/raw-connection.ts'
import {
  gatewayInVirtualTime,
  gatewayTo,
  pause,
  rawUpstream,
  recordingUpstream,
  until,
} from '../support/gateways/between.ts'
import { edgeTo } from '../support/gateways/edge.ts'
import { VirtualTime } from '../support/machine/virtual-time.ts'

const ended = (outcome: string) => `quotegate_upstream_requests_total{upstream="swap",outcome="${outcome}"}`

/** An upstream that begins its answer to the first request and never ends it, so that the one connection is taken. */
async function taken(settings: Record<string, number>) {
  const sockets: Socket[] = []
  const upstream = await rawUpstream((socket) => {
    sockets.push(socket)
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n')
  })
  const gateway = await gatewayTo(upstream.url, { UPSTREAM_CONNECTIONS: 1, ...settings })
  const holder = new RawConnection(gateway.url)
  return {
    gateway,
    received: () => Buffer.concat(upstream.received).toString(),
    async take(path: string) {
      holder.write(`GET ${path} HTTP/1.1\r\nHost: g\r\n\r\n`)
      await until(() => holder.received.includes('\r\n\r\n'), 'the connection to be taken')
    },
    free: () => sockets[0]?.end('123456789'),
  }
}

const body = 'Content-Length: 2\r\n\r\n{}'

// 128 bodies that trickled a byte every 29 s held all connections, and those that queued for one waited for 70 s and more.
test.each([
  ['a payment', '/checkouts', 'POST /checkouts/late', body],
  ['a GET', '/checkouts', 'GET /checkouts/late', '\r\n'],
  ['an order', '/v3/assets', 'POST /v3/orders?late', body],
  ['a swap request whose body streams', '/v3/assets', 'PUT /v3/late', 'Content-Length: 90000\r\n\r\n{'],
])(
  '%s that waits for a connection is answered 503 within UPSTREAM_HEADERS_TIMEOUT_MS, and was never sent',
  async (_name, held, line, rest) => {
    const { gateway, received, take } = await taken({
      UPSTREAM_HEADERS_TIMEOUT_MS: 300,
      UPSTREAM_TOTAL_TIMEOUT_MS: 600_000,
    })
    await take(held)
    const refused = await rawExchange(gateway.url, `${line} HTTP/1.1\r\nHost: g\r\nApp-Name: a\r\n${rest}`)
    expect(expectProblem(refused, 503, 'saturated').retryable).toBe(true)
    expect(valuesOf(refused.rawHeaders, 'retry-after')).toEqual(['1'])
    expect(proxyStatus(refused)).toBe('quotegate; error=connection_limit_reached')
    expect(received()).not.toContain('late')
  },
)

const order = JSON.stringify({ pairId: 'A_B', fromAmount: 1, toAmount: 2, toAddress: 'late' })
const kinds: [string, string, string][] = [
  ['a quote', 'GET /v3/pairs/LATE_B/quotes?amount=1', '\r\n'],
  ['a float order', 'POST /v3/orders/float', `Content-Length: ${order.length}\r\n\r\n${order}`],
  ['an order', 'POST /v3/orders?late', body],
]
const requestOf = (line: string, rest: string) => `${line} HTTP/1.1\r\nHost: g\r\nApp-Name: a\r\n${rest}`

// Past capacity each of them got its connection when hardly any of its time was left, and was cut: for 40 s no quote came
// through, and 29 of 143 orders were sent and had no answer.
test.each(kinds)(
  '%s that waits for a connection is answered 503 when half of UPSTREAM_TOTAL_TIMEOUT_MS is over, and was never sent',
  async (_name, line, rest) => {
    const upstream = await rawUpstream(() => {})
    const { gateway, timers } = await gatewayInVirtualTime(upstream.url, {
      UPSTREAM_CONNECTIONS: 1,
      UPSTREAM_HEADERS_TIMEOUT_MS: 600_000,
      UPSTREAM_TOTAL_TIMEOUT_MS: 6_000,
    })
    // It is cut when its time is over, and only then is there a connection again.
    const first = rawExchange(gateway.url, requestOf('POST /v3/orders/float', 'Content-Length: 2\r\n\r\n{}'))
    await until(() => upstream.received.length === 1, 'the connection to be taken')
    const waiting = new RawConnection(gateway.url)
    waiting.write(requestOf(line, rest))
    await untilCounted(gateway, 'quotegate_upstream_requests_in_flight{upstream="swap"}', 2)
    await timers.pass(2_999)
    expect(waiting.received).toHaveLength(0)
    await timers.pass(1)
    const refused = await waiting.answer()
    expect(expectProblem(refused, 503, 'saturated')).toMatchObject({ retryable: true, upstream: 'swap' })
    expect(valuesOf(refused.rawHeaders, 'retry-after')).toEqual(['1'])
    expect(proxyStatus(refused)).toBe('quotegate; error=connection_limit_reached')
    expect(await counted(gateway, ended('connection_limit_reached'))).toBe(1)
    expect(await counted(gateway, ended('given-up'))).toBe(0)
    await timers.pass(3_000)
    expect((await first).status).toBe(504)
    expect(Buffer.concat(upstream.received).toString().toLowerCase()).not.toContain('late')
  },
)

test('an order whose body came slowly may wait for as long as any other', async () => {
  const { gateway, received, take, free } = await taken({
    UPSTREAM_HEADERS_TIMEOUT_MS: 600_000,
    UPSTREAM_TOTAL_TIMEOUT_MS: 4_000,
  })
  await take('/v3/assets')
  const client = new RawConnection(gateway.url)
  client.write(
    requestOf('POST /v3/orders/float', `Content-Length: ${order.length}\r\n\r\n${order.slice(0, 9)}`),
  )
  // More than half of its time, if that began with its head.
  await pause(2_200)
  client.write(order.slice(9))
  await untilCounted(gateway, 'quotegate_upstream_requests_in_flight{upstream="swap"}', 2)
  expect(client.received).toHaveLength(0)
  free()
  await until(() => received().includes('late'), 'it to be sent')
})

describe('what has a connection', () => {
  /** One connection to an upstream whose name resolves when the test says so. */
  async function stage() {
    const upstream = await recordingUpstream((_request, response) => {
      response.setHeader('Connection', 'close')
      held.push(() => response.end('ok'))
    })
    const held: (() => void)[] = []
    const resolve: (() => void)[] = []
    const lookup: LookupFunction = (_name, _options, callback) => {
      resolve.push(() => callback(null, [{ address: '127.0.0.1', family: 4 }]))
    }
    const timers = new VirtualTime()
    const clock = { ...systemClock, timers }
    const edge = await edgeTo(`http://upstream.test:${upstream.port}`, { connections: 1 }, { lookup, timers })
    const fetched = (target: string, totalTimeoutMs: number) => {
      const request = { kind: { quoteOf: 'A' }, method: 'GET', target, headers: [], body: null }
      const answer = fetchWhole({ upstream: edge.upstream, request, clock, totalTimeoutMs })
      return answer.then(
        ({ status }) => status,
        (error) => error.fault,
      )
    }
    return { edge, fetched, held, resolve, timers, upstream }
  }

  // As after a pause of the process, or while a connection is made: no timer has refused it.
  test('too late, after it has waited for one, is refused as well, and not sent', async () => {
    const { edge, fetched, held, resolve, timers, upstream } = await stage()
    const first = fetched('/first', 600_000)
    await until(() => resolve.length === 1, 'the first one to connect')
    const waited = fetched('/waited', 2_000)
    resolve[0]?.()
    await until(() => held.length === 1, 'the first one to arrive')
    held[0]?.()
    expect(await first).toBe(200)
    await until(() => resolve.length === 2, 'the one that waited to connect')
    await timers.pass(1_100)
    resolve[1]?.()
    expect(await waited).toBe('connection_limit_reached')
    expect([edge.outcomes, edge.states]).toEqual([['answered', 'connection_limit_reached'], []])
    expect(upstream.requests.map(({ target }) => target)).toEqual(['/first'])
  })

  test('and never waited for a free one is sent, however long it took to connect', async () => {
    const { fetched, held, resolve, timers } = await stage()
    const answer = fetched('/slow', 2_000)
    await until(() => resolve.length === 1, 'it to connect')
    await timers.pass(1_100)
    resolve[0]?.()
    await until(() => held.length === 1, 'it to arrive')
    held[0]?.()
    expect(await answer).toBe(200)
  })
})
