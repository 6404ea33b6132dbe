import type { ServerResponse } from 'node:http'
import type { LookupFunction } from 'node:net'
import { describe, expect, test } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { fetchWhole } from '../../src/upstream/fetch.ts'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { pause, recordingUpstream, until } from '../support/gateways/between.ts'
import { type Edge, edgeTo } from '../support/gateways/edge.ts'
import { escapedErrors } from '../support/machine/escaped-errors.ts'
import { faultyUpstream } from '../support/upstreams/faulty-upstream.ts'

/** Of the connections of swap some are for float orders alone. */
const payments = { name: 'payments' as const }
const rounds = 25
/** undici looks at its timers only twice a second. */
const slowRounds = 3
const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: g\r\n\r\n`
const upload = (path: string) => `POST ${path} HTTP/1.1\r\nHost: g\r\nContent-Length: 100000\r\n\r\nsome`

/** With these, three requests have a connection and three wait. Of bodies that stream, that is a quarter. */
function limitsFor(request: string) {
  const places = request.startsWith('POST') ? 12 : 3
  return { connections: places, queue: places }
}

/** All places are free again: as many as there are can be taken at once, and one more cannot. */
async function expectNothingLeaked(edge: Edge, places: number): Promise<void> {
  await until(() => edge.upstream.inFlight === 0, 'every request to have ended')
  const before = edge.outcomes.length
  const answers = await Promise.all(Array.from({ length: places }, () => rawExchange(edge.url, get('/ok'))))
  expect(answers.map(({ status }) => status)).toEqual(Array(places).fill(200))
  expect(edge.outcomes.slice(before)).toEqual(Array(places).fill('answered'))
  expect(edge.upstream.inFlight).toBe(0)
}

describe('a request stops counting as in flight when', () => {
  test.each([
    ['it is answered', get('/ok'), 200],
    ['its answer has no body', get('/304'), 304],
    ['its answer has no body, as for a HEAD', 'HEAD /ok HTTP/1.1\r\nHost: g\r\n\r\n', 200],
    ['its answer is the last on its connection', get('/last'), 200],
    ['its answer comes before its body is there', upload('/early'), 200],
    ['the upstream resets it', get('/reset'), 502],
    ['the upstream closes it', get('/close'), 502],
    ['the upstream breaks off in the head', get('/half-head'), 502],
    ['the upstream speaks no HTTP', get('/garbage'), 502],
    ['the upstream breaks off in the body', get('/cut'), 200],
    ['the upstream says nothing in time', get('/silent'), 504, slowRounds],
    ['the upstream stops in the body', get('/stream'), 200, slowRounds],
  ])('%s', async (_when, request, status, times = rounds) => {
    const escaped = escapedErrors()
    const upstream = await faultyUpstream()
    const timeouts = { headersTimeoutMs: 30, bodyTimeoutMs: 30 }
    const limits = limitsFor(request)
    const edge = await edgeTo(upstream.url, { ...limits, ...timeouts }, payments)
    for (let round = 0; round < times; round += 1) {
      const answers = await Promise.all(
        Array.from({ length: 3 }, async () => {
          const connection = new RawConnection(edge.url)
          connection.write(request)
          const answer = await connection.answer({ toHead: request.startsWith('HEAD') })
          connection.socket.destroy()
          return answer
        }),
      )
      expect(answers.map((answer) => answer.status)).toEqual([status, status, status])
    }
    await expectNothingLeaked(edge, 2 * limits.queue)
    expect(escaped).toEqual([])
  })

  test('no connection is made', async () => {
    let broken = true
    const lookup: LookupFunction = (_name, _options, callback) => {
      if (broken) callback(Object.assign(new Error('no such name'), { code: 'EAI_AGAIN' }), [])
      else callback(null, [{ address: '127.0.0.1', family: 4 }])
    }
    const upstream = await faultyUpstream()
    const edge = await edgeTo(
      `http://upstream.test:${upstream.port}`,
      { connections: 3, queue: 3 },
      { ...payments, lookup },
    )
    for (let round = 0; round < rounds; round += 1) {
      const answers = Array.from({ length: 6 }, () => rawExchange(edge.url, get('/ok')))
      for (const answer of await Promise.all(answers)) expect(answer.status).toBe(502)
    }
    broken = false
    await expectNothingLeaked(edge, 6)
  })
})

