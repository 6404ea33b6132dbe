import { decide } from '../../src/orders/guard.ts'
import { Ledger } from '../../src/orders/ledger.ts'
import { readOrder } from '../../src/orders/order-terms.ts'
import { createTestClock } from '../support/clients/quotes.ts'
import { bodyOf } from './guard-bodies.ts'
import type { Guard } from './guard-histories.ts'
import { plain } from './guard-model.ts'

const quoteIdFields = ['quoteId', 'quote.id', 'id']

/** The ledger and the guard alone. */
export function guardAtLedger({ entries }: { entries: number }): Guard {
  const clock = createTestClock()
  const ledger = new Ledger({ entries, retentionMs: 86_400_000, clock })

  return {
    clock,
    quote({ id, pair, application, partition, from, requested, to, endsAtMs, expiresAtMs, givenAtMs }) {
      ledger.note({
        id,
        pairId: pair,
        application,
        partition,
        fromValue: plain(from),
        requestedAmount: plain(requested),
        toValue: plain(to),
        expiresAtMs,
        refusedFromMs: endsAtMs,
        wallAheadMs: 0,
        cacheKey: 'key',
        notedAtMs: givenAtMs,
      })
    },
    odd({ pair, requested, stated, application, partition }) {
      const whose = { pairId: pair, application, partition }
      const amounts = new Set([requested, stated ?? requested].map(plain))
      for (const requestedAmount of amounts) ledger.note(ledger.unreadable({ ...whose, requestedAmount }))
    },
    async order(order, { marginMs, othersKnown }) {
      const reading = readOrder(bodyOf(order), { quoteIdFields, header: order.header })
      if (reading.order === undefined) throw new Error(reading.problem)
      const { application, partition, isAddress } = order
      const orderer = { application, partition, isAddress, marginMs, othersKnown }
      const verdict = decide(ledger, reading.order, orderer, ledger.now())
      const quoteId = 'quote' in verdict ? verdict.quote.id : undefined
      return { state: verdict.state, rule: verdict.rule, quoteId }
    },
  }
}
