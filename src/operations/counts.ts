import type { OperationsParts } from './parts.ts'

export type Counts = ReturnType<typeof countsOf>

/** Counts since the start, as in the metrics, and the requests under way. */
export function countsOf({
  metrics,
  upstreams,
  exchanges,
}: Pick<OperationsParts, 'metrics' | 'upstreams' | 'exchanges'>) {
  const { lookups, orders } = metrics.quoteCounts()
  const { hit, shared, collapsed } = lookups
  return {
    requests: metrics.requestCounts().requests,
    quotes: total(Object.values(lookups)),
    hits: hit,
    /** Quotes without a call of their own. */
    saved: hit + shared + collapsed,
    errors: total(Object.values(upstreams).map((upstream) => upstream?.failures ?? 0)),
    refused: orders['refused-expired'] + orders['refused-unknown'],
    expired: orders['refused-expired'],
    orders: total(Object.values(orders)),
    /** Float orders whose quote was found. */
    matched:
      orders['forwarded-live'] + orders['reported-expired'] + orders['refused-expired'],
    unknown: orders['forwarded-unknown'],
    inFlight: exchanges.inFlight,
  }
}

function total(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0)
}
