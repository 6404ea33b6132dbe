import type { LookupFunction, Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import type { UpstreamOptions } from '../../src/upstream/upstream.ts'
import { post } from '../support/clients/orders.ts'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { pause, rawUpstream, recordingUpstream, until } from '../support/gateways/between.ts'
import { edgeTo } from '../support/gateways/edge.ts'
import { VirtualTime } from '../support/machine/virtual-time.ts'
import { faultyUpstream, timesSeen } from '../support/upstreams/faulty-upstream.ts'

// What counts for the breakers of one upstream. Their rules are in test/upstream/breaker.test.ts, and in any order in
// test/property/breakers.test.ts; which request is of which breaker is in breaker-gateway.test.ts.

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: g\r\n\r\n`
const nobody = 'http://127.0.0.1:9'
const openMs = 5_000
const limits = { breakerFailures: 3, retries: 0, headersTimeoutMs: 50, connectTimeoutMs: 300 }
/** Nothing that takes time fails for it, unless the test lets it pass. */
const inVirtualTime = { breakerFailures: 1, breakerOpenMs: openMs, retries: 0 }

describe('on the swap side three failures in a row open the breaker, two do not; on the others only those to connect', () => {
  const failing = ['/reset', '/close', '/half-head', '/cut', '/silent', '/502', '/503', '/504']
  test.each<[UpstreamOptions['name'], string[], string[]]>([
    ['swap', failing, ['rest open']],
    ['swap', ['/200', '/400', '/404', '/429', '/500', '/501', '/garbage'], []],
    ['payments', [...failing, '/500'], []],
    ['webhooks', [...failing, '/500'], []],
  ])('%s: %j', async (name, faults, states) => {
    for (const fault of faults) {
      const upstream = await faultyUpstream()
      const edge = await edgeTo(upstream.url, limits, { name })
      for (const path of [fault, fault, '/ok', fault, fault]) await rawExchange(edge.url, get(path))
      expect([fault, edge.states]).toEqual([fault, []])
      await rawExchange(edge.url, get(fault))
      expect([fault, edge.states]).toEqual([fault, states])
    }
  })

  test.each<[string, (port: number) => string]>([
    ['a refused connection', () => nobody],
    ['a name that does not resolve', () => 'http://nobody.invalid'],
    ['a handshake that is not answered', (port) => `https://127.0.0.1:${port}`],
  ])('%s counts on every side', async (_what, urlOf) => {
    const upstream = await rawUpstream(() => {})
    for (const name of ['swap', 'payments', 'webhooks'] as const) {
      const edge = await edgeTo(urlOf(upstream.port), limits, { name })
      for (let count = 0; count < 3; count += 1) await rawExchange(edge.url, get('/'))
      expect(edge.states).toEqual(['connections open'])
    }
  })
})

test('a request that failed in every try is one failure', async () => {
  const upstream = await faultyUpstream()
  const edge = await edgeTo(upstream.url, { breakerFailures: 2, retries: 3 })
  await rawExchange(edge.url, get('/reset'))
  expect([upstream.requests.length, edge.retries, edge.states]).toEqual([4, 3, []])
  await rawExchange(edge.url, get('/reset'))
  expect(edge.states).toEqual(['rest open'])
})

test('a request that succeeded in its second try is not a failure', async () => {
  let fail = true
  const upstream = await recordingUpstream((_request, response) => {
    if (fail) response.socket?.resetAndDestroy()
    else response.end('ok')
    fail = !fail
  })
  const edge = await edgeTo(upstream.url, { breakerFailures: 1 })
  for (let count = 0; count < 3; count += 1) {
    expect((await rawExchange(edge.url, get('/'))).status).toBe(200)
  }
  expect([edge.retries, edge.states]).toEqual([3, []])
})

test('a client that leaves is neither a failure nor a success', async () => {
  const upstream = await faultyUpstream()
  const edge = await edgeTo(upstream.url, { ...limits, headersTimeoutMs: 10_000 })
  const leave = async () => {
    const before = upstream.requests.length
    const client = new RawConnection(edge.url)
    client.write(get('/silent'))
    await until(() => upstream.requests.length > before, 'the request to arrive')
    client.socket.destroy()
    await until(() => edge.upstream.inFlight === 0, 'it to be given up')
  }
  for (let count = 0; count < 3; count += 1) await leave()
  for (const path of ['/reset', '/reset']) await rawExchange(edge.url, get(path))
  await leave()
  expect(edge.states).toEqual([])
  await rawExchange(edge.url, get('/reset'))
  expect(edge.states).toEqual(['rest open'])
})

