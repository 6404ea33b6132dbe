import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createUpstreamClock } from '../../src/quotes/clock-offset.ts'

const startMs = Date.UTC(2025, 10, 20, 15, 17, 21)
const dayMs = 86_400_000

/** Not fast-check's: a day has more steps than it would care to shrink. */
function createRandom(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

/** What a server whose cached Date is up to `lagMs` old writes at this instant of its own clock. */
function dateHeaderAt(providerMs: number, lagMs: number): string {
  return new Date(Math.floor((providerMs - lagMs) / 1_000) * 1_000).toUTCString()
}

interface Day {
  offsetMs: number
  /** What the provider's clock gains in a second, in microseconds. */
  driftPpm?: number
  lagMs: number
}

interface Moment {
  nowMs: number
  providerMs: number
  latestMs: number
  earliestMs: number
}

/** A day of answers every few seconds, one in fifty slow, a quiet spell now and then. */
function liveThroughDay({ offsetMs, driftPpm = 0, lagMs }: Day, check: (moment: Moment) => void): void {
  const random = createRandom(7)
  const clock = createUpstreamClock()
  const providerAt = (ms: number) => ms + offsetMs + ((ms - startMs) * driftPpm) / 1e6
  let nowMs = startMs
  while (nowMs < startMs + dayMs) {
    const sentAtMs = nowMs
    const writtenAtMs = sentAtMs + random(random(50) === 0 ? 9_000 : 200)
    const receivedAtMs = writtenAtMs + random(200)
    const dateHeader = dateHeaderAt(providerAt(writtenAtMs), random(lagMs + 1))
    clock.observe({ dateHeader, hasAge: false, sentAtMs, receivedAtMs })
    nowMs = receivedAtMs + random(random(200) === 0 ? 900_000 : 5_000)
    for (const atMs of [receivedAtMs, nowMs]) {
      check({
        nowMs: atMs,
        providerMs: providerAt(atMs),
        latestMs: clock.latestMs(atMs),
        earliestMs: clock.earliestMs(atMs),
      })
    }
  }
}

describe('through a whole day', () => {
  it.each([0, 100, 250])('equal clocks stay exactly equal with a Date that lags by up to %d ms', (lagMs) => {
    let moments = 0
    let differing = 0
    liveThroughDay({ offsetMs: 0, lagMs }, ({ nowMs, latestMs, earliestMs }) => {
      moments += 1
      if (latestMs !== nowMs || earliestMs !== nowMs) differing += 1
    })
    expect(moments).toBeGreaterThan(5_000)
    expect(differing).toBe(0)
  })

  it.each([
    { offsetMs: 30_000, lagMs: 250 },
    { offsetMs: -30_000, lagMs: 250 },
    { offsetMs: 3_600_000, lagMs: 0 },
    { offsetMs: -3_600_000, lagMs: 100 },
    { offsetMs: 30_000, driftPpm: 50, lagMs: 200 },
    { offsetMs: -30_000, driftPpm: -50, lagMs: 200 },
  ])('with %o no quote outlives its expiry, no live order is refused, and 1.5 s are lost at most', (day) => {
    let servedTooLateMs = 0
    let refusedTooEarlyMs = 0
    let lostMs = 0
    let moments = 0
    liveThroughDay(day, ({ providerMs, latestMs, earliestMs }) => {
      servedTooLateMs = Math.max(servedTooLateMs, providerMs - latestMs)
      refusedTooEarlyMs = Math.max(refusedTooEarlyMs, earliestMs - providerMs)
      moments += 1
      lostMs = Math.max(lostMs, latestMs - providerMs)
    })
    expect(moments).toBeGreaterThan(5_000)
    expect(servedTooLateMs).toBe(0)
    expect(refusedTooEarlyMs).toBe(0)
    expect(lostMs).toBeLessThanOrEqual(1_500)
  })
})

const answer = fc.record({
  gapMs: fc.oneof(fc.nat(3_000), fc.nat(120_000)),
  uplinkMs: fc.oneof(fc.nat(300), fc.nat(12_000)),
  downlinkMs: fc.oneof(fc.nat(300), fc.nat(12_000)),
  lagMs: fc.nat(250),
})
const answers = fc.array(answer, { minLength: 1, maxLength: 200 })

/** Answers overlap: only the moments of receiving are in order. */
function replay(
  offsetMs: number,
  list: readonly (typeof answer extends fc.Arbitrary<infer T> ? T : never)[],
) {
  const clock = createUpstreamClock()
  let receivedAtMs = startMs
  return list.map(({ gapMs, uplinkMs, downlinkMs, lagMs }) => {
    receivedAtMs += gapMs
    const writtenAtMs = receivedAtMs - downlinkMs
    const dateHeader = dateHeaderAt(writtenAtMs + offsetMs, lagMs)
    clock.observe({ dateHeader, hasAge: false, sentAtMs: writtenAtMs - uplinkMs, receivedAtMs })
    return { ...clock.offset(), latestMs: clock.latestMs(receivedAtMs) - receivedAtMs }
  })
}

it('never excludes the true offset, however slow the answers', () => {
  fc.assert(
    fc.property(fc.integer({ min: -120_000, max: 120_000 }), answers, (offsetMs, list) => {
      for (const { lowMs, highMs } of replay(offsetMs, list)) {
        expect(lowMs).toBeLessThanOrEqual(offsetMs)
        expect(highMs).toBeGreaterThanOrEqual(offsetMs)
      }
    }),
    { numRuns: 500 },
  )
})

it('never moves equal clocks, however slow the answers', () => {
  fc.assert(
    fc.property(answers, (list) => {
      for (const { estimateMs, latestMs } of replay(0, list)) {
        expect(estimateMs).toBe(0)
        expect(latestMs).toBe(0)
      }
    }),
    { numRuns: 500 },
  )
})
