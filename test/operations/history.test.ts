import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { LatencyHistogram } from '../../src/operations/latency-histogram.ts'
import { RecentCalls } from '../../src/operations/recent-calls.ts'
import { type Passed, Ring, type ShownSlots, type Sum, sums } from '../../src/operations/ring.ts'
import { createEvents } from '../../src/operations/seen-events.ts'
import { pause, recordingUpstream } from '../support/gateways/between.ts'
import { ask, floatOrder, gatewayWith, look, quote, type Viewer } from './support.ts'

const zeros = Object.fromEntries(sums.map((name) => [name, 0])) as Record<Sum, number>

function passed(requests: number, { inFlight = 0, durationMs = 0 } = {}): Passed {
  const answers = new LatencyHistogram()
  if (durationMs > 0) answers.add(durationMs)
  return { sums: { ...zeros, requests }, inFlight, answers, calls: new LatencyHistogram() }
}

describe('a ring', () => {
  test('keeps exactly what was added within its slots, in memory that never grows', () => {
    const steps = fc.array(
      fc.record({
        afterMs: fc.oneof(fc.integer({ min: 0, max: 2_500 }), fc.integer({ min: 0, max: 40_000 })),
        requests: fc.integer({ min: 0, max: 10_000 }),
        inFlight: fc.integer({ min: 0, max: 500 }),
      }),
      { minLength: 1, maxLength: 80 },
    )
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 20 }), (added, slots) => {
        const ring = new Ring({ slotMs: 1_000, slots })
        const { bytes } = ring
        const requests = new Map<number, number>()
        const inFlight = new Map<number, number>()
        let nowMs = 5_000
        for (const one of added) {
          nowMs += one.afterMs
          const slot = Math.floor(nowMs / 1_000)
          requests.set(slot, (requests.get(slot) ?? 0) + one.requests)
          inFlight.set(slot, Math.max(inFlight.get(slot) ?? 0, one.inFlight))
          ring.add(nowMs, passed(one.requests, one))
        }
        const last = Math.floor(nowMs / 1_000)
        const first = Math.max(Math.min(...requests.keys()), last - slots + 1)
        const numbers = Array.from({ length: last - first + 1 }, (_, index) => first + index)
        const shown = ring.shown()
        expect(shown.last).toBe(last)
        expect(shown.values.requests).toEqual(numbers.map((number) => requests.get(number) ?? null))
        expect(shown.values.inFlight).toEqual(numbers.map((number) => inFlight.get(number) ?? null))
        const inReach = numbers.reduce((sum, number) => sum + (requests.get(number) ?? 0), 0)
        expect(ring.total('requests')).toBe(inReach)
        expect(ring.total('requests', 1)).toBe(requests.get(last))
        expect(ring.bytes).toBe(bytes)
      }),
    )
  })

  test('has the p95 of a whole slot, not of the last second in it', () => {
    const ring = new Ring({ slotMs: 60_000, slots: 10 })
    for (let second = 0; second < 40; second += 1) ring.add(second * 1_000, passed(1, { durationMs: 100 }))
    ring.add(41_000, passed(1, { durationMs: 5 }))
    const p95Ms = ring.shown().values.p95Ms.at(-1) ?? 0
    expect(p95Ms).toBeGreaterThanOrEqual(100)
    expect(p95Ms).toBeLessThanOrEqual(110)
    ring.add(61_000, passed(1, { durationMs: 5 }))
    expect(ring.shown().values.p95Ms.at(-1)).toBeLessThan(6)
  })

  test('takes 131 KB for a quarter of an hour by the second and a day by the minute', () => {
    const bytes =
      new Ring({ slotMs: 1_000, slots: 900 }).bytes + new Ring({ slotMs: 60_000, slots: 1_440 }).bytes
    expect(bytes / 1_000).toBeCloseTo(131, 0)
  })
})

test('the calls of the last minute are forgotten after it, and the last error is not', () => {
  const calls = new RecentCalls('quotes')
  for (let call = 1; call <= 8; call += 1) calls.ended({ durationMs: 10, error: undefined }, () => 1_000)
  calls.ended({ durationMs: 100, error: '503' }, () => 1_000)
  calls.ended({ durationMs: 100, error: '503' }, () => 2_000)
  calls.ended({ durationMs: undefined, error: undefined }, () => 3_000)
  for (let second = 1; second <= 5; second += 1) calls.secondPassed()
  expect(calls.shown()).toMatchObject({
    seconds: 5,
    callsPerSecond: 2,
    // Three of eleven: the one that was not sent failed for its client too.
    failedShare: 0.2727,
    notSent: 1,
    lastError: { what: '503', at: 2_000 },
  })
  expect(calls.shown().p95Ms).toBeGreaterThanOrEqual(100)
  expect(calls.shown().p50Ms).toBeLessThan(12)
  for (let second = 6; second <= 60; second += 1) calls.secondPassed()
  expect(calls.shown()).toMatchObject({
    callsPerSecond: 0,
    failedShare: null,
    notSent: 0,
    p95Ms: null,
    lastError: { what: '503', at: 2_000 },
  })
})

