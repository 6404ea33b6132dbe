import type { LookupFunction, Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import type { UpstreamOptions } from '../../src/upstream/upstream.ts'
import { post } from '../support/clients/orders.ts'
import { get, RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import {
  pause,
  rawUpstream,
  recordingUpstream,
  until,
} from '../support/gateways/between.ts'
import { edgeTo } from '../support/gateways/edge.ts'
import { VirtualTime } from '../support/machine/virtual-time.ts'
import { faultyUpstream, timesSeen } from '../support/upstreams/faulty-upstream.ts'

// What counts for the breakers of one upstream. Their rules are in test/upstream/breaker.test.ts, and in any order in
// test/property/breakers.test.ts; what one try counts as is in test/upstream/call.test.ts; which request is of which
// breaker is in test/promises/what-fails-stops-alone.test.ts.

const openMs = 5_000
const limits = { breakerFailures: 3, retries: 0, headersTimeoutMs: 50 }
/** Nothing that takes time fails for it, unless the test lets it pass. */
const inVirtualTime = { breakerFailures: 1, breakerOpenMs: openMs, retries: 0 }

describe('at the swap API three failures in a row open the breaker, two do not; on the others none', () => {
  const failing = ['/reset', '/half-head', '/cut', '/silent', '/502']
  test.each<[UpstreamOptions['name'], string[], string[]]>([
    ['swap', failing, ['rest open']],
    ['swap', ['/404', '/500', '/garbage'], []],
    ['payments', failing, []],
  ])('%s: %j', async (name, faults, states) => {
    for (const fault of faults) {
      const upstream = await faultyUpstream()
      const edge = await edgeTo(upstream.url, limits, { name })
      for (const path of [fault, fault, '/ok', fault, fault])
        await rawExchange(edge.url, get(path))
      expect([fault, edge.states]).toEqual([fault, []])
      await rawExchange(edge.url, get(fault))
      expect([fault, edge.states]).toEqual([fault, states])
    }
  })
})

test('an open breaker lets all be sent once the answer to the one that tries begins, however slowly it is read', async () => {
  const timers = new VirtualTime()
  const edge = await edgeTo((await faultyUpstream()).url, inVirtualTime, { timers })
  await rawExchange(edge.url, get('/503'))
  expect((await rawExchange(edge.url, get('/ok'))).status).toBe(503)
  await timers.pass(openMs)
  const slow = new RawConnection(edge.url, get('/stream'))
  await until(() => slow.received.includes('200 OK'), 'the answer to begin')
  expect((await rawExchange(edge.url, get('/ok'))).status).toBe(200)
  expect(edge.states).toEqual(['rest open', 'rest half-open', 'rest closed'])
})

describe('failures to connect', () => {
  const order = '/kind/float-order'
  const kinds = ['/a', '/kind/order', order, '/quote-of/A']

  /** An upstream whose name can be made not to resolve. Requests whose path says `held` are answered by the test. */
  async function stage(changes: Partial<typeof limits> = {}) {
    const timers = new VirtualTime()
    const names = { work: true, asked: 0 }
    const lookup: LookupFunction = (_name, options, callback) => {
      names.asked += 1
      if (!names.work)
        callback(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' }), [])
      else if (options.all) callback(null, [{ address: '127.0.0.1', family: 4 }])
      else callback(null, '127.0.0.1', 4)
    }
    const release: (() => void)[] = []
    const upstream = await recordingUpstream(({ target }, response) => {
      response.setHeader('Connection', 'close')
      if (target.includes('held')) release.push(() => response.end('ok'))
      else response.end('ok')
    })
    const edge = await edgeTo(
      `http://upstream.test:${upstream.port}`,
      { ...inVirtualTime, connections: 2, ...changes },
      { lookup, timers },
    )
    async function send(path: string): Promise<RawConnection> {
      const { inFlight } = edge.upstream
      const client = new RawConnection(edge.url, get(path))
      await until(() => edge.upstream.inFlight === inFlight + 1, `${path} to be taken on`)
      if (path.includes('held'))
        await until(() => timesSeen(upstream, path) === 1, `${path} to arrive`)
      return client
    }
    const ask = (path: string) => rawExchange(edge.url, get(path))
    const targets = () => upstream.requests.map((one) => one.target)
    return { upstream, names, edge, timers, release, send, ask, targets }
  }

  test('stop every kind of request, and one connection allows all of them again', async () => {
    const { ask, edge, names, timers, upstream } = await stage({ breakerFailures: 3 })
    names.work = false
    for (const path of ['/a', order, '/quote-of/A'])
      expect((await ask(path)).status).toBe(502)
    expect(edge.states).toEqual(['connections open'])
    const { asked } = names
    for (const path of kinds) {
      const { status, body } = await ask(path)
      expect([status, JSON.parse(body.toString()).breaker]).toEqual([503, 'connections'])
    }
    expect(names.asked).toBe(asked)
    names.work = true
    await timers.pass(openMs)
    // A connection is all that it needs: the upstream may answer what it will.
    upstream.answer((_request, response) => response.writeHead(503).end())
    await ask('/a')
    expect(edge.states).toEqual([
      'connections open',
      'connections half-open',
      'connections closed',
    ])
    upstream.answer((_request, response) => response.end('ok'))
    for (const path of kinds) expect((await ask(path)).status).toBe(200)
    expect(edge.states).toHaveLength(3)
  })

  test('requests that wait when they begin are sent once one request may try again, not before', async () => {
    const { ask, edge, names, release, send, targets, timers } = await stage()
    await send('/held')
    const clients = [await send('/waits-1'), await send('/waits-2')]
    names.work = false
    // It takes the connection that is for orders alone, and cannot connect.
    expect((await ask(order)).status).toBe(502)
    names.work = true
    release[0]?.()
    await timers.pass(openMs - 1)
    expect(targets()).toEqual(['/held'])
    await timers.pass(1)
    for (const client of clients) expect((await client.answer()).status).toBe(200)
    expect(targets()).toEqual(['/held', '/waits-1', '/waits-2'])
    expect(edge.states).toEqual([
      'connections open',
      'connections half-open',
      'connections closed',
    ])
  })

  test('requests that wait are refused if the first to try fails as well', async () => {
    const { ask, edge, names, release, send, targets, timers } = await stage()
    await send('/held')
    const clients = [await send('/tries'), await send('/waits')]
    names.work = false
    await ask(order)
    release[0]?.()
    await timers.pass(openMs)
    const [tried, waited] = await Promise.all(clients.map((client) => client.answer()))
    expect(tried?.status).toBe(502)
    expect([waited?.status, JSON.parse(String(waited?.body)).breaker]).toEqual([
      503,
      'connections',
    ])
    expect(edge.states).toEqual([
      'connections open',
      'connections half-open',
      'connections open',
    ])
    expect([targets(), edge.upstream.inFlight]).toEqual([['/held'], 0])
  })
})

// What one caller does must not close the door for others while the provider is well.
describe('an upload that the provider cuts opens no breaker', () => {
  function sendUpload(
    url: string,
    { sent, length = sent }: { sent: number; length?: number },
  ): RawConnection {
    const client = new RawConnection(url)
    client.write(
      post('x'.repeat(sent), {
        path: '/anything',
        headers: [`Content-Length: ${length}`],
      }),
    )
    return client
  }

  test.each<[string, (socket: Socket) => void]>([
    ['resets', (socket) => socket.resetAndDestroy()],
    [
      'answers 503 and closes',
      (socket) => {
        socket.end(
          'HTTP/1.1 503 Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n',
        )
        socket.destroySoon()
      },
    ],
  ])('when it %s, in the middle of it or when it is sent at once', async (_how, cut) => {
    const upstream = await rawUpstream((socket) => cut(socket))
    const edge = await edgeTo(upstream.url, { breakerFailures: 3, retries: 0 })
    for (let count = 0; count < 4; count += 1)
      await sendUpload(edge.url, { sent: 100_000, length: 500_000 }).answer()
    for (const sent of [70_000, 300_000, 3_000_000, 10_000_000])
      await sendUpload(edge.url, { sent }).answer()
    expect(edge.states).toEqual([])
  })

  test('when it reads nothing more and lets it time out', async () => {
    const upstream = await rawUpstream((socket) => void socket.pause())
    const edge = await edgeTo(upstream.url, {
      ...limits,
      breakerFailures: 1,
      headersTimeoutMs: 300,
    })
    expect((await sendUpload(edge.url, { sent: 20_000_000 }).answer()).status).toBe(504)
    expect(edge.states).toEqual([])
  })

  test.each(['resets', '503'])(
    'unless its body was short, came in pieces and was sent whole: %s',
    async (how) => {
      const upstream = await recordingUpstream((_request, response) => {
        if (how === 'resets') response.socket?.resetAndDestroy()
        else response.writeHead(503).end()
      })
      const edge = await edgeTo(upstream.url, {
        ...limits,
        headersTimeoutMs: 10_000,
        breakerFailures: 1,
      })
      const client = new RawConnection(edge.url)
      client.write('POST /a HTTP/1.1\r\nHost: g\r\nContent-Length: 8\r\n\r\nhalf')
      await until(() => upstream.requests.length === 1, 'the half to arrive')
      client.write('half')
      await client.answer()
      expect(edge.states).toEqual(['rest open'])
    },
  )
})

test('an answer that the provider breaks off because its caller does not read opens no breaker', async () => {
  const sockets: Socket[] = []
  const upstream = await rawUpstream((socket) => {
    sockets.push(socket)
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n')
    for (let count = 0; count < 200; count += 1) socket.write(Buffer.alloc(100_000))
  })
  const timers = new VirtualTime()
  const edge = await edgeTo(upstream.url, inVirtualTime, { timers })
  const client = new RawConnection(edge.url, get('/big'))
  client.socket.pause()
  await until(() => sockets.length === 1, 'the request to arrive')
  // Until nothing more fits in between.
  let left = 0
  while (left !== sockets[0]?.writableLength) {
    left = sockets[0]?.writableLength ?? 0
    await pause(300)
  }
  await timers.pass(1_500)
  sockets[0]?.resetAndDestroy()
  client.socket.resume()
  await until(() => edge.outcomes.length === 1, 'its end')
  expect([edge.outcomes, edge.states]).toEqual([['http_response_incomplete'], []])
})
