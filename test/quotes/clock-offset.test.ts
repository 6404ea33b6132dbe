import { describe, expect, it } from 'vitest'
import { silentLogger } from '../../src/process/logger.ts'
import { createUpstreamClock, type UpstreamClock } from '../../src/quotes/clock-offset.ts'
import { createProviderClock } from '../../src/quotes/provider-clock.ts'

const startMs = Date.UTC(2025, 10, 20, 15, 17, 21)
const httpDate = (ms: number) => new Date(ms).toUTCString()

interface Answer {
  sentAtMs: number
  /** Theirs minus ours. */
  offsetMs: number
  latencyMs?: number
  hasAge?: boolean
}

/** An answer whose Date was written half-way. */
function observe(
  clock: UpstreamClock,
  { sentAtMs, offsetMs, latencyMs = 100, hasAge = false }: Answer,
): void {
  const dateHeader = httpDate(sentAtMs + latencyMs / 2 + offsetMs)
  clock.observe({ dateHeader, hasAge, sentAtMs, receivedAtMs: sentAtMs + latencyMs })
}

const unknown = { lowMs: 0, highMs: 0, estimateMs: 0 }

describe('what one answer tells', () => {
  it('is unknown before the first answer', () => {
    const clock = createUpstreamClock()
    expect(clock.offset()).toEqual(unknown)
    expect(clock.latestMs(startMs)).toBe(startMs)
    expect(clock.earliestMs(startMs)).toBe(startMs)
  })

  it('bounds the offset by its second, the time it was under way, and 250 ms on both sides', () => {
    const clock = createUpstreamClock()
    const [sentAtMs, receivedAtMs] = [startMs + 400, startMs + 500]
    clock.observe({ dateHeader: httpDate(startMs + 30_000), hasAge: false, sentAtMs, receivedAtMs })
    expect(clock.offset()).toEqual({ lowMs: 29_250, highMs: 30_850, estimateMs: 30_050 })
    expect(clock.latestMs(receivedAtMs)).toBe(receivedAtMs + 30_850)
    expect(clock.earliestMs(receivedAtMs)).toBe(receivedAtMs + 29_250)
  })

  it('is that the clocks are equal when they may be, exactly', () => {
    const clock = createUpstreamClock()
    observe(clock, { sentAtMs: startMs + 123, offsetMs: 400 })
    expect(clock.offset().estimateMs).toBe(0)
    expect(clock.latestMs(startMs + 777)).toBe(startMs + 777)
    expect(clock.earliestMs(startMs + 777)).toBe(startMs + 777)
  })

  it('is nothing if it came from a cache', () => {
    const clock = createUpstreamClock()
    observe(clock, { sentAtMs: startMs, offsetMs: -30_000, hasAge: true })
    expect(clock.offset()).toEqual(unknown)
  })

  it.each([
    undefined,
    '',
    'Invalid Date',
    'now',
    '0',
    '1763651841',
    '2025-11-20T15:17:21Z',
    'Fri, 20 Nov 2025 15:17:21 GMT',
    'Thu, 20 Nov 2025 15:17:21 UTC',
    'Thu, 20 Nov 2025 15:17:21',
    'Thu, 20 Nov 2025 15:17:60 GMT',
    'Sun, 31 Feb 2025 15:17:21 GMT',
    'Thu, 20 Nov 2025  15:17:21 GMT',
    'Thu, 20 Nov 2025 15:17:21 GMT, Thu, 20 Nov 2025 15:17:21 GMT',
  ])('is nothing when its Date is %j', (dateHeader) => {
    const clock = createUpstreamClock()
    clock.observe({
      dateHeader,
      hasAge: false,
      sentAtMs: startMs - 9_000_000,
      receivedAtMs: startMs - 8_999_900,
    })
    expect(clock.offset()).toEqual(unknown)
  })

  it.each([
    'Thursday, 20-Nov-25 15:17:21 GMT',
    'Thu Nov 20 15:17:21 2025',
    'Thu, 20 Nov 2025 15:17:21 +0000',
    'Thu, 20 Nov 2025 17:17:21 +0200',
    'thu, 20 nov 2025 15:17:21 gmt',
  ])('is as much when its Date is %j', (dateHeader) => {
    const clock = createUpstreamClock()
    clock.observe({ dateHeader, hasAge: false, sentAtMs: startMs - 60_000, receivedAtMs: startMs - 60_000 })
    expect(clock.offset()).toEqual({ lowMs: 59_750, highMs: 61_250, estimateMs: 60_500 })
  })

  it('is nothing when our own clock was set back meanwhile', () => {
    const clock = createUpstreamClock()
    observe(clock, { sentAtMs: startMs, offsetMs: 30_000, latencyMs: -100 })
    expect(clock.offset()).toEqual(unknown)
  })
})

