import type { Clock } from '../clock.ts'
import { forEachUpstream, upstreamTable } from '../http/upstreams.ts'
import type { Metrics } from '../metrics/metrics.ts'
import { type Counts, createHistory, type History } from '../operations/history.ts'
import type { ExchangeObserver } from '../routes/exchange.ts'
import { createRefusalCounts, type RefusalCounts } from './refusal-counts.ts'
import type { Upstreams } from './upstreams.ts'

export interface ConsoleHistory {
  readonly history: History
  readonly refusals: RefusalCounts
  /** Sees what `metrics` sees. */
  readonly observer: ExchangeObserver
  counts(upstreams: Upstreams, inFlight: number): Counts
}

/** Feeds the console's history. A request adds its duration; all else is read from the metrics once a second. */
export function createConsoleHistory(metrics: Metrics, clock: Clock): ConsoleHistory {
  const refusals = createRefusalCounts()
  const history = createHistory({
    traffic: forEachUpstream((name) =>
      upstreamTable[name].requests === 'by-kind' ? ['quotes', 'orders', 'rest'] : ['rest'],
    ),
    provider: 'swap',
    nowMs: clock.nowMs,
    steadyMs: clock.steadyMs ?? (() => performance.now()),
  })
  const { exchanges } = metrics

  return {
    history,
    refusals,
    observer: {
      ...exchanges,
      ended(exchange, ended) {
        exchanges.ended(exchange, ended)
        history.answers.add(ended.durationMs)
      },
      problemAnswered(problem) {
        exchanges.problemAnswered(problem)
        refusals.note(problem)
      },
    },
    counts(upstreams, inFlight) {
      const { lookups, orders } = metrics.quoteCounts()
      const { hit, shared, collapsed } = lookups
      return {
        sums: {
          requests: metrics.requestCounts().requests,
          quotes: total(lookups),
          hits: hit,
          saved: hit + shared + collapsed,
          errors: Object.values(upstreams).reduce((sum, upstream) => sum + (upstream?.failures ?? 0), 0),
          refused: orders['refused-expired'] + orders['refused-unknown'],
          expired: orders['refused-expired'],
          orders: total(orders),
          matched: orders['forwarded-live'] + orders['reported-expired'] + orders['refused-expired'],
          unknown: orders['forwarded-unknown'],
        },
        inFlight,
      }
    },
  }
}

function total(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0)
}
