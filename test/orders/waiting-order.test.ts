import { expect, it } from 'vitest'
import { Ledger } from '../../src/memory/ledger.ts'
import { FloatOrder } from '../../src/orders/guard.ts'
import { readOrder } from '../../src/orders/order-terms.ts'
import { createTestClock, endAt } from '../support/clients/quotes.ts'

const terms = {
  pairId: 'A_B',
  application: '',
  fromValue: '1',
  requestedAmount: '1',
  toValue: '2',
  hasNumbers: false,
}
const asked = {
  application: '',
  partition: undefined,
  isAddress: false,
  othersKnown: true,
  marginMs: 0,
}

/** Of the quote that the order names, which ends then. */
function noted(clock: ReturnType<typeof createTestClock>, expiresAtMs: number) {
  return {
    ...terms,
    id: 'q1',
    partition: undefined,
    cacheKey: '',
    notedAtMs: clock.nowMs(),
    expiresAtMs,
    ...endAt(expiresAtMs),
  }
}

function namingOrder() {
  const { order } = readOrder(Buffer.from('{"quoteId":"q1"}'), {
    quoteIdFields: ['quoteId'],
  })
  if (order === undefined) throw new Error('not an order')
  return order
}

/** When an order is judged again that waits, and names a quote with so much left. */
function askAgainInMs(leftMs: number | undefined, { marginMs = 0, wallStepMs = 0 } = {}) {
  const clock = createTestClock()
  let stepMs = 0
  const nowMs = () => clock.nowMs() + stepMs
  const ledger = new Ledger({
    entries: 10,
    clock: { ...clock, nowMs },
  })
  if (leftMs !== undefined) ledger.note(noted(clock, clock.nowMs() + leftMs))
  const waiting = new FloatOrder(namingOrder(), { ...asked, marginMs }, ledger)
  stepMs = wallStepMs
  return waiting.judgeAgain()
}

it.each<[string, number | undefined, Parameters<typeof askAgainInMs>[1], number]>([
  ['at the instant at which its quote expires', 400, {}, 400],
  ['sooner by ORDER_EXPIRY_MARGIN_MS', 400, { marginMs: 100 }, 300],
  ['at least once a second: another quote may become known', 50_000, {}, 1_000],
  ['at once, at the end of its quote', 0.4, {}, 1],
  [
    'once both of our clocks are past the end of its quote',
    400,
    { wallStepMs: 300 },
    400,
  ],
  [
    'every second, if its quote has expired and it is not refused for that',
    -5,
    {},
    1_000,
  ],
  ['every second, without a quote: one may become known', undefined, {}, 1_000],
])('an order that waits is judged again %s', (_when, leftMs, options, ms) =>
  expect(askAgainInMs(leftMs, options)).toBe(ms),
)

it.each([
  [19, 'unknown'],
  [20, 'expired'],
])(
  'an order that has waited %i ms is by then %s, by what has become known',
  (waitedMs, state) => {
    const clock = createTestClock()
    const timers = { ...clock.timers, steadyMs: clock.steadyMs }
    const ledger = new Ledger({
      entries: 10,
      clock: { ...clock, timers },
    })
    const waiting = new FloatOrder(namingOrder(), asked, ledger)
    ledger.note(noted(clock, clock.nowMs() - 1))
    clock.advance(waitedMs)
    waiting.judgeAgain()
    expect(waiting.verdict.state).toBe(state)
  },
)
