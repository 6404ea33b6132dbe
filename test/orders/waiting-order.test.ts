import { expect, test } from 'vitest'
import { lookAt } from '../../src/clock.ts'
import type { NotedQuote } from '../../src/journal/journal.ts'
import { liveForMs, msUntilNextJudgement } from '../../src/orders/float-order.ts'
import { createTestClock, endAt } from '../support/clients/quotes.ts'

const clock = createTestClock()
const quoteWith = (leftMs: number) =>
  ({ id: 'q1', ...endAt(clock.nowMs() + leftMs) }) as unknown as NotedQuote

test.each([
  ['at the instant at which its quote expires', 400, 0, 400],
  ['sooner by ORDER_EXPIRY_MARGIN_MS', 400, 100, 300],
  ['at least once a second: another quote may become known', 50_000, 0, 1_000],
  ['at once, at the end of its quote', 0, 0, 1],
])('an order that waits is judged again %s', (_when, leftMs, expiryMarginMs, ms) => {
  const verdict = { state: 'live', rule: 'id', quote: quoteWith(leftMs) } as const
  expect(msUntilNextJudgement(liveForMs(verdict, expiryMarginMs, lookAt(clock)))).toBe(ms)
})

test('an order that waits is judged again once both of our clocks are past the end of its quote', () => {
  const stepped = { ...clock, nowMs: () => clock.nowMs() + 300 }
  const verdict = { state: 'live', rule: 'id', quote: quoteWith(400) } as const
  expect(msUntilNextJudgement(liveForMs(verdict, 0, lookAt(stepped)))).toBe(400)
})

test('an order whose quote has expired, and that is not refused for it, is judged every second', () => {
  const verdict = { state: 'expired', rule: 'id', quote: quoteWith(-5), expiredForMs: 5 } as const
  expect(msUntilNextJudgement(liveForMs(verdict, 0, lookAt(clock)))).toBe(1_000)
})

test('an order without a quote is judged every second, because its quote may become known', () => {
  const verdict = { state: 'unknown', rule: 'none' } as const
  expect(msUntilNextJudgement(liveForMs(verdict, 0, lookAt(clock)))).toBe(1_000)
})
