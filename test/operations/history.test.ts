import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { completeClock } from '../../src/clock.ts'
import { History } from '../../src/operations/history.ts'
import { Recent } from '../../src/operations/recent.ts'
import type { Status } from '../../src/operations/schemas.ts'
import { asking, giveQuote } from '../support/clients/quotes.ts'
import { gatewayWith, pause, recordedGateway } from '../support/gateways/between.ts'
import { floatOrder, nothingCounted, quote, statusOf } from './support.ts'

/** A history with a clock that stands still until `pass` is called. */
function aHistory() {
  let atMs = 5_000_000
  const history = new History(completeClock({ nowMs: () => atMs }))
  let requests = 0
  return {
    history,
    pass(ms: number): void {
      atMs += ms
    },
    /** What the counters say a second: so many requests more. */
    tick(more = 0, inFlight = 0): void {
      requests += more
      history.tick({ ...nothingCounted, requests, orders: requests, inFlight })
    },
    answer(durationMs: number, id = ''): void {
      history.requestEnded({ area: 'quote', request: {}, id } as never, 200, durationMs)
    },
    call(
      outcome: 'answered' | 'failed-status' | 'connection_limit_reached',
      durationMs = 0,
    ): void {
      history.callEnded(
        { upstream: 'swap', traffic: 'quotes', status: 503 },
        outcome,
        durationMs,
      )
    },
  }
}

describe('the sparklines', () => {
  const steps = fc.array(
    fc.record({
      afterMs: fc.oneof(
        fc.integer({ min: 0, max: 25_000 }),
        fc.integer({ min: 0, max: 40_000_000 }),
      ),
      requests: fc.integer({ min: 0, max: 10_000 }),
      inFlight: fc.integer({ min: 1, max: 500 }),
    }),
    { minLength: 1, maxLength: 12 },
  )

  test('have exactly what was counted in each slot of 15 min, and nothing of the time before the start', () => {
    fc.assert(
      fc.property(steps, (added) => {
        const { history, pass, tick } = aHistory()
        expect(history.sparklines).toMatchObject({ slotMs: 10_000, requests: [] })
        let atMs = 0
        const seen = added.map((one) => {
          atMs += one.afterMs
          pass(one.afterMs)
          tick(one.requests, one.inFlight)
          return { ...one, atMs }
        })
        const last = Math.floor(atMs / 10_000)
        const first = Math.max(0, last - 89)
        const requests = Array.from({ length: last - first + 1 }, () => 0)
        const inFlight = [...requests]
        for (const one of seen) {
          const place = Math.floor(one.atMs / 10_000) - first
          if (place < 0) continue
          requests[place] = (requests[place] ?? 0) + one.requests
          inFlight[place] = Math.max(inFlight[place] ?? 0, one.inFlight)
        }
        expect(history.sparklines.requests).toEqual(requests)
        expect(history.sparklines.inFlight).toEqual(inFlight)
      }),
      { numRuns: 15 },
    )
  })

  test('have the p95 of the minute that ends with a slot, or none where the process slept', () => {
    const { history, pass, tick, answer } = aHistory()
    for (let second = 0; second < 40; second += 1) {
      answer(100)
      tick()
      pass(1_000)
    }
    answer(5)
    tick()
    const p95 = history.sparklines.p95Ms.at(-1)
    expect(p95).toBeGreaterThanOrEqual(100)
    expect(p95).toBeLessThanOrEqual(110)
    pass(60_000)
    tick()
    answer(5)
    tick()
    expect(history.sparklines.p95Ms.at(-1)).toBeLessThan(6)
    const slept = history.sparklines.p95Ms.slice(-6)
    expect(slept.map((one) => one !== null)).toEqual([
      false,
      false,
      false,
      false,
      false,
      true,
    ])
  })
})