test('requests that are not sent count as failed', async () => {
  const upstream = await recordingUpstream()
  const gateway = await gatewayWith({
    SWAP_BASE_URL: upstream.url,
    breakerFailures: 1,
    breakerOpenMs: 600_000,
  })
  const askOnce = async () => (await fetch(`${gateway.url}/v3/assets`)).text()
  for (let good = 1; good <= 4; good += 1) await askOnce()
  upstream.answer((_request, response) => response.writeHead(503).end())
  await expect.poll(askOnce, { timeout: 15_000 }).toContain('breaker-open')
  for (let refused = 2; refused <= 15; refused += 1) await askOnce()
  const failed = upstream.requests.length - 4 + 15
  const { body } = await ask(`${gateway.operationsUrl}/status`)
  const [{ traffic }] = JSON.parse(body).upstreams
  const failedShare = Number((failed / (failed + 4)).toFixed(4))
  expect(traffic).toContainEqual(expect.objectContaining({ traffic: 'rest', failedShare, notSent: 15 }))
})

test('the last two hundred events are kept', () => {
  const events = createEvents(() => 1_000)
  for (let number = 1; number <= 1_000; number += 1) events.add('note', `${number} ${'x'.repeat(1_000)}`)
  const kept = events.after(0)
  expect(kept).toHaveLength(200)
  expect(kept.at(-1)?.text).toMatch(/^1000 x{295}$/)
  expect(events.after(998).map(({ id }) => id)).toEqual([999, 1_000])
})

test('an event that says the same of a later moment takes the place of the one before', () => {
  const events = createEvents(() => 1_000)
  events.add('warn', '1 pair')
  const second = events.add('warn', '2 pairs')
  events.add('note', 'other')
  events.add('warn', '3 pairs', second)
  expect(events.after(0).map(({ text }) => text)).toEqual(['1 pair', 'other', '3 pairs'])
  expect(events.after(second).at(-1)).toMatchObject({ replaces: second })
})

describe('the history of a gateway', () => {
  const sumOf = (slots: ShownSlots, name: 'requests' | 'quotes' | 'hits' | 'saved') =>
    slots.values[name].reduce<number>((sum, count) => sum + (count ?? 0), 0)

  test('goes back to before the page was opened', async () => {
    const gateway = await gatewayWith({ ORDER_EXPIRY_MARGIN_MS: 60_000 })
    for (let request = 1; request <= 5; request += 1) await quote(gateway)
    await floatOrder(gateway)
    await pause(2_100)
    const viewer = await look(gateway.operationsUrl)
    await expect.poll(() => viewer.frames.length, { timeout: 10_000 }).toBeGreaterThan(0)
    const { history, health } = (viewer.frames[0] as Viewer['frames'][number]).data as unknown as {
      history: { seconds: ShownSlots; minutes: ShownSlots }
      health: { savings: object; upstreams: { name: string; traffic: object[] }[] }
    }
    await viewer.leave()
    for (const slots of [history.seconds, history.minutes]) {
      expect(sumOf(slots, 'requests')).toBe(6)
      expect([sumOf(slots, 'quotes'), sumOf(slots, 'hits'), sumOf(slots, 'saved')]).toEqual([5, 4, 4])
    }
    expect(history.seconds.values.requests.length).toBeGreaterThanOrEqual(2)
    expect(health.savings).toMatchObject({
      quotes: 5,
      callsSaved: 4,
      expiredOrdersStopped: 1,
      orders: 1,
      ordersMatched: 1,
    })
    const quotes = health.upstreams.find(({ name }) => name === 'swap')?.traffic[0]
    expect(quotes).toMatchObject({ traffic: 'quotes', failedShare: 0, notSent: 0, p95Ms: expect.any(Number) })
    const { body } = await ask(`${gateway.operationsUrl}/history`)
    expect(sumOf(JSON.parse(body).minutes, 'requests')).toBe(6)
  })
})
