import { EventEmitter } from 'node:events'
import { expect, type Mock, onTestFinished, test, vi } from 'vitest'
import { completeClock } from '../../src/clock.ts'
import { createLiveStream } from '../../src/operations/live-stream.ts'
import type { OperationsParts } from '../../src/operations/parts.ts'
import { Recent } from '../../src/operations/recent.ts'
import { startRecorder } from '../../src/operations/recorder.ts'
import type { Slots } from '../../src/operations/schemas.ts'
import type { Exchange } from '../../src/server/exchange.ts'
import { createTestClock, giveQuote, quoteBody } from '../support/clients/quotes.ts'
import { RawConnection } from '../support/clients/raw-connection.ts'
import {
  gatewayWith,
  pause,
  recordingUpstream,
  until,
} from '../support/gateways/between.ts'
import { startGateway } from '../support/gateways/gateway.ts'
import { floatOrder, framesOf, helloOf, look, production, quote } from './support.ts'

const token = 'correct-horse-battery'
const withToken = { Authorization: `Bearer ${token}` }

interface Tick {
  minutes: Slots
  requests: {
    path: string
    client: string
    application: string
    cacheStatus: string | null
    why: string
  }[]
  quotes: { pair: string; hits: number; leftMs: number; drift: number | null }[]
  refusals: { pair: string }[]
  skipped: number
}

const ticksOf = (viewer: { frames: { event: string; data: object }[] }) =>
  viewer.frames.filter(({ event }) => event === 'tick').map(({ data }) => data as Tick)

/** What was counted in the minutes that a tick shows. */
function countedIn({ minutes: { values } }: Tick): Record<string, number> {
  const sum = (counts: readonly (number | null)[]) =>
    counts.reduce<number>((total, count) => total + (count ?? 0), 0)
  return Object.fromEntries(
    Object.entries(values).map(([name, counts]) => [name, sum(counts)]),
  )
}

test('begins with the whole state, then sends what is new, without keys and the query of a payments path', async () => {
  const gateway = await gatewayWith()
  await quote(gateway)
  const viewer = await look(gateway.operationsUrl)
  expect(await helloOf(viewer)).toMatchObject({
    access: 'full',
    quotes: [{ pair: 'ETH_USDC' }],
  })
  await quote(gateway)
  await quote(gateway)
  await until(
    () => ticksOf(viewer).some(({ requests }) => requests.length > 0),
    'a tick with requests',
  )
  const tick = ticksOf(viewer).find(({ requests }) => requests.length > 0)
  const count = () => countedIn(ticksOf(viewer).at(-1) as Tick)
  await until(() => count().requests === 3, 'the count')
  expect(count()).toMatchObject({ quotes: 3, hits: 2, saved: 2 })
  await until(() => ticksOf(viewer).at(-1)?.quotes[0]?.hits === 2, 'the hits')
  expect(ticksOf(viewer).at(-1)?.quotes).toMatchObject([{ pair: 'ETH_USDC', hits: 2 }])
  expect(tick?.requests[0]).toMatchObject({
    path: '/v3/pairs/ETH_USDC/quotes?amount=0.1',
    client: '127.0.0.x',
    application: 'demo',
    cacheStatus: expect.stringContaining('hit'),
  })
  const headers = { Authorization: 'Bearer pay-secret' }
  await fetch(`${gateway.url}/checkouts?email=a%40b.example`, { headers })
  const text = () => JSON.stringify(viewer.frames)
  await until(() => text().includes('"/checkouts"'), 'the payment')
  expect(text()).not.toMatch(/b\.example|pay-secret/)
  await viewer.leave()
})