test('orders are counted over half an hour and over a day, to the minute, also where the process slept', () => {
  const steps = fc.array(
    fc.record({
      minutes: fc.oneof(fc.integer({ min: 0, max: 3 }), fc.integer({ min: 0, max: 900 })),
      orders: fc.integer({ min: 0, max: 1_000 }),
    }),
    { minLength: 1, maxLength: 12 },
  )
  fc.assert(
    fc.property(steps, (added) => {
      const { history, pass, tick } = aHistory()
      tick()
      let minute = 0
      const seen = added.map(({ minutes, orders }) => {
        minute += minutes
        pass(minutes * 60_000)
        tick(orders)
        return { minute, orders }
      })
      for (const [reach, counted] of [
        [30, history.ordersOf(30).orders],
        [1_440, history.ordersOf().orders],
      ] as const) {
        const isWithin = (one: { minute: number }) => one.minute > minute - reach
        const within = seen.filter(isWithin)
        expect(counted).toBe(within.reduce((sum, { orders }) => sum + orders, 0))
      }
    }),
    { numRuns: 30 },
  )
})

test('a rate is of the time that was counted, also before the tick that ends a slice', () => {
  const { history, pass, tick, call } = aHistory()
  for (let second = 0; second <= 65; second += 1) {
    for (let calls = 1; calls <= 6; calls += 1) call('answered', 10)
    tick(100)
    pass(1_000)
  }
  const rates = () => [
    history.recent.requestsPerSecond,
    history.trafficOf('swap')[0]?.callsPerSecond ?? 0,
  ]
  for (let second = 66; second <= 90; second += 1) {
    // The slice is over, and the tick that ends it comes half a second later.
    const [requests = 0, calls = 0] = rates()
    expect(requests, `second ${second}`).toBeGreaterThan(90)
    expect(requests, `second ${second}`).toBeLessThan(112)
    expect(calls, `second ${second}`).toBeGreaterThan(5.4)
    expect(calls, `second ${second}`).toBeLessThan(6.6)
    for (let more = 1; more <= 6; more += 1) call('answered', 10)
    pass(500)
    tick(100)
    pass(500)
  }
})

test('a call counts however long it took, and none fails twice', () => {
  const { history, tick, call } = aHistory()
  tick()
  call('answered', 40)
  for (let failed = 1; failed <= 3; failed += 1) call('failed-status', 250_000)
  expect(history.trafficOf('swap')[0]).toMatchObject({ failedShare: 0.75 })
})

test('the calls of the last minute are forgotten after it, and the last error is not', () => {
  const { history, pass, tick, call } = aHistory()
  tick()
  for (let calls = 1; calls <= 8; calls += 1) call('answered', 10)
  call('failed-status', 100)
  pass(1_000)
  history.callRefused('swap', 'quotes', 'breaker_open')
  call('connection_limit_reached')
  call('failed-status', 100)
  pass(4_000)
  tick()
  const quotes = () =>
    history.trafficOf('swap').find(({ traffic }) => traffic === 'quotes')
  expect(quotes()).toMatchObject({
    seconds: 5,
    callsPerSecond: 2,
    // Four of twelve: those that were not sent failed for their callers too.
    failedShare: 0.3333,
    notSent: 2,
    lastError: { what: '503', at: 5_001_000 },
  })
  expect(quotes()?.p95Ms).toBeGreaterThanOrEqual(100)
  expect(quotes()?.p50Ms).toBeLessThan(12)
  pass(55_000)
  tick()
  expect(quotes()).toMatchObject({
    callsPerSecond: 0,
    failedShare: null,
    notSent: 0,
    p95Ms: null,
    lastError: { what: '503', at: 5_001_000 },
  })
})

