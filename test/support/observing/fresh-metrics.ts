import { problemSlugs } from '../../../src/http/problem.ts'
import { upstreamNames } from '../../../src/http/upstreams.ts'
import { createMetrics, type Metrics } from '../../../src/metrics/metrics.ts'
import { notKeptReasons } from '../../../src/quotes/quote-answer.ts'
import { type Area, areas } from '../../../src/routes/area.ts'
import type { Exchange } from '../../../src/routes/exchange.ts'

/** The metrics of a gateway that does not run. */
export function freshMetrics(pairs: readonly string[] = []): Metrics {
  return createMetrics({
    version: 'test',
    areas,
    upstreams: upstreamNames,
    problems: problemSlugs,
    notKeptReasons,
    pairs,
  })
}

/** Counts a request that has ended. */
export function countRequest(
  metrics: Metrics,
  { area, method, status, durationMs }: { area: Area; method: string; status: number; durationMs: number },
): void {
  metrics.exchanges.ended({ area, request: { method } } as Exchange, { status, durationMs })
}