test('counts a hit of a quote only when it is served, not when it is found expired, and cuts a long pair', async () => {
  const clock = createTestClock()
  const upstream = await recordingUpstream()
  const gateway = await gatewayWith({ SWAP_BASE_URL: upstream.url }, { clock })
  const offerUntil = (expiry: number) =>
    upstream.answer((_request, response) =>
      giveQuote(response, quoteBody({ expiry, pairId: 'P'.repeat(1_000) }), [
        'Date',
        new Date(clock.nowMs()).toUTCString(),
      ]),
    )
  offerUntil(clock.nowMs() + 2_000)
  await quote(gateway)
  clock.advance(2_100)
  // Each look-up now finds the expired quote, and the provider has no other.
  upstream.answer((_request, response) => response.writeHead(404).end())
  for (let look = 1; look <= 3; look += 1) await quote(gateway).catch(() => {})
  offerUntil(clock.nowMs() + 600_000)
  await quote(gateway)
  await quote(gateway)
  const viewer = await look(gateway.operationsUrl)
  expect(await helloOf(viewer)).toMatchObject({
    quotes: [{ pair: `${'P'.repeat(200)}…`, hits: 1 }],
  })
  await viewer.leave()
})

test('sends each refusal, with its reason, to each viewer once, whenever they connected', async () => {
  const gateway = await gatewayWith({
    ...production,
    ADMIN_TOKEN: token,
    ORDER_UNKNOWN_QUOTE: 'refuse',
  })
  const first = await look(gateway.operationsUrl, withToken)
  await until(() => ticksOf(first).length > 0, 'a second to begin')
  // Hits are a share of all requested quotes, so one that failed is counted too.
  await quote(gateway)
  await floatOrder(gateway)
  const second = await look(gateway.operationsUrl, withToken)
  await until(() => ticksOf(second).length > 1, 'the second to end')
  for (const { frames } of [first, second]) {
    const told = frames.flatMap(({ data }) => data.refusals as object[])
    expect(told).toMatchObject([{ pair: 'ETH_USDC' }])
  }
  const described = ticksOf(first).flatMap(({ requests }) => requests)
  expect(described.map(({ why }) => why)).toContainEqual(
    expect.stringContaining('quote-unknown'),
  )
  await until(() => countedIn(ticksOf(first).at(-1) as Tick).refused === 1, 'the count')
  expect(countedIn(ticksOf(first).at(-1) as Tick)).toMatchObject({
    requests: 2,
    quotes: 1,
    hits: 0,
  })
  await Promise.all([first.leave(), second.leave()])
})

test('accepts two hundred viewers, answers the next that there are too many, and frees their places', async () => {
  const { operationsUrl } = await gatewayWith()
  /** A place is free a moment after its viewer has left. */
  async function lookWhenFree(): ReturnType<typeof look> {
    const viewer = await look(operationsUrl).catch(() => undefined)
    return viewer ?? pause(50).then(lookWhenFree)
  }
  for (let round = 1; round <= 3; round += 1) {
    const viewers = await Promise.all(Array.from({ length: 200 }, lookWhenFree))
    await expect(look(operationsUrl)).rejects.toThrow('503')
    await Promise.all(viewers.map((viewer) => viewer.leave()))
  }
})

test('refuses pages of another origin, and takes no place for a HEAD', async () => {
  const { operationsUrl } = await gatewayWith()
  await expect(look(operationsUrl, { 'Sec-Fetch-Site': 'cross-site' })).rejects.toThrow(
    '403',
  )
  const { status, headers } = await fetch(`${operationsUrl}/stream`, { method: 'HEAD' })
  expect([status, headers.get('content-type')]).toEqual([
    200,
    'text/event-stream; charset=utf-8',
  ])
})

test('does not hold up the shutdown, even if a viewer has stopped reading', async () => {
  async function msToClose(): Promise<number> {
    const gateway = await startGateway()
    const viewer = await look(gateway.operationsUrl)
    const head = 'GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n'
    new RawConnection(gateway.operationsUrl, head).socket.pause()
    await framesOf(viewer, 2)
    const startedAt = performance.now()
    await gateway.close()
    const tookMs = performance.now() - startedAt
    await viewer.leave()
    return tookMs
  }
  // What holds it up is cut after two seconds, each time. A loaded machine is late sometimes.
  await expect.poll(msToClose).toBeLessThan(1_800)
})

type FakeResponse = EventEmitter &
  Record<'writeHead' | 'write' | 'destroy', Mock<(text: string) => void>> & {
    writableNeedDrain: boolean
  }

