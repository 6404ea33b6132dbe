import fc from 'fast-check'
import { expect, it } from 'vitest'
import { silentLogger } from '../../src/process/logger.ts'
import { ownEndOf } from '../../src/quotes/own-end.ts'
import { createProviderClock, type Ending, type ProviderClock } from '../../src/quotes/provider-clock.ts'

const startMs = Date.UTC(2025, 10, 20, 15, 17, 21)

interface Time {
  nowMs: number
  steadyMs: number
}

/** The rule as design.md writes it, on the steady clock: when serving ends, and when refusing begins. */
function naive(time: Time, providerClock: ProviderClock, { expiresAtMs, ownEnd }: Ending) {
  const serving = time.steadyMs + expiresAtMs - providerClock.latestMs()
  const refusing = time.steadyMs + expiresAtMs - providerClock.earliestMs()
  if (ownEnd === undefined) return { serving, refusing }
  const decides = (instant: number) =>
    providerClock.moment().isExact && instant >= ownEnd.fromMs && instant <= ownEnd.untilMs
  return {
    serving: decides(serving) ? serving : Math.min(serving, ownEnd.fromMs),
    refusing: decides(refusing) ? refusing : Math.max(refusing, ownEnd.untilMs),
  }
}

const latency = fc.oneof(fc.nat(100), fc.nat(100), fc.nat(3_000))
const answer = fc.record({
  gapMs: fc.nat(4_000),
  edge: fc.nat(1),
  upMs: latency,
  downMs: latency,
  lagMs: fc.nat(250),
  lifeMs: fc.integer({ min: 0, max: 40_000 }),
  dated: fc.constantFrom(true, true, true, false),
  laterMs: fc.nat(30_000),
})
const edges = fc.tuple(
  fc.constantFrom(0, 0, 0, 200, -700, 1_500, 5_000, 30_000),
  fc.constantFrom(0, 0, 200, -200, 1_500, -1_500, 5_000, -5_000),
)
const answers = fc.array(answer, { minLength: 1, maxLength: 40 })

interface Judged {
  quote: Ending
  /** By the true end of the quote, which only the test knows. */
  trueLeftMs: number
  offsetMs: number
  serveLeftMs: number
  orderLeftMs: number
  time: Time
  providerClock: ProviderClock
}

/** Plays the answers of a provider with two edges, and looks at each quote again some time after each answer. */
function play(
  offsets: readonly [number, number],
  list: readonly (typeof answer extends fc.Arbitrary<infer Value> ? Value : never)[],
  judge: (judged: Judged) => void,
): void {
  const time = { nowMs: startMs, steadyMs: 1_000 }
  const pass = (ms: number) => {
    time.nowMs += ms
    time.steadyMs += ms
  }
  const clock = { nowMs: () => time.nowMs, steadyMs: () => time.steadyMs }
  const providerClock = createProviderClock({ clock, log: silentLogger() })
  const quotes: { quote: Ending; endsAtMs: number; offsetMs: number }[] = []
  for (const { gapMs, edge, upMs, downMs, lagMs, lifeMs, dated, laterMs } of list) {
    pass(gapMs)
    const offsetMs = offsets[edge] ?? 0
    const sent = { ...time }
    pass(upMs)
    const endsAtMs = time.nowMs + lifeMs
    const expiresAtMs = endsAtMs + offsetMs
    const date = new Date(time.nowMs + offsetMs - lagMs).toUTCString()
    pass(downMs)
    const head = {
      rawHeaders: dated ? ['Date', date] : [],
      sentAtMs: sent.nowMs,
      receivedAtMs: time.nowMs,
      sentSteadyMs: sent.steadyMs,
      receivedSteadyMs: time.steadyMs,
    }
    providerClock.observe(head)
    quotes.push({ quote: { expiresAtMs, ownEnd: ownEndOf(head, expiresAtMs) }, endsAtMs, offsetMs })
    for (const passedMs of [0, laterMs]) {
      pass(passedMs)
      for (const { quote, endsAtMs, offsetMs } of quotes.slice(-6))
        judge({
          quote,
          offsetMs,
          trueLeftMs: endsAtMs - time.nowMs,
          serveLeftMs: providerClock.serveLeftMs(quote),
          orderLeftMs: providerClock.orderLeftMs(quote),
          time,
          providerClock,
        })
    }
  }
}

it('a quote ends by the rule for any answer of the provider', () => {
  fc.assert(
    fc.property(edges, answers, (offsets, list) => {
      play(offsets, list, ({ quote, serveLeftMs, orderLeftMs, time, providerClock }) => {
        const { serving, refusing } = naive(time, providerClock, quote)
        expect(time.steadyMs + serveLeftMs).toBe(serving)
        expect(time.steadyMs + orderLeftMs).toBe(refusing)
      })
    }),
    { numRuns: 500 },
  )
})

it('the interval of a quote always holds its true end, however slow its answer was', () => {
  fc.assert(
    fc.property(edges, answers, (offsets, list) => {
      play(offsets, list, ({ quote: { ownEnd }, trueLeftMs, time: { steadyMs } }) => {
        if (ownEnd === undefined) return
        expect(ownEnd.fromMs).toBeLessThanOrEqual(steadyMs + trueLeftMs)
        expect(ownEnd.untilMs).toBeGreaterThanOrEqual(steadyMs + trueLeftMs)
      })
    }),
    { numRuns: 500 },
  )
})

it('unless the clock of the provider is taken to be ours, no quote of any edge outlives its end, and no live order is refused', () => {
  let judged = 0
  fc.assert(
    fc.property(edges, answers, (offsets, list) => {
      play(offsets, list, ({ quote, trueLeftMs, serveLeftMs, orderLeftMs, providerClock }) => {
        if (providerClock.moment().isExact || quote.ownEnd === undefined) return
        judged += 1
        expect(serveLeftMs).toBeLessThanOrEqual(trueLeftMs)
        expect(orderLeftMs).toBeGreaterThanOrEqual(trueLeftMs)
      })
    }),
    { numRuns: 500 },
  )
  expect(judged).toBeGreaterThan(1_000)
})

it('a provider whose one clock is ours is judged to the millisecond, however slow its answers', () => {
  fc.assert(
    fc.property(answers, (list) => {
      play([0, 0], list, ({ trueLeftMs, serveLeftMs, orderLeftMs }) => {
        expect([serveLeftMs, orderLeftMs]).toEqual([trueLeftMs, trueLeftMs])
      })
    }),
    { numRuns: 500 },
  )
})