describe('a client that leaves', () => {
  test.each([
    ['before a connection is made', get('/ok')],
    ['before a connection is made, its body half sent', upload('/ok')],
  ])('%s leaks no place', async (_when, request) => {
    const escaped = escapedErrors()
    const upstream = await faultyUpstream()
    for (let round = 0; round < 10; round += 1) {
      const pending: (() => void)[] = []
      const lookup: LookupFunction = (_name, _options, callback) => {
        pending.push(() => callback(null, [{ address: '127.0.0.1', family: 4 }]))
      }
      const edge = await edgeTo(`http://upstream.test:${upstream.port}`, limitsFor(request), {
        ...payments,
        lookup,
      })
      const clients = Array.from({ length: 6 }, () => new RawConnection(edge.url))
      for (const client of clients) client.write(request)
      await until(() => edge.upstream.inFlight === 6, 'all to be taken on')
      for (const client of clients) client.socket.resetAndDestroy()
      await pause(20)
      // One look-up for the three connections.
      expect(pending).toHaveLength(1)
      for (const answer of pending) answer()
      await until(() => edge.upstream.inFlight === 0, 'all to have ended')
      expect(edge.outcomes).toEqual(Array(6).fill('given-up'))
      const places = 2 * limitsFor(request).queue
      expect(upstream.requests).toHaveLength(places * round)
      await expectNothingLeaked(edge, places)
    }
    expect(escaped).toEqual([])
  })

  test.each([
    ['while the upstream thinks', get('/silent')],
    ['while its answer streams', get('/stream')],
    ['while it still sends', upload('/ok')],
  ])('%s leaks no place, and neither do clients that left the queue', async (_when, request) => {
    const escaped = escapedErrors()
    const upstream = await faultyUpstream()
    const limits = limitsFor(request)
    const edge = await edgeTo(upstream.url, limits, payments)
    for (let round = 0; round < rounds; round += 1) {
      const before = upstream.requests.length
      const clients = Array.from({ length: 6 }, () => new RawConnection(edge.url))
      for (const client of clients) client.write(request)
      await until(() => upstream.requests.length === before + 3, 'three to arrive')
      await until(() => edge.upstream.inFlight === 6, 'all to be taken on')
      // In no particular order: some are under way, some wait.
      for (const client of clients) client.socket.destroy()
      await until(() => edge.upstream.inFlight === 0, 'all to have ended')
    }
    await expectNothingLeaked(edge, 2 * limits.queue)
    expect(escaped).toEqual([])
  })
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
  const edge = await edgeTo(upstream.url, { connections: 1, queue: 1 }, payments)
  const client = new RawConnection(edge.url)
  client.write(get('/dies'))
  await until(() => dying.length === 1, 'its first try to arrive')
  const other = new RawConnection(edge.url)
  other.write(get('/held'))
  await until(() => edge.upstream.inFlight === 2, 'the other one to wait')
  dying[0]?.socket?.destroy()
  await until(() => held.length === 1 && edge.retries === 1, 'its second try to wait')
  client.socket.destroy()
  await until(() => edge.upstream.inFlight === 1, 'it to have left')
  held[0]?.end('ok')
  await other.answer()
  await expectNothingLeaked(edge, 2)
})

test('a quote or an order that is past its total time leaks no place, sent or still waiting', async () => {
  const escaped = escapedErrors()
  const upstream = await recordingUpstream(() => {})
  const edge = await edgeTo(upstream.url, { connections: 2, queue: 4 }, payments)
  for (let round = 0; round < 5; round += 1) {
    // Those that wait give up first: a place that comes free a moment before their time is up would be theirs.
    const calls = Array.from({ length: 6 }, (_none, index) =>
      fetchWhole({
        upstream: edge.upstream,
        clock: systemClock,
        totalTimeoutMs: index < 2 ? 400 : 200,
        request: { kind: 'other', method: 'GET', target: '/', headers: [], body: null },
      }),
    )
    const ends = await Promise.allSettled(calls)
    for (const [index, end] of ends.entries()) {
      // What never left must not be reported as an upstream that did not answer.
      const fault = index < 2 ? 'http_response_timeout' : 'connection_limit_reached'
      expect(end).toMatchObject({ status: 'rejected', reason: { fault, maybeSeen: index < 2 } })
    }
    await until(() => edge.upstream.inFlight === 0, 'all to have ended')
  }
  expect(edge.outcomes.filter((outcome) => outcome === 'connection_limit_reached')).toHaveLength(20)
  expect(upstream.requests).toHaveLength(10)
  upstream.answer((_request, response) => response.end('ok'))
  await expectNothingLeaked(edge, 6)
  expect(escaped).toEqual([])
})