/** A stream of events alone, with this many viewers. */
function aStream(viewers: number) {
  const recent = new Recent(completeClock({ nowMs: () => 1_000 }))
  const shown = {
    hello: vi.fn(),
    tick: vi.fn((_level: unknown, passed: object) => passed),
  }
  const live = createLiveStream(shown as never, recent)
  const responses = Array.from({ length: viewers }, () => {
    const own = {
      writeHead: vi.fn(),
      write: vi.fn(),
      destroy: vi.fn(),
      writableNeedDrain: false,
    }
    return Object.assign(new EventEmitter(), own) as FakeResponse
  })
  for (const response of responses) live.join(response as never, 'full')
  return { recent, shown, live, responses }
}

test('once a second the counters are read, and what happened is listed while a console is open', () => {
  vi.useFakeTimers()
  onTestFinished(() => {
    vi.useRealTimers()
  })
  const { recent, shown, live, responses } = aStream(2)
  let counted = 0
  const history = { tick: () => (counted += 1) }
  const metrics = {
    requestCounts: () => ({}),
    quoteCounts: () => ({ lookups: {}, orders: {} }),
  }
  const rest = { outages: { look() {} }, upstreams: {}, exchanges: {} }
  onTestFinished(
    startRecorder(
      { recent, history, metrics, ...rest } as unknown as OperationsParts,
      live,
    ),
  )
  vi.advanceTimersByTime(3_000)
  for (const { write } of responses) expect(write).toHaveBeenCalledTimes(4)
  responses[0]?.emit('close')
  expect(recent.isWatched).toBe(true)
  responses[1]?.emit('close')
  const listed = shown.tick.mock.calls.length
  vi.advanceTimersByTime(60_000)
  expect(shown.tick).toHaveBeenCalledTimes(listed)
  expect([recent.isWatched, vi.getTimerCount(), counted]).toEqual([false, 1, 63])
})

test('a viewer that stopped reading for some seconds misses nothing but what the lists have no room for', () => {
  const { recent, live, responses } = aStream(2)
  const [slow, fast] = responses as [FakeResponse, FakeResponse]
  const eventsOf = ({ write }: FakeResponse) =>
    write.mock.calls.flatMap(([text]) => (/"text":"(.*?)"/g.exec(text) ?? []).slice(1))
  slow.writableNeedDrain = true
  for (const text of ['one', 'two', 'three']) {
    recent.addEvent('note', text)
    live.tick()
  }
  expect(eventsOf(fast)).toEqual(['one', 'two', 'three'])
  expect(eventsOf(slow)).toEqual([])
  slow.writableNeedDrain = false
  live.tick()
  expect(slow.write.mock.calls.at(-1)?.[0]).toMatch(/one.*two.*three/)
  live.tick()
  expect(slow.write.mock.calls.at(-1)?.[0]).not.toContain('three')
  slow.writableNeedDrain = true
  for (let missed = 1; missed <= 30; missed += 1) live.tick()
  expect(slow.destroy).not.toHaveBeenCalled()
  live.tick()
  expect(slow.destroy).toHaveBeenCalled()
})

test('of a flood every request is counted, and some are described', () => {
  let atMs = 1_000
  const recent = new Recent(completeClock({ nowMs: () => atMs }))
  const exchange = {
    area: 'swap',
    id: 'r',
    reading: {},
    timeSpent: () => ({ queueMs: null }),
    request: { rawHeaders: [], socket: {} },
  } as unknown as Exchange
  recent.watch(true)
  const { mark } = recent
  for (let request = 0; request < 5_000; request += 1)
    recent.requestEnded(exchange, 200, 1)
  const passed = recent.after(mark)
  expect(passed.requests).toHaveLength(60)
  expect(passed.skipped).toBe(4_940)
  for (let second = 0; second < 100; second += 1) {
    atMs += 1_000
    for (let request = 0; request < 60; request += 1)
      recent.requestEnded(exchange, 500, 1)
  }
  expect(recent.after(mark).skipped).toBe(5_000 + 6_000 - 200)
  expect(recent.requests).toHaveLength(200)
  expect(recent.failures).toHaveLength(50)
  recent.watch(false)
  expect(recent.requests).toEqual([])
})
