import type { ServerResponse } from 'node:http'
import { expect, test } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { fetchWhole } from '../../src/upstream/fetch.ts'
import { expectProblem, proxyStatus } from '../support/clients/problems.ts'
import { untilCounted } from '../support/clients/quotes.ts'
import {
  get,
  RawConnection,
  rawExchange,
  valuesOf,
} from '../support/clients/raw-connection.ts'
import {
  gatewayTo,
  rawUpstream,
  recordingUpstream,
  until,
} from '../support/gateways/between.ts'
import { edgeTo } from '../support/gateways/edge.ts'

// Who gets a connection, and who waits, in any order: test/upstream/lanes.test.ts. That no place stays taken, however
// requests end: queue-stress.test.ts.

test('past UPSTREAM_CONNECTIONS and the queue, a 503 comes at once; earlier requests are sent in order', async () => {
  const waiting: (() => void)[] = []
  const upstream = await recordingUpstream((_request, response) => {
    waiting.push(() => response.end('late'))
  })
  const gateway = await gatewayTo(upstream.url, { UPSTREAM_CONNECTIONS: 2, queue: 3 })
  const accepted: RawConnection[] = []
  for (let count = 1; count <= 5; count += 1) {
    accepted.push(new RawConnection(gateway.url, get(`/checkouts/${count}`)))
    await untilCounted(
      gateway,
      'quotegate_upstream_requests_in_flight{upstream="payments"}',
      count,
    )
  }
  await until(() => waiting.length === 2, 'the connections to be busy')
  // The upstream has answered no request yet.
  const refused = await rawExchange(gateway.url, get('/checkouts/6'))
  const about = { retryable: true, upstream: 'payments' }
  expect(expectProblem(refused, 503, 'saturated')).toMatchObject(about)
  expect(valuesOf(refused.rawHeaders, 'retry-after')).toEqual(['1'])
  expect(proxyStatus(refused)).toBe('quotegate; error=connection_limit_reached')
  for (let count = 0; count < accepted.length; count += 1) {
    await until(() => waiting.length > count, 'the next one to arrive')
    waiting[count]?.()
  }
  for (const connection of accepted)
    expect((await connection.answer()).body.toString()).toBe('late')
  const inTheirOrder = accepted.map((_one, index) => `/checkouts/${index + 1}`)
  expect(upstream.requests.map(({ target }) => target)).toEqual(inTheirOrder)
})

test('connections are used again, and never more than UPSTREAM_CONNECTIONS, after failures to connect too', async () => {
  let most = 0
  const seen = new Set<unknown>()
  const upstream = await recordingUpstream((_request, response) => {
    most = Math.max(most, upstream.connections.size)
    for (const socket of upstream.connections) seen.add(socket)
    setTimeout(() => response.end('ok'), 2)
  })
  let failing = true
  const edge = await edgeTo(
    `http://upstream.test:${upstream.port}`,
    { connections: 3, retries: 0 },
    {
      name: 'payments',
      lookup: (_name, _options, callback) => {
        const error = Object.assign(new Error('no such name'), { code: 'ENOTFOUND' })
        if (failing) setTimeout(() => callback(error, []), 2)
        else callback(null, [{ address: '127.0.0.1', family: 4 }])
      },
    },
  )
  for (let round = 0; round < 20; round += 1) {
    failing = round < 3
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => rawExchange(edge.url, get('/'))),
    )
    expect(answers.map(({ status }) => status)).toEqual(
      Array(20).fill(failing ? 502 : 200),
    )
  }
  expect([most, edge.upstream.inFlight]).toEqual([3, 0])
  // Of 340 requests. A machine that stands still for seconds has its idle connections closed.
  expect(seen.size).toBeLessThan(20)
})

// It was counted as one whose caller had left, while the log and the caller got a connection_timeout.
test('a request whose own time is up before it has a connection is counted as a connection timeout', async () => {
  const upstream = await rawUpstream(() => {})
  const edge = await edgeTo(upstream.url, { breakerFailures: 1 })
  const request = {
    kind: 'other' as const,
    method: 'GET',
    target: '/',
    headers: [],
    body: null,
  }
  const answer = fetchWhole({
    upstream: edge.upstream,
    request,
    clock: systemClock,
    totalTimeoutMs: 0,
  }).whole()
  await expect(answer).rejects.toMatchObject({
    fault: 'connection_timeout',
    maybeSeen: false,
  })
  await until(() => edge.outcomes.length > 0, 'it to be counted')
  expect(edge.outcomes).toEqual(['connection_timeout'])
  expect([
    edge.states,
    edge.upstream.inFlight,
    Buffer.concat(upstream.received).length,
  ]).toEqual([[], 0, 0])
})

test('a shutdown ends requests that wait and requests in flight; later ones are refused, too', async () => {
  const upstream = await rawUpstream(() => {})
  const edge = await edgeTo(upstream.url, { connections: 2 }, { name: 'payments' })
  const clients = ['/a', '/b', '/c'].map((path) => new RawConnection(edge.url, get(path)))
  await until(
    () => upstream.received.length === 2 && edge.upstream.inFlight === 3,
    'all to be taken on',
  )
  await edge.upstream.close()
  for (const connection of clients) expect((await connection.answer()).status).toBe(502)
  expect((await rawExchange(edge.url, get('/d'))).status).toBe(502)
  expect([edge.upstream.inFlight, edge.retries, upstream.received.length]).toEqual([
    0, 0, 2,
  ])
})

// What it has of the first try, which died, takes it out of no queue.
test('a client that leaves on its second try leaves the queue', async () => {
  const dying: ServerResponse[] = []
  const held: ServerResponse[] = []
  const upstream = await recordingUpstream(({ target }, response) => {
    if (target === '/dies') dying.push(response)
    else if (target === '/held') held.push(response)
    else response.end('ok')
  })
  const edge = await edgeTo(
    upstream.url,
    { connections: 1, queue: 1 },
    { name: 'payments' },
  )
  const client = new RawConnection(edge.url, get('/dies'))
  await until(() => dying.length === 1, 'its first try to arrive')
  const other = new RawConnection(edge.url, get('/held'))
  await until(() => edge.upstream.inFlight === 2, 'the other one to wait')
  dying[0]?.socket?.destroy()
  await until(() => held.length === 1 && edge.retries === 1, 'its second try to wait')
  client.socket.destroy()
  await until(() => edge.upstream.inFlight === 1, 'it to have left')
  held[0]?.end('ok')
  await other.answer()
  // All places are free again.
  const answers = await Promise.all([1, 2].map(() => rawExchange(edge.url, get('/ok'))))
  expect(answers.map(({ status }) => status)).toEqual([200, 200])
})
