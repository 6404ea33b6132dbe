import { describe, expect, test } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import type { Receiver } from '../../src/upstream/call.ts'
import { fetchWhole } from '../../src/upstream/fetch.ts'
import { expectProblem, proxyStatus } from '../support/clients/problems.ts'
import { RawConnection, rawExchange, valuesOf } from '../support/clients/raw-connection.ts'
import { gatewayTo, rawUpstream, recordingUpstream, until } from '../support/gateways/between.ts'
import { edgeTo } from '../support/gateways/edge.ts'

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: g\r\n\r\n`

function client(url: string, request: string): RawConnection {
  const connection = new RawConnection(url)
  connection.write(request)
  return connection
}

describe.each([
  // One of the two connections of swap is for float orders alone.
  ['swap', '/v3/assets', 1],
  ['payments', '/checkouts', 2],
])('past UPSTREAM_CONNECTIONS and the queue (%s)', (upstreamName, path, connections) => {
  test('the next request gets a 503 with Retry-After at once, and earlier requests get their answers', async () => {
    const waiting: (() => void)[] = []
    const upstream = await recordingUpstream((_request, response) => {
      waiting.push(() => response.end('late'))
    })
    const gateway = await gatewayTo(upstream.url, { UPSTREAM_CONNECTIONS: 2, queue: 3 })
    const accepted = Array.from({ length: connections + 3 }, () => client(gateway.url, get(path)))
    await until(() => waiting.length === connections, 'the connections to be busy')
    // The upstream has answered no request yet.
    const refused = await rawExchange(gateway.url, get(path))
    expect(expectProblem(refused, 503, 'saturated')).toMatchObject({
      retryable: true,
      upstream: upstreamName,
    })
    expect(valuesOf(refused.rawHeaders, 'retry-after')).toEqual(['1'])
    expect(proxyStatus(refused)).toBe('quotegate; error=connection_limit_reached')
    for (let count = 0; count < accepted.length; count += 1) {
      await until(() => waiting.length > count, 'the next one to arrive')
      waiting[count]?.()
    }
    for (const connection of accepted) expect((await connection.answer()).body.toString()).toBe('late')
    expect(upstream.requests).toHaveLength(accepted.length)
  })
})

test('with queue=0 a request is taken only if a connection is free; a POST that is not was not sent and may be sent again', async () => {
  const upstream = await rawUpstream(() => {})
  const gateway = await gatewayTo(upstream.url, { UPSTREAM_CONNECTIONS: 1, queue: 0 })
  client(gateway.url, get('/checkouts'))
  await until(() => upstream.received.length === 1, 'the first one to arrive')
  const post = 'POST /checkouts/second HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n{}'
  expect(expectProblem(await rawExchange(gateway.url, post), 503, 'saturated').retryable).toBe(true)
  expect(Buffer.concat(upstream.received).toString()).not.toContain('second')
})

test('waiting requests are sent in the order in which they came', async () => {
  let release = () => {}
  const upstream = await recordingUpstream((request, response) => {
    if (request.target === '/0') release = () => response.end('ok')
    else response.end('ok')
  })
  const edge = await edgeTo(upstream.url, { connections: 1 })
  const answers: Promise<unknown>[] = []
  for (let count = 0; count < 40; count += 1) {
    answers.push(client(edge.url, get(`/${count}`)).answer())
    await until(() => edge.upstream.inFlight === count + 1, 'it to be taken on')
  }
  await until(() => upstream.requests.length === 1, 'the first one to arrive')
  release()
  await Promise.all(answers)
  expect(upstream.requests.map(({ target }) => target)).toEqual(answers.map((_, index) => `/${index}`))
})

describe('the connections to an upstream', () => {
  test('are never more than UPSTREAM_CONNECTIONS, under load and after failures to connect', async () => {
    let most = 0
    const upstream = await recordingUpstream((_request, response) => {
      most = Math.max(most, upstream.connections.size)
      setTimeout(() => response.end('ok'), 2)
    })
    let failing = true
    const edge = await edgeTo(
      `http://upstream.test:${upstream.port}`,
      { connections: 3, retries: 0 },
      {
        name: 'payments',
        lookup: (_name, options, callback) => {
          if (failing) {
            const error = Object.assign(new Error('no such name'), { code: 'ENOTFOUND' })
            setTimeout(() => callback(error, []), 2)
          } else if (options.all) callback(null, [{ address: '127.0.0.1', family: 4 }])
          else callback(null, '127.0.0.1', 4)
        },
      },
    )
    const statuses: number[] = []
    for (let round = 0; round < 20; round += 1) {
      failing = round < 3
      const answers = await Promise.all(Array.from({ length: 20 }, () => rawExchange(edge.url, get('/'))))
      statuses.push(...answers.map(({ status }) => status))
    }
    expect(statuses.filter((status) => status === 502)).toHaveLength(60)
    expect(statuses.filter((status) => status === 200)).toHaveLength(340)
    expect(most).toBe(3)
    expect(edge.upstream.inFlight).toBe(0)
  })

  test('are used again: a second request needs no new connection', async () => {
    let connections = 0
    const upstream = await recordingUpstream((_request, response) => response.end('ok'))
    const edge = await edgeTo(upstream.url, { connections: 8 })
    const seen = new Set<unknown>()
    for (let count = 0; count < 20; count += 1) {
      await rawExchange(edge.url, get('/'))
      for (const socket of upstream.connections) seen.add(socket)
      connections = seen.size
    }
    expect(connections).toBe(1)
  })
})

