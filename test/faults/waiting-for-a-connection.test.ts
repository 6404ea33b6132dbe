import type { LookupFunction } from 'node:net'
import { expect, test } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { fetchWhole } from '../../src/upstream/fetch.ts'
import { expectProblem, proxyStatus } from '../support/clients/problems.ts'
import { counted, untilCounted } from '../support/clients/quotes.ts'
import {
  type ParsedAnswer,
  RawConnection,
  valuesOf,
} from '../support/clients/raw-connection.ts'
import {
  gatewayInVirtualTime,
  rawUpstream,
  recordingUpstream,
  until,
} from '../support/gateways/between.ts'
import { edgeTo } from '../support/gateways/edge.ts'
import { VirtualTime } from '../support/machine/virtual-time.ts'

const ended = (outcome: string) =>
  `quotegate_upstream_requests_total{upstream="swap",outcome="${outcome}"}`
const inFlight = (upstream: string) =>
  `quotegate_upstream_requests_in_flight{upstream="${upstream}"}`

/** One connection, held by a request that no deadline of a test ends. */
async function taken(settings: Record<string, number>, holder = '/v3/assets') {
  let free = () => {}
  const upstream = await rawUpstream((socket) => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n')
    free = () => socket.end('123456789')
  })
  const all = { UPSTREAM_CONNECTIONS: 1, bodyTimeoutMs: 600_000, ...settings }
  const { gateway, timers } = await gatewayInVirtualTime(upstream.url, all)
  const held = new RawConnection(gateway.url, `GET ${holder} HTTP/1.1\r\nHost: g\r\n\r\n`)
  await until(() => held.received.includes('\r\n\r\n'), 'the connection to be taken')
  const side = holder.startsWith('/v3') ? 'swap' : 'payments'
  async function waiting(request: string): Promise<RawConnection> {
    const client = new RawConnection(gateway.url, request)
    await untilCounted(gateway, inFlight(side), 2)
    return client
  }
  const received = () => Buffer.concat(upstream.received).toString().toLowerCase()
  return { free: () => free(), gateway, received, timers, waiting }
}

function expectRefused(answer: ParsedAnswer, upstream: string): void {
  expect(expectProblem(answer, 503, 'saturated')).toMatchObject({
    retryable: true,
    upstream,
  })
  expect(valuesOf(answer.rawHeaders, 'retry-after')).toEqual(['1'])
  expect(proxyStatus(answer)).toBe('quotegate; error=connection_limit_reached')
}

const requestOf = (line: string, rest: string) =>
  `${line} HTTP/1.1\r\nHost: g\r\nApp-Name: a\r\n${rest}`
const body = 'Content-Length: 2\r\n\r\n{}'
const order = JSON.stringify({
  pairId: 'A_B',
  fromAmount: 1,
  toAmount: 2,
  toAddress: 'late',
})

// 128 bodies that trickled a byte every 29 s held all connections, and those that queued for one waited for 70 s and more.
test.each([
  ['a payment', '/checkouts', 'POST /checkouts/late', body],
  ['an order', '/v3/assets', 'POST /v3/orders?late', body],
  [
    'a swap request whose body streams',
    '/v3/assets',
    'PUT /v3/late',
    'Content-Length: 90000\r\n\r\n{',
  ],
])(
  '%s that waits for a connection is answered 503 within UPSTREAM_HEADERS_TIMEOUT_MS, and was never sent',
  async (_name, holder, line, rest) => {
    const limits = {
      UPSTREAM_HEADERS_TIMEOUT_MS: 3_000,
      UPSTREAM_TOTAL_TIMEOUT_MS: 600_000,
    }
    const { received, timers, waiting } = await taken(limits, holder)
    const client = await waiting(requestOf(line, rest))
    await timers.pass(3_000)
    expectRefused(await client.answer(), holder === '/checkouts' ? 'payments' : 'swap')
    expect(received()).not.toContain('late')
  },
)

