import { Events, notKeptReasons } from '../../../src/events.ts'
import type { Area } from '../../../src/http/target.ts'
import { createMetrics, type Metrics, type Watched } from '../../../src/metrics/metrics.ts'
import type { Exchange } from '../../../src/server/exchange.ts'

/** The metrics of a gateway that does not run, and what they hear. */
export function freshMetrics(pairs: readonly string[] = []): Metrics & { events: Events } {
  const metrics = createMetrics({ version: 'test', notKeptReasons, pairs })
  return { ...metrics, events: new Events(metrics.listeners) }
}

/** Parts of a gateway in which nothing has happened, apart from these. */
export function watchedParts(parts: Partial<Watched>): Watched {
  return {
    exchanges: { inFlight: 0 },
    bodies: { heldBytes: 0 },
    upstreams: { swap: undefined, payments: undefined, webhooks: undefined },
    journals: { disk: undefined, stream: undefined },
    sharedStore: undefined,
    cache: { entries: 0, bytes: 0 },
    ledger: { size: 0 },
    reach: { ms: 0 },
    clockDifference: { newestMs: 0, saysNoTime: false },
    providerLimit: { list: () => [] },
    ...parts,
  }
}

/** A request has ended. */
export function countRequest(
  { events }: { events: Events },
  { area, method, status, durationMs }: { area: Area; method: string; status: number; durationMs: number },
): void {
  events.requestEnded({ area, request: { method } } as Exchange, status, durationMs)
}
