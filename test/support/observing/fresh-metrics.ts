import { Events } from '../../../src/events.ts'
import type { Area } from '../../../src/http/target.ts'
import type { GaugedParts } from '../../../src/metrics/gauges.ts'
import { createMetrics, type Metrics } from '../../../src/metrics/metrics.ts'
import type { Exchange } from '../../../src/server/exchange.ts'

/** The metrics of a gateway that does not run and in which nothing has happened, apart from `parts`. */
export function freshMetrics(
  pairs: readonly string[] = [],
  parts: Partial<GaugedParts> = {},
): Metrics & { events: Events } {
  const metrics = createMetrics({ version: 'test', pairs })
  metrics.watch({ ...restingParts, ...parts })
  return { ...metrics, events: new Events([metrics.listener]) }
}

const restingParts: GaugedParts = {
  exchanges: { inFlight: 0 },
  bodies: { heldBytes: 0 },
  upstreams: { swap: undefined, payments: undefined, webhooks: undefined },
  journals: { disk: undefined, stream: undefined },
  sharedStore: undefined,
  cache: { entries: 0 },
  ledger: { size: 0, reachMs: 0 },
  secrets: { failures: 0 },
  holds: { list: [] },
  clockDifference: { newestMs: 0, saysNoTime: false },
}

/** A request has ended. */
export function countRequest(
  { events }: { events: Events },
  {
    area,
    method,
    status,
    durationMs,
  }: { area: Area; method: string; status: number; durationMs: number },
): void {
  events.requestEnded({ area, request: { method } } as Exchange, status, durationMs)
}