describe('once the breaker has been open for breakerOpenMs', () => {
  async function openFor(ms: number) {
    const timers = new VirtualTime()
    const upstream = await faultyUpstream()
    const edge = await edgeTo(upstream.url, { ...inVirtualTime, retries: 5 }, { timers })
    const ask = async (path: string) => (await rawExchange(edge.url, get(path))).status
    await ask('/503')
    await timers.pass(ms)
    return { upstream, edge, ask }
  }

  test('exactly one of many tries, and no sooner', async () => {
    for (const [ms, tries] of [
      [openMs - 1, 0],
      [openMs, 1],
    ] as const) {
      const { edge, upstream } = await openFor(ms)
      const clients = Array.from({ length: 12 }, () => new RawConnection(edge.url))
      for (const client of clients) client.write(get('/silent'))
      await until(
        () => edge.outcomes.filter((one) => one === 'breaker_open').length === 12 - tries,
        'refusals',
      )
      await until(() => timesSeen(upstream, '/silent') === tries, 'the one that tries')
    }
  })

  test('all are sent when that one is answered', async () => {
    const { ask, edge } = await openFor(openMs)
    for (let count = 0; count < 3; count += 1) expect(await ask('/ok')).toBe(200)
    expect(edge.states).toEqual(['rest open', 'rest half-open', 'rest closed'])
  })

  test('all are refused again when that one fails, after a single try', async () => {
    const { ask, edge, upstream } = await openFor(openMs)
    expect([await ask('/reset'), await ask('/ok')]).toEqual([502, 503])
    expect(timesSeen(upstream, '/reset')).toBe(1)
    expect(edge.states).toEqual(['rest open', 'rest half-open', 'rest open'])
  })

  test('another one tries at once if the client of that one leaves', async () => {
    const { ask, edge, upstream } = await openFor(openMs)
    for (let count = 1; count <= 3; count += 1) {
      const client = new RawConnection(edge.url)
      client.write(get('/silent'))
      await until(() => timesSeen(upstream, '/silent') === count, 'the one that tries')
      client.socket.destroy()
      await until(() => edge.upstream.inFlight === 0, 'it to be given up')
    }
    expect(await ask('/ok')).toBe(200)
  })

  test('the answer to that one has only to begin, however slowly its client reads', async () => {
    const { ask, edge } = await openFor(openMs)
    const slow = new RawConnection(edge.url)
    slow.write(get('/stream'))
    await until(() => slow.received.length > 0, 'the answer to begin')
    expect(await ask('/ok')).toBe(200)
  })
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
      if (!names.work) callback(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' }), [])
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
      const client = new RawConnection(edge.url)
      client.write(get(path))
      await until(() => edge.upstream.inFlight === inFlight + 1, `${path} to be taken on`)
      if (path.includes('held')) await until(() => timesSeen(upstream, path) === 1, `${path} to arrive`)
      return client
    }
    const ask = (path: string) => rawExchange(edge.url, get(path))
    return {
      upstream,
      names,
      edge,
      timers,
      release,
      send,
      ask,
      targets: () => upstream.requests.map((one) => one.target),
    }
  }

  test('stop every kind of request, and one connection allows all of them again', async () => {
    const { ask, edge, names, timers, upstream } = await stage({ breakerFailures: 3 })
    names.work = false
    for (const path of ['/a', order, '/quote-of/A']) expect((await ask(path)).status).toBe(502)
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
    expect(edge.states).toEqual(['connections open', 'connections half-open', 'connections closed'])
    upstream.answer((_request, response) => response.end('ok'))
    for (const path of kinds) expect((await ask(path)).status).toBe(200)
    expect(edge.states).toHaveLength(3)
  })

  test('do not count for a kind, and failing answers do not count for connections', async () => {
    const { ask, edge, names, upstream } = await stage({ breakerFailures: 3 })
    upstream.answer((_request, response) => response.writeHead(503, { Connection: 'close' }).end())
    for (let count = 0; count < 2; count += 1) await ask('/a')
    await until(() => edge.upstream.connections.idle === 0, 'the connection to be gone')
    names.work = false
    for (let count = 0; count < 2; count += 1) await ask('/a')
    expect(edge.states).toEqual([])
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
    expect(edge.states).toEqual(['connections open', 'connections half-open', 'connections closed'])
  })

  test('of the requests that wait, an order is the first to try', async () => {
    const { names, release, send, targets, timers } = await stage()
    await send('/held')
    await send(`${order}/held`)
    const waiting = await send('/waits')
    const failing = await send(`${order}/fails`)
    const trying = await send(`${order}/tries`)
    names.work = false
    release[1]?.()
    expect((await failing.answer()).status).toBe(502)
    names.work = true
    release[0]?.()
    await timers.pass(openMs)
    for (const client of [waiting, trying]) expect((await client.answer()).status).toBe(200)
    expect(targets().slice(2)).toEqual([`${order}/tries`, '/waits'])
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
    expect([waited?.status, JSON.parse(String(waited?.body)).breaker]).toEqual([503, 'connections'])
    expect(edge.states).toEqual(['connections open', 'connections half-open', 'connections open'])
    expect([targets(), edge.upstream.inFlight]).toEqual([['/held'], 0])
  })
})