describe('what several answers tell', () => {
  it('is more than one does', () => {
    const clock = createUpstreamClock()
    for (let index = 0; index < 20; index += 1) {
      observe(clock, { sentAtMs: startMs + index * 1_050, offsetMs: 30_000 })
    }
    const { lowMs, highMs } = clock.offset()
    expect(highMs - lowMs).toBeLessThan(800)
    expect(lowMs).toBeLessThan(30_000)
    expect(highMs).toBeGreaterThan(30_000)
  })

  it('is remembered of each of them for most of a minute', () => {
    const clock = createUpstreamClock()
    observe(clock, { sentAtMs: startMs, offsetMs: 30_000 })
    for (let index = 0; index < 5; index += 1) {
      observe(clock, { sentAtMs: startMs + 6_000 + index * 970, offsetMs: 30_000 })
    }
    observe(clock, { sentAtMs: startMs + 61_000, offsetMs: 30_000 })
    const { lowMs, highMs } = clock.offset()
    expect(highMs - lowMs).toBeLessThanOrEqual(1_480)
  })

  it('is not less for one that was slow', () => {
    const clock = createUpstreamClock()
    observe(clock, { sentAtMs: startMs, offsetMs: 30_000 })
    const before = clock.offset()
    observe(clock, { sentAtMs: startMs + 1_000, offsetMs: 30_000, latencyMs: 12_000 })
    expect(clock.offset()).toEqual(before)
  })

  it('is forgotten when the newest contradicts it', () => {
    const clock = createUpstreamClock()
    observe(clock, { sentAtMs: startMs, offsetMs: 30_000 })
    observe(clock, { sentAtMs: startMs + 1_000, offsetMs: -7_000 })
    const alone = createUpstreamClock()
    observe(alone, { sentAtMs: startMs + 1_000, offsetMs: -7_000 })
    expect(clock.offset()).toEqual(alone.offset())
  })

  it('is kept through silence, however long', () => {
    const clock = createUpstreamClock()
    observe(clock, { sentAtMs: startMs, offsetMs: 30_000 })
    expect(clock.latestMs(startMs + 86_400_000)).toBeGreaterThanOrEqual(startMs + 86_400_000 + 30_000)
  })
})

describe('a provider that sets its clock', () => {
  it('is followed at once after a large step', () => {
    const clock = createUpstreamClock()
    observe(clock, { sentAtMs: startMs, offsetMs: 30_000 })
    observe(clock, { sentAtMs: startMs + 1_000, offsetMs: 0 })
    expect(clock.latestMs(startMs + 1_100)).toBe(startMs + 1_100)
  })

  it.each([-700, -500, -300, 300, 500, 700])(
    'is followed within a minute after a step of %d ms',
    (stepMs) => {
      const clock = createUpstreamClock()
      let nowMs = startMs
      for (; nowMs < startMs + 120_000; nowMs += 1_030) observe(clock, { sentAtMs: nowMs, offsetMs: 30_000 })
      const setAtMs = nowMs
      for (; nowMs < setAtMs + 61_100; nowMs += 1_030) {
        observe(clock, { sentAtMs: nowMs, offsetMs: 30_000 + stepMs })
      }
      expect(clock.offset().lowMs).toBeLessThanOrEqual(30_000 + stepMs)
      expect(clock.offset().highMs).toBeGreaterThanOrEqual(30_000 + stepMs)
    },
  )
})

