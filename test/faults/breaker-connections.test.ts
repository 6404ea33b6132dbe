import type { LookupFunction } from 'node:net'
import { expect, test } from 'vitest'
import { RawConnection, rawExchange } from '../support/clients/raw-connection.ts'
import { pause, recordingUpstream, until } from '../support/gateways/between.ts'
import { edgeTo } from '../support/gateways/edge.ts'
import type { RecordingUpstream } from '../support/upstreams/recording-upstream.ts'

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: g\r\n\r\n`
const order = '/kind/float-order'
const kinds = ['/a', '/kind/order', order, '/quote-of/A']
const openMs = 300
const limits = { breakerFailures: 3, breakerOpenMs: openMs, retries: 0, connections: 2 }

/** A name that can be made not to resolve, so that connections fail when the test says so. */
function nameServer() {
  const state = { works: true, asked: 0 }
  const lookup: LookupFunction = (_name, options, callback) => {
    state.asked += 1
    if (!state.works) callback(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' }), [])
    else if (options.all) callback(null, [{ address: '127.0.0.1', family: 4 }])
    else callback(null, '127.0.0.1', 4)
  }
  return { state, lookup }
}

async function stage(changes: Partial<typeof limits> = {}) {
  const upstream = await recordingUpstream()
  const names = nameServer()
  const edge = await edgeTo(
    `http://upstream.test:${upstream.port}`,
    { ...limits, ...changes },
    { lookup: names.lookup },
  )
  return { upstream, names: names.state, edge, ask: (path: string) => rawExchange(edge.url, get(path)) }
}

const targets = (upstream: RecordingUpstream) => upstream.requests.map(({ target }) => target)

test('failures to connect stop every kind of request, and one connection allows all of them again', async () => {
  const { ask, edge, names, upstream } = await stage()
  names.works = false
  for (const path of ['/a', order, '/quote-of/A']) expect((await ask(path)).status).toBe(502)
  expect(edge.states).toEqual(['connections open'])
  const { asked } = names
  for (const path of kinds) {
    const { status, body } = await ask(path)
    expect([status, JSON.parse(body.toString()).breaker]).toEqual([503, 'connections'])
  }
  expect(names.asked).toBe(asked)
  names.works = true
  await pause(openMs + 50)
  // A connection is all that it needs: the upstream may answer what it will.
  upstream.answer((_request, response) => response.writeHead(503).end())
  await ask('/a')
  expect(edge.states).toEqual(['connections open', 'connections half-open', 'connections closed'])
  upstream.answer((_request, response) => response.end('ok'))
  for (const path of kinds) expect((await ask(path)).status).toBe(200)
  expect(edge.states).toHaveLength(3)
})

test('failures to connect do not count for a kind, and failing answers do not count for connections', async () => {
  const { ask, edge, names, upstream } = await stage({ breakerOpenMs: 1 })
  upstream.answer((_request, response) => response.writeHead(503).end())
  await ask('/a')
  await ask('/a')
  await upstream.close()
  names.works = false
  await until(() => edge.upstream.connections.idle === 0, 'the connection to be gone')
  await ask('/a')
  await ask('/a')
  expect(edge.states).toEqual([])
})

/** Requests whose path says `held` are answered when the test says so, and then their connection is closed. */
async function heldStage() {
  const all = await stage({ breakerFailures: 1 })
  const { edge, upstream } = all
  const release: (() => void)[] = []
  const arrivedAtMs = new Map<string, number>()
  upstream.answer(({ target }, response) => {
    arrivedAtMs.set(target, performance.now())
    response.setHeader('Connection', 'close')
    if (target.includes('held')) release.push(() => response.end('ok'))
    else response.end('ok')
  })
  async function send(path: string): Promise<RawConnection> {
    const { inFlight } = edge.upstream
    const client = new RawConnection(edge.url)
    client.write(get(path))
    await until(() => edge.upstream.inFlight === inFlight + 1, `${path} to be taken on`)
    if (path.includes('held')) await until(() => arrivedAtMs.has(path), `${path} to arrive`)
    return client
  }
  return { ...all, arrivedAtMs, release, send }
}

test('requests that wait when connections begin to fail are sent once one request may try again, not before', async () => {
  const { ask, arrivedAtMs, edge, names, release, send, upstream } = await heldStage()
  await send('/held')
  const clients = [await send('/waits-1'), await send('/waits-2')]
  names.works = false
  const beforeMs = performance.now()
  // It takes the connection that is for orders alone, and cannot connect.
  expect((await ask(order)).status).toBe(502)
  names.works = true
  release[0]?.()
  for (const client of clients) expect((await client.answer()).status).toBe(200)
  expect(arrivedAtMs.get('/waits-1')).toBeGreaterThanOrEqual(beforeMs + openMs)
  expect(targets(upstream)).toEqual(['/held', '/waits-1', '/waits-2'])
  expect(edge.states).toEqual(['connections open', 'connections half-open', 'connections closed'])
})

test('of the requests that wait, an order is the first to try', async () => {
  const { names, release, send, upstream } = await heldStage()
  await send('/held')
  await send(`${order}/held`)
  const waiting = await send('/waits')
  const failing = await send(`${order}/fails`)
  const trying = await send(`${order}/tries`)
  names.works = false
  release[1]?.()
  expect((await failing.answer()).status).toBe(502)
  names.works = true
  release[0]?.()
  for (const client of [waiting, trying]) expect((await client.answer()).status).toBe(200)
  expect(targets(upstream).slice(2)).toEqual([`${order}/tries`, '/waits'])
})

test('requests that wait are refused if the first to try fails as well', async () => {
  const { ask, edge, names, release, send, upstream } = await heldStage()
  await send('/held')
  const clients = [await send('/tries'), await send('/waits')]
  names.works = false
  await ask(order)
  release[0]?.()
  const [tried, waited] = await Promise.all(clients.map((client) => client.answer()))
  expect(tried?.status).toBe(502)
  expect([waited?.status, JSON.parse(String(waited?.body)).breaker]).toEqual([503, 'connections'])
  expect(edge.states).toEqual(['connections open', 'connections half-open', 'connections open'])
  expect([targets(upstream), edge.upstream.inFlight]).toEqual([['/held'], 0])
})
