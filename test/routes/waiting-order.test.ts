import { expect, test } from 'vitest'
import type { NotedQuote } from '../../src/orders/ledger.ts'
import { msUntilNextJudgement } from '../../src/routes/waiting-order.ts'

const quote = { id: 'q1' } as NotedQuote

test.each([
  ['at the instant at which its quote expires', 400, 0, 400],
  ['sooner by ORDER_EXPIRY_MARGIN_MS', 400, 100, 300],
  ['at least once a second: the provider may turn out to be ahead', 50_000, 0, 1_000],
  ['at once, at the end of its quote', 0, 0, 1],
])('an order that waits is judged again %s', (_when, leftMs, expiryMarginMs, ms) => {
  const providerClock = { orderLeftMs: () => leftMs }
  const verdict = { state: 'live', rule: 'id', quote } as const
  expect(msUntilNextJudgement(verdict, { providerClock, expiryMarginMs })).toBe(ms)
})

test('an order whose quote has expired, and that is not refused for it, is judged every second', () => {
  const providerClock = { orderLeftMs: () => -5 }
  const verdict = { state: 'expired', rule: 'id', quote, expiredForMs: 5 } as const
  expect(msUntilNextJudgement(verdict, { providerClock, expiryMarginMs: 0 })).toBe(1_000)
})

test('an order without a quote is judged every second, because its quote may become known', () => {
  const providerClock = { orderLeftMs: () => 10 }
  const verdict = { state: 'unknown', rule: 'nothing' } as const
  expect(msUntilNextJudgement(verdict, { providerClock, expiryMarginMs: 0 })).toBe(1_000)
})
