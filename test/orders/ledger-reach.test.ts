import { expect, it } from 'vitest'
import { LedgerReach } from '../../src/orders/ledger-reach.ts'
import { createTestClock } from '../support/clients/quotes.ts'
import { keptLog, levels } from '../support/observing/log-lines.ts'

it('the ledger reaches back to the start, until it drops a quote before its time, and then to the end of that', async () => {
  const clock = createTestClock()
  const { logger, lines } = await keptLog()
  const reach = new LedgerReach({ entries: 2, clock, log: logger })
  expect(reach.ms).toBe(0)
  clock.advance(2_000_000)
  expect(reach.ms).toBe(2_000_000)
  reach.quoteForgotten(1_000_000)
  expect(reach.ms).toBe(1_000_000)
  clock.advance(700)
  expect(reach.ms).toBe(1_000_700)
  expect(lines(levels.warn)).toEqual([])
  // Less than the 15 minutes that the rules look back.
  reach.quoteForgotten(1_000)
  reach.quoteForgotten(1_000)
  expect(reach.ms).toBe(1_000)
  expect(lines(levels.warn)).toEqual([expect.objectContaining({ expiredForMs: 1_000, entries: 2 })])
})
