import { expect, test } from 'vitest'
import { msUntilNextJudgement } from '../../src/routes/waiting-order.ts'

test.each([
  ['at the expiry of its quote', 10_400, 0, 400],
  ['sooner by ORDER_EXPIRY_MARGIN_MS', 10_400, 100, 300],
  ['at least once a second: the provider may turn out to be ahead', 60_000, 0, 1_000],
  ['soon, if its quote counts as live past its expiry', 9_000, 0, 50],
])('an order that waits is judged again %s', (_when, expiresAtMs, expiryMarginMs, ms) => {
  const providerClock = { earliestMs: () => 10_000 }
  expect(msUntilNextJudgement({ expiresAtMs }, { providerClock, expiryMarginMs })).toBe(ms)
})

test('an order without a quote is judged every second, since its quote may become known', () => {
  const providerClock = { earliestMs: () => 10_000 }
  expect(msUntilNextJudgement(undefined, { providerClock, expiryMarginMs: 0 })).toBe(1_000)
})