describe('a slow answer', () => {
  const slow = { offsetMs: 5_000, latencyMs: 12_000 }

  it('does not bring 0 back after a quiet minute', () => {
    const clock = createUpstreamClock()
    observe(clock, { sentAtMs: startMs, offsetMs: 5_000 })
    observe(clock, { sentAtMs: startMs + 90_000, ...slow })
    expect(clock.latestMs(startMs + 102_000)).toBeGreaterThanOrEqual(startMs + 107_000)
  })

  it('is all that counts once no other answer has come for ten minutes', () => {
    const clock = createUpstreamClock()
    observe(clock, { sentAtMs: startMs, offsetMs: 5_000 })
    observe(clock, { sentAtMs: startMs + 601_000, ...slow })
    expect(clock.offset().lowMs).toBeLessThan(0)
  })
})

describe('our own clock', () => {
  it('serves and refuses nothing after it was set back, until an answer measures it', () => {
    const clock = createUpstreamClock()
    observe(clock, { sentAtMs: startMs, offsetMs: 0 })
    const backMs = startMs - 3_600_000
    expect(clock.latestMs(backMs)).toBe(Number.POSITIVE_INFINITY)
    expect(clock.earliestMs(backMs)).toBe(Number.NEGATIVE_INFINITY)
    observe(clock, { sentAtMs: backMs, offsetMs: 3_600_000 })
    expect(clock.latestMs(backMs + 100)).toBeGreaterThanOrEqual(startMs + 100)
    expect(clock.latestMs(backMs + 100)).toBeLessThan(startMs + 1_600)
  })

  it.each([
    ['has no Date', { dateHeader: undefined, hasAge: false }],
    ['comes out of a cache', { dateHeader: httpDate(startMs), hasAge: true }],
  ])('stays in doubt after it was set back and an answer %s', (_what, told) => {
    const clock = createUpstreamClock()
    observe(clock, { sentAtMs: startMs, offsetMs: -30_000 })
    const backMs = startMs - 10_000
    clock.observe({ ...told, sentAtMs: backMs, receivedAtMs: backMs + 100 })
    expect(clock.earliestMs(backMs + 100)).toBe(Number.NEGATIVE_INFINITY)
    expect(clock.latestMs(backMs + 100)).toBe(Number.POSITIVE_INFINITY)
  })

  it('is trusted after it was set back if no answer ever had a Date', () => {
    const clock = createUpstreamClock()
    for (const sentAtMs of [startMs, startMs - 3_600_000])
      clock.observe({ dateHeader: undefined, hasAge: false, sentAtMs, receivedAtMs: sentAtMs + 100 })
    const backMs = startMs - 3_600_000
    expect(clock.offset()).toEqual(unknown)
    expect(clock.latestMs(backMs + 100)).toBe(backMs + 100)
  })

  it('may step back within the tolerance', () => {
    const clock = createUpstreamClock()
    observe(clock, { sentAtMs: startMs, offsetMs: 0 })
    expect(clock.latestMs(startMs - 100)).toBe(startMs - 100)
  })

  it('does not mislead after it was set forward', () => {
    const clock = createUpstreamClock()
    observe(clock, { sentAtMs: startMs, offsetMs: 0 })
    const aheadMs = startMs + 3_600_000
    observe(clock, { sentAtMs: aheadMs, offsetMs: -3_600_000 })
    expect(clock.latestMs(aheadMs)).toBeLessThan(startMs + 1_600)
    expect(clock.earliestMs(aheadMs)).toBeLessThanOrEqual(startMs)
  })
})

// Each node of a Cluster has a clock of its own, and whose answer comes last is chance.
it("a store node whose clock is ahead does not overrule what another node knows of the provider's clock", () => {
  const clock = createProviderClock({ clock: { nowMs: () => startMs }, log: silentLogger() })
  clock.compare(0)
  clock.hearsay(-20_000)
  clock.compare(60_000)
  expect(clock.earliestMs()).toBe(startMs - 20_000)
})
