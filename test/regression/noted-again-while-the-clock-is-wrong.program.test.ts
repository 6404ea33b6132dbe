import { expect, test } from 'vitest'
import { completeClock } from '../../src/clock.ts'
import { Ledger } from '../../src/memory/ledger.ts'
import { orderLeftMs } from '../../src/quotes/ends.ts'
import { quoteOf } from '../support/stores/stream-stage.ts'

// A replica knows a quote that lives for 30 s. Its wall clock is set back by 40 s. Now a record of the same quote comes
// again, as after a restart of another replica: what is left of it, as an instant of the wrong clock, was 40 s before the
// end that was known, and the earlier of two ends counts. When the clock was right again, orders for the quote were
// refused, though it lived. The simulated world found it (test/simulation/).
test('a record that comes again while the wall clock is wrong does not shorten the quote', () => {
  const now = { nowMs: 1_760_000_000_000, steadyMs: 1_000 }
  const clock = completeClock({ nowMs: () => now.nowMs, steadyMs: () => now.steadyMs })
  const ledger = new Ledger({ entries: 10, clock })
  const quote = quoteOf('q', clock, 30_000)
  const known = ledger.note(quote)

  now.nowMs -= 40_000
  const { wallAheadMs, refusedFromMs, ...same } = quote
  const again = {
    ...same,
    wallAheadMs: wallAheadMs - 40_000,
    refusedFromMs: refusedFromMs - 40_000,
  }
  expect(ledger.knows(again)).toBe(true)
  ledger.note(again, 'delivered')
  now.nowMs += 40_000
  expect(orderLeftMs(known, ledger.now())).toBe(30_000)

  // Another end that is earlier by the steady clock still counts.
  ledger.note({ ...again, refusedFromMs: again.refusedFromMs - 2_000 }, 'delivered')
  expect(orderLeftMs(known, ledger.now())).toBe(28_000)
})

// The later of the two ends of an answer that could not be read counts, and an order that may be for it is sent until then.
test('an unreadable answer that comes again while the wall clock is ahead is not open for longer', () => {
  const now = { nowMs: 1_760_000_000_000, steadyMs: 1_000 }
  const clock = completeClock({ nowMs: () => now.nowMs, steadyMs: () => now.steadyMs })
  const ledger = new Ledger({ entries: 10, clock })
  const whose = { pairId: 'A_B', application: 'a', requestedAmount: '1', partition: 'p' }
  const known = ledger.note(ledger.unreadable(whose))
  const openMs = orderLeftMs(known, ledger.now())

  now.nowMs += 3_600_000
  ledger.note(ledger.unreadable(whose))
  now.nowMs -= 3_600_000
  expect(orderLeftMs(known, ledger.now())).toBe(openMs)
})