// What one client does must not close the door for others while the provider is well.
describe('an upload that the provider cuts opens no breaker', () => {
  const chunkBytes = 100_000

  /** A client that sends the head of a long request, some of its body, and then nothing more. */
  function beginUpload(url: string, path: string): RawConnection {
    const client = new RawConnection(url)
    client.write(
      `POST ${path} HTTP/1.1\r\nHost: g\r\nContent-Length: 500000\r\n\r\n${'x'.repeat(chunkBytes)}`,
    )
    return client
  }

  function sendUpload(url: string, path: string, bytes: number): RawConnection {
    const client = new RawConnection(url)
    client.write(post('x'.repeat(bytes), { path, headers: [] }))
    return client
  }

  const refuse = (status: string) => (socket: Socket) => {
    socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`)
    socket.destroySoon()
  }

  test.each<[string, (socket: Socket) => void]>([
    ['resets', (socket) => socket.resetAndDestroy()],
    ['closes', (socket) => socket.destroy()],
    ['answers 413 and closes', refuse('413 Too Large')],
    ['answers 502 and closes', refuse('502 Bad Gateway')],
    ['answers 503 and closes', refuse('503 Unavailable')],
  ])('when it %s, in the middle of it or when it is sent at once', async (_how, cut) => {
    const upstream = await rawUpstream((socket) => cut(socket))
    const edge = await edgeTo(upstream.url, { breakerFailures: 3, retries: 0 })
    for (const path of ['/kind/order', '/anything']) {
      for (let count = 0; count < 4; count += 1) await beginUpload(edge.url, path).answer()
      for (const bytes of [70_000, 300_000, 3_000_000, 10_000_000])
        await sendUpload(edge.url, path, bytes).answer()
      expect([path, edge.states]).toEqual([path, []])
    }
  })

  test('when it reads nothing more and lets it time out', async () => {
    const upstream = await rawUpstream((socket) => void socket.pause())
    const edge = await edgeTo(upstream.url, { ...limits, breakerFailures: 1, headersTimeoutMs: 300 })
    expect((await sendUpload(edge.url, '/anything', 20_000_000).answer()).status).toBe(504)
    expect(edge.states).toEqual([])
  })

  test('even if it was the one that tries: the next request tries at once', async () => {
    const timers = new VirtualTime()
    const upstream = await recordingUpstream(({ target }, response) => {
      if (target === '/fails') response.writeHead(503).end()
      else if (target === '/upload') response.socket?.resetAndDestroy()
      else response.end('ok')
    })
    const edge = await edgeTo(upstream.url, inVirtualTime, { timers })
    await rawExchange(edge.url, get('/fails'))
    await timers.pass(openMs)
    expect((await sendUpload(edge.url, '/upload', chunkBytes).answer()).status).toBe(502)
    expect(edge.states).toEqual(['rest open', 'rest half-open'])
    expect((await rawExchange(edge.url, get('/ok'))).status).toBe(200)
    expect(edge.states).toEqual(['rest open', 'rest half-open', 'rest closed'])
  })

  test('and if it is the one that tries, it keeps others waiting for breakerOpenMs, however long it takes', async () => {
    const timers = new VirtualTime()
    const upstream = await recordingUpstream(({ target }, response) => {
      if (target.endsWith('/fails')) response.writeHead(503).end()
      else response.end('ok')
    })
    const edge = await edgeTo(upstream.url, inVirtualTime, { timers })
    const statusOf = async (path: string) => (await rawExchange(edge.url, get(path))).status
    await statusOf('/kind/float-order/fails')
    await timers.pass(openMs)
    beginUpload(edge.url, '/kind/order/upload')
    await until(() => timesSeen(upstream, '/kind/order/upload') === 1, 'the upload to be the one that tries')
    await timers.pass(openMs - 1)
    expect(await statusOf('/kind/float-order')).toBe(503)
    await timers.pass(1)
    expect([await statusOf('/kind/float-order'), await statusOf('/kind/float-order')]).toEqual([200, 200])
  })

  test.each(['resets', '503'])(
    'unless its body was short, came in pieces and was sent whole: %s',
    async (how) => {
      const upstream = await recordingUpstream((_request, response) => {
        if (how === 'resets') response.socket?.resetAndDestroy()
        else response.writeHead(503).end()
      })
      const edge = await edgeTo(upstream.url, { ...limits, headersTimeoutMs: 10_000, breakerFailures: 1 })
      const client = new RawConnection(edge.url)
      client.write('POST /a HTTP/1.1\r\nHost: g\r\nContent-Length: 8\r\n\r\nhalf')
      await until(() => upstream.requests.length === 1, 'the half to arrive')
      client.write('half')
      await client.answer()
      expect(edge.states).toEqual(['rest open'])
    },
  )
})

test('an answer that the provider breaks off because its client does not read opens no breaker', async () => {
  const sockets: Socket[] = []
  const upstream = await rawUpstream((socket) => {
    sockets.push(socket)
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n')
    socket.write(Buffer.alloc(20_000_000))
  })
  const edge = await edgeTo(upstream.url, { breakerFailures: 1, retries: 0 })
  const client = new RawConnection(edge.url)
  client.socket.pause()
  client.write(get('/big'))
  await until(() => sockets.length === 1, 'the request to arrive')
  await pause(1_500)
  sockets[0]?.resetAndDestroy()
  client.socket.resume()
  await until(() => edge.outcomes.length === 1, 'its end')
  expect([edge.outcomes, edge.states]).toEqual([['http_response_incomplete'], []])
})