describe('a request that no client waits for any more', () => {
  function receiverInto(log: string[]): Receiver {
    return {
      sent: () => log.push('sent'),
      head() {},
      data: () => true,
      ended: (error) => log.push(error?.message ?? 'complete'),
    }
  }
  const request = { kind: 'other' as const, method: 'GET', target: '/', headers: [], body: null }

  test('makes room at once if it was still waiting, and is never sent', async () => {
    const upstream = await rawUpstream(() => {})
    const { upstream: edge, outcomes } = await edgeTo(upstream.url, { connections: 1, queue: 1 })
    const log: string[] = []
    edge.call(request, receiverInto([]))
    const waiting = edge.call(request, receiverInto(log))
    expect(edge.inFlight).toBe(2)
    waiting.leave('no client waits')
    waiting.leave('no client waits')
    expect([log, edge.inFlight, outcomes]).toEqual([['no client waits'], 1, ['given-up']])
    edge.call(request, receiverInto([]))
    expect(outcomes).toEqual(['given-up'])
  })

  // It was counted as one whose client had left, while the log and the client got a connection_timeout.
  test('is counted as a connection timeout if its own time was up', async () => {
    const upstream = await rawUpstream(() => {})
    const edge = await edgeTo(upstream.url, { breakerFailures: 1 })
    const answer = fetchWhole({ upstream: edge.upstream, request, clock: systemClock, totalTimeoutMs: 0 })
    await expect(answer).rejects.toMatchObject({ fault: 'connection_timeout', maybeSeen: false })
    await until(() => edge.outcomes.length > 0, 'it to be counted')
    expect(edge.outcomes).toEqual(['connection_timeout'])
    expect([edge.states, edge.upstream.inFlight, Buffer.concat(upstream.received).length]).toEqual([[], 0, 0])
  })

  test('ends at once while its connection is made, and is not sent on it', async () => {
    const upstream = await recordingUpstream()
    const { upstream: edge, outcomes } = await edgeTo(upstream.url, { connections: 1 })
    const log: string[] = []
    edge.call(request, receiverInto(log)).leave('no client waits')
    expect(log).toEqual(['no client waits'])
    await until(() => edge.inFlight === 0, 'its connection')
    expect([log, outcomes, upstream.requests]).toEqual([['no client waits'], ['given-up'], []])
  })
})

test('a shutdown ends requests that wait and requests in flight; later ones are refused, too', async () => {
  const upstream = await rawUpstream(() => {})
  const edge = await edgeTo(upstream.url, { connections: 2 }, { name: 'payments' })
  const clients = ['/a', '/b', '/c'].map((path) => client(edge.url, get(path)))
  await until(() => upstream.received.length === 2 && edge.upstream.inFlight === 3, 'all to be taken on')
  await edge.upstream.close()
  for (const connection of clients) expect((await connection.answer()).status).toBe(502)
  expect((await rawExchange(edge.url, get('/d'))).status).toBe(502)
  expect([edge.upstream.inFlight, edge.retries, upstream.received.length]).toEqual([0, 0, 2])
})

test('after a shutdown no connection is made, even if the limit was never reached', async () => {
  const upstream = await recordingUpstream()
  const edge = await edgeTo(upstream.url, { connections: 5 })
  await edge.upstream.close()
  expect((await rawExchange(edge.url, get('/'))).status).toBe(502)
  expect(upstream.requests).toEqual([])
})
