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
import { ownPatience } from '../support/gateways/gateway.ts'
import { VirtualTime } from '../support/machine/virtual-time.ts'

const ended = (outcome: string, upstream: string) =>
  `quotegate_upstream_requests_total{upstream="${upstream}",outcome="${outcome}"}`
const inFlight = (upstream: string) =>
  `quotegate_upstream_requests_in_flight{upstream="${upstream}"}`

/** One connection, held by a request that no deadline of a test ends. */
async function taken(settings: Record<string, number>, holder = '/v3/assets') {
  let free = () => {}
  const upstream = await rawUpstream((socket) => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n')
    free = () => socket.end('123456789')
  })
  const limits = { ...ownPatience, bodyTimeoutMs: 600_000 }
  const all = { UPSTREAM_CONNECTIONS: 1, ...limits, ...settings }
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

const payment = ['a payment', 'POST /checkouts/late', body] as const
const floatOrder = [
  'a float order',
  'POST /v3/orders/float',
  `Content-Length: ${order.length}\r\n\r\n${order}`,
] as const
const others = [
  ['a quote', 'GET /v3/pairs/LATE_B/quotes?amount=1', '\r\n'],
  ['an order', 'POST /v3/orders?late', body],
  ['a swap request whose body streams', 'PUT /v3/late', 'Content-Length: 90000\r\n\r\n{'],
  payment,
] as const

const all = [
  ...others.map((other) => [...other, 1_000] as const),
  [...floatOrder, 2_000] as const,
]

// They waited for up to 7.5 s, and most callers give up after five: past capacity, whatever got a connection was about to
// be abandoned. Of 240 payments 230 were sent and cut.
test.each(all)(
  '%s that waits for a connection (%s) is answered 503 in time for its caller, and was never sent',
  async (_name, line, rest, ms) => {
    const holder = line.includes('/v3') ? '/v3/assets' : '/checkouts'
    const { gateway, received, timers, waiting } = await taken({}, holder)
    const client = await waiting(requestOf(line, rest))
    await timers.pass(ms - 1)
    expect(client.received).toHaveLength(0)
    await timers.pass(1)
    const side = line.includes('/v3') ? 'swap' : 'payments'
    expectRefused(await client.answer(), side)
    expect(await counted(gateway, ended('connection_limit_reached', side))).toBe(1)
    expect(await counted(gateway, ended('given-up', side))).toBe(0)
    expect(received()).not.toContain('late')
  },
)

test.each([
  [...payment, { UPSTREAM_HEADERS_TIMEOUT_MS: 300 }, 300],
  [...payment, { UPSTREAM_TOTAL_TIMEOUT_MS: 600 }, 300],
  [...floatOrder, { UPSTREAM_TOTAL_TIMEOUT_MS: 600 }, 300],
] as const)(
  '%s (%s) waits no longer than its time allows: %o',
  async (_name, line, rest, settings, ms) => {
    const holder = line.includes('/v3') ? '/v3/assets' : '/checkouts'
    const { timers, waiting } = await taken(settings, holder)
    const client = await waiting(requestOf(line, rest))
    await timers.pass(ms - 1)
    expect(client.received).toHaveLength(0)
    await timers.pass(1)
    expectRefused(await client.answer(), line.includes('/v3') ? 'swap' : 'payments')
  },
)

test('an order whose body came slowly may wait for as long as any other', async () => {
  const { free, gateway, received, timers } = await taken({})
  const head = `Content-Length: ${order.length}\r\n\r\n${order.slice(0, 9)}`
  const client = new RawConnection(gateway.url, requestOf('POST /v3/orders/float', head))
  await untilCounted(gateway, 'quotegate_http_requests_in_flight', 2)
  // Longer than it may wait, if that began with its head.
  await timers.pass(3_000)
  client.write(order.slice(9))
  await untilCounted(gateway, inFlight('swap'), 2)
  await timers.pass(1_900)
  expect(client.received).toHaveLength(0)
  free()
  await until(() => received().includes('late'), 'it to be sent')
  // Or the gateway would end only after its drain.
  free()
})

/** Its timers do not run while the process stands still. */
class PausedTime extends VirtualTime {
  pausedMs = 0

  override steadyMs(): number {
    return super.steadyMs() + this.pausedMs
  }
}

/** An upstream with one connection, which has to be made for each request, once the test says so. */
async function slowlyConnected() {
  const held: (() => void)[] = []
  const upstream = await recordingUpstream((_request, response) => {
    response.setHeader('Connection', 'close')
    held.push(() => response.end('ok'))
  })
  const connect: (() => void)[] = []
  const lookup: LookupFunction = (_name, _options, callback) => {
    connect.push(() => callback(null, [{ address: '127.0.0.1', family: 4 }]))
  }
  const timers = new PausedTime()
  const edge = await edgeTo(
    `http://upstream.test:${upstream.port}`,
    { connections: 1, waitMs: 1_000 },
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
    return fetchWhole({
      upstream: edge.upstream,
      request,
      clock,
      totalTimeoutMs: 9_000,
    }).whole()
  }
  const first = fetched('/first')
  await until(() => connect.length === 1, 'the first one to connect')
  connect[0]?.()
  await until(() => held.length === 1, 'the first one to arrive')
  const targets = () => upstream.requests.map(({ target }) => target)
  return { connect, edge, fetched, first, held, targets, timers }
}

// Past capacity the next in the queue has always waited for nearly as long as it may.
test('what got a free connection in time is sent, however long making it takes', async () => {
  const { connect, fetched, first, held, targets, timers } = await slowlyConnected()
  const waited = fetched('/waited')
  await timers.pass(900)
  held[0]?.()
  await first
  await until(() => connect.length === 2, 'the one that waited to connect')
  await timers.pass(2_000)
  connect[1]?.()
  await until(() => held.length === 2, 'it to arrive')
  held[1]?.()
  expect((await waited).status).toBe(200)
  expect(targets()).toEqual(['/first', '/waited'])
})

test('after a pause of the process, what has waited for too long is refused at once, though a connection is free by then', async () => {
  const { connect, edge, fetched, first, held, targets, timers } = await slowlyConnected()
  const waited = expect(fetched('/waited')).rejects.toMatchObject({
    fault: 'connection_limit_reached',
    maybeSeen: false,
  })
  timers.pausedMs = 1_100
  held[0]?.()
  await first
  await waited
  expect(connect).toHaveLength(1)
  expect([edge.outcomes, edge.states]).toEqual([
    ['answered', 'connection_limit_reached'],
    [],
  ])
  expect(targets()).toEqual(['/first'])
})