const half = { UPSTREAM_HEADERS_TIMEOUT_MS: 600_000, UPSTREAM_TOTAL_TIMEOUT_MS: 6_000 }

// Past capacity each of them got its connection when hardly any of its time was left, and was cut: for 40 s no quote came
// through, and 29 of 143 orders were sent and had no answer.
const early = [
  ['a quote', 'GET /v3/pairs/LATE_B/quotes?amount=1', '\r\n'],
  [
    'a float order',
    'POST /v3/orders/float',
    `Content-Length: ${order.length}\r\n\r\n${order}`,
  ],
  ['an order', 'POST /v3/orders?late', body],
] as const
test.each(early)(
  '%s that waits for a connection is answered 503 when half of UPSTREAM_TOTAL_TIMEOUT_MS is over, and was never sent',
  async (_name, line, rest) => {
    const { gateway, received, timers, waiting } = await taken(half)
    const client = await waiting(requestOf(line, rest))
    await timers.pass(2_999)
    expect(client.received).toHaveLength(0)
    await timers.pass(1)
    expectRefused(await client.answer(), 'swap')
    expect(await counted(gateway, ended('connection_limit_reached'))).toBe(1)
    expect(await counted(gateway, ended('given-up'))).toBe(0)
    expect(received()).not.toContain('late')
  },
)

test('an order whose body came slowly may wait for as long as any other', async () => {
  const { free, gateway, received, timers } = await taken(half)
  const head = `Content-Length: ${order.length}\r\n\r\n${order.slice(0, 9)}`
  const client = new RawConnection(gateway.url, requestOf('POST /v3/orders/float', head))
  await untilCounted(gateway, 'quotegate_http_requests_in_flight', 2)
  // More than half of its time, if that began with its head.
  await timers.pass(3_200)
  client.write(order.slice(9))
  await untilCounted(gateway, inFlight('swap'), 2)
  await timers.pass(2_900)
  expect(client.received).toHaveLength(0)
  free()
  await until(() => received().includes('late'), 'it to be sent')
  // Or the gateway would end only after its drain.
  free()
})

// As after a pause of the process, or while a connection is made: no timer has refused it.
test('what has a connection too late is sent only if it never waited for a free one', async () => {
  const held: (() => void)[] = []
  const upstream = await recordingUpstream((_request, response) => {
    response.setHeader('Connection', 'close')
    held.push(() => response.end('ok'))
  })
  const resolve: (() => void)[] = []
  const lookup: LookupFunction = (_name, _options, callback) => {
    resolve.push(() => callback(null, [{ address: '127.0.0.1', family: 4 }]))
  }
  const timers = new VirtualTime()
  const edge = await edgeTo(
    `http://upstream.test:${upstream.port}`,
    { connections: 1 },
    { lookup, timers },
  )
  const clock = { ...systemClock, timers }
  const fetched = (target: string) => {
    const request = {
      kind: { quoteOf: 'A' },
      method: 'GET',
      target,
      headers: [],
      body: null,
    }
    return fetchWhole({ upstream: edge.upstream, request, clock, totalTimeoutMs: 2_000 })
  }
  const first = fetched('/first')
  await until(() => resolve.length === 1, 'the first one to connect')
  await timers.pass(1_100)
  const waited = expect(fetched('/waited')).rejects.toMatchObject({
    fault: 'connection_limit_reached',
  })
  resolve[0]?.()
  await until(() => held.length === 1, 'the first one to arrive')
  held[0]?.()
  expect((await first).status).toBe(200)
  await until(() => resolve.length === 2, 'the one that waited to connect')
  await timers.pass(1_100)
  resolve[1]?.()
  await waited
  expect([edge.outcomes, edge.states]).toEqual([
    ['answered', 'connection_limit_reached'],
    [],
  ])
  expect(upstream.requests.map(({ target }) => target)).toEqual(['/first'])
})
