import { createOrderJudge } from '../../src/orders/judge.ts'
import { createQuoteLedger } from '../../src/orders/ledger.ts'
import { readOrder } from '../../src/orders/order-terms.ts'
import { parseDecimal } from '../../src/quotes/decimal.ts'
import type { Ending } from '../../src/quotes/provider-clock.ts'
import { createTestClock } from '../support/clients/quotes.ts'
import { bodyOf } from './guard-bodies.ts'
import type { Guard } from './guard-histories.ts'

const canonical = (text: string) => parseDecimal(text) ?? ''

/** The ledger and the judge alone. The clock of one of the provider's two edges is `edgeAheadMs` ahead. */
export function guardAtLedger({ entries, edgeAheadMs }: { entries: number; edgeAheadMs: number }): Guard {
  const clock = createTestClock()
  let isStoreThere = true
  // A quote ends when it ends, whatever its expiry says by the clock of its edge.
  const leftMs = ({ expiresAtMs, ownEnd }: Ending) => (ownEnd?.untilMs ?? expiresAtMs) - clock.nowMs()
  const ledger = createQuoteLedger({ entries, retentionMs: 86_400_000, clock, leftNow: () => leftMs })
  const sharedLedger = { recall: async () => isStoreThere }

  return {
    clock,
    quote({ id, pair, application, partition, from, requested, to, endsAtMs, givenAtMs }, isAhead) {
      ledger.note({
        id,
        pairId: pair,
        application,
        partition,
        fromValue: canonical(from),
        requestedAmount: canonical(requested),
        toValue: canonical(to),
        expiresAtMs: endsAtMs + (isAhead ? edgeAheadMs : 0),
        ownEnd: { fromMs: endsAtMs, untilMs: endsAtMs },
        cacheKey: 'key',
        notedAtMs: givenAtMs,
      })
    },
    odd({ pair, requested, givenAtMs, ...whose }) {
      const requestedAmount = canonical(requested)
      ledger.noteUnreadable({ ...whose, pairId: pair, requestedAmount, relayedAtMs: givenAtMs })
    },
    async order(order, { marginMs, othersKnown }) {
      isStoreThere = othersKnown
      const judge = createOrderJudge({ ledger, sharedLedger, expiryMarginMs: marginMs })
      const reading = readOrder(bodyOf(order), { quoteIdFields: ['quoteId', 'quote.id', 'id'] })
      if (reading.order === undefined) throw new Error(reading.problem)
      const { state, rule } = judge.judge(await judge.recall(reading.order, order))
      return { state, rule }
    },
  }
}
