import { expect, it } from 'vitest'
import { lookAt } from '../../src/clock.ts'
import type { NotedQuote } from '../../src/journal/journal.ts'
import { liveForMs, msUntilNextJudgement } from '../../src/orders/float-order.ts'
import type { Verdict } from '../../src/orders/guard.ts'
import { createTestClock, endAt } from '../support/clients/quotes.ts'

const clock = createTestClock()
const quoteWith = (leftMs: number) =>
  ({ id: 'q1', ...endAt(clock.nowMs() + leftMs) }) as unknown as NotedQuote
const live = (leftMs: number): Verdict => ({ state: 'live', rule: 'id', quote: quoteWith(leftMs) })

it.each<[string, Verdict, { marginMs?: number; wallStepMs?: number }, number]>([
  ['at the instant at which its quote expires', live(400), {}, 400],
  ['sooner by ORDER_EXPIRY_MARGIN_MS', live(400), { marginMs: 100 }, 300],
  ['at least once a second: another quote may become known', live(50_000), {}, 1_000],
  ['at once, at the end of its quote', live(0), {}, 1],
  ['once both of our clocks are past the end of its quote', live(400), { wallStepMs: 300 }, 400],
  [
    'every second, if its quote has expired and it is not refused for that',
    { state: 'expired', rule: 'id', quote: quoteWith(-5), expiredForMs: 5 },
    {},
    1_000,
  ],
  ['every second, without a quote: one may become known', { state: 'unknown', rule: 'none' }, {}, 1_000],
])('an order that waits is judged again %s', (_when, verdict, { marginMs = 0, wallStepMs = 0 }, ms) => {
  const now = lookAt({ ...clock, nowMs: () => clock.nowMs() + wallStepMs })
  expect(msUntilNextJudgement(liveForMs(verdict, marginMs, now))).toBe(ms)
})