test('the slowest request is forgotten within a minute, and the next slowest takes its place', () => {
  const { history, pass, tick, answer } = aHistory()
  const passed = (ms: number) => {
    pass(ms)
    tick()
  }
  expect(history.slowest).toBeNull()
  answer(900, 'slow')
  passed(20_000)
  answer(500, 'faster')
  answer(100, 'fastest')
  expect(history.slowest).toMatchObject({
    requestId: 'slow',
    durationMs: 900,
    agoMs: 20_000,
  })
  passed(41_000)
  expect(history.slowest?.requestId).toBe('faster')
  passed(60_000)
  expect(history.slowest).toBeNull()
})

describe('events', () => {
  const aRecent = () => new Recent(completeClock({ nowMs: () => 1_000 }))

  test('are kept, the last fifty of them, the newest first', () => {
    const recent = aRecent()
    for (let count = 1; count <= 1_000; count += 1)
      recent.addEvent('note', `${count} ${'x'.repeat(1_000)}`)
    expect(recent.events).toHaveLength(50)
    expect(recent.events[0]?.text).toMatch(/^1000 x{295}$/)
    expect(recent.events.at(-1)?.id).toBe(951)
  })

  test('that say the same of a later moment take the place of the one before', () => {
    const recent = aRecent()
    const texts = () => recent.events.map(({ text }) => text)
    recent.addEvent('warn', '1 pair')
    const second = recent.addEvent('warn', '2 pairs')
    recent.addEvent('note', 'other')
    const third = recent.addEvent('warn', '3 pairs', second)
    expect(texts()).toEqual(['3 pairs', 'other', '1 pair'])
    recent.addEvent('warn', '4 pairs', third)
    expect(texts()).toEqual(['4 pairs', 'other', '1 pair'])
  })
})

describe('the history of a gateway', () => {
  const sumOf = (counts: readonly number[]) =>
    counts.reduce((sum, count) => sum + count, 0)

  test('goes back to before the page was opened', async () => {
    const gateway = await gatewayWith({ ORDER_EXPIRY_MARGIN_MS: 60_000 })
    for (let request = 1; request <= 5; request += 1) await quote(gateway)
    await floatOrder(gateway)
    const status = async () => (await statusOf(gateway)) as Status
    await expect.poll(async () => sumOf((await status()).sparklines.requests)).toBe(6)
    const { sparklines, upstreams, ...said } = await status()
    expect([sumOf(sparklines.quotes), sumOf(sparklines.hits)]).toEqual([5, 4])
    const savings = {
      quotes: 5,
      callsSaved: 4,
      expiredOrdersStopped: 1,
      orders: 1,
      ordersMatched: 1,
    }
    expect(said.savings).toEqual(savings)
    const quotes = upstreams.find(({ name }) => name === 'swap')?.traffic[0]
    expect(quotes).toMatchObject({
      traffic: 'quotes',
      failedShare: 0,
      notSent: 0,
      p95Ms: expect.any(Number),
    })
  })

  test("shows the slowest request with its trace, and without the caller's own texts", async () => {
    const { gateway } = await recordedGateway(
      { ADMIN_TOKEN: 'correct-horse-battery' },
      async ({ target }, response) => {
        if (target.includes('amount=9')) await pause(200)
        giveQuote(response)
      },
    )
    const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
    expect(await statusOf(gateway)).toMatchObject({ slowest: null })
    await asking(gateway.url, '9', [
      'App-Name',
      'wallet',
      'traceparent',
      `00-${traceId}-00f067aa0ba902b7-01`,
    ])
    const slowest = {
      area: 'quote',
      method: 'GET',
      status: 200,
      traceId,
      sampled: false,
      durationMs: expect.any(Number),
      agoMs: expect.any(Number),
      requestId: expect.stringMatching(/./),
    }
    const withToken = { Authorization: 'Bearer correct-horse-battery' }
    expect((await statusOf(gateway, withToken)).slowest).toEqual(slowest)
    // A caller may have chosen both ids.
    expect((await statusOf(gateway)).slowest).toEqual({
      ...slowest,
      traceId: null,
      requestId: '',
    })
  })
})
