import { type Listener, type StoreOutcome, storeOperations } from '../events.ts'
import { type UpstreamName, upstreamNames, upstreamTable } from '../http/upstreams.ts'
import type { BreakerName, BreakerState } from '../upstream/breakers.ts'
import type { Outcome } from '../upstream/fault.ts'
import { by, cross, type MetricSet } from './series.ts'

/** Never sent: these took no time of the upstream. */
const refusals: readonly Outcome[] = ['connection_limit_reached', 'breaker_open']
const outcomes: readonly Outcome[] = [
  'answered',
  'failed-status',
  'given-up',
  'connection_refused',
  'connection_timeout',
  'connection_terminated',
  'destination_unavailable',
  'dns_error',
  'tls_certificate_error',
  'tls_protocol_error',
  'http_response_timeout',
  'http_response_incomplete',
  'http_response_body_size',
  'http_protocol_error',
  ...refusals,
]

/** From half a second on each is less than twice the one before: QuotegateProviderSlow fires at twice the usual p95. */
const durationBounds = [
  0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2.5, 4, 5, 7.5, 10, 15, 25, 30,
]

const breakerStates: readonly BreakerState[] = ['closed', 'open', 'half-open']

export function countUpstreams(set: MetricSet): Listener {
  const byUpstream = by('upstream', upstreamNames)
  const requests = set.counters('upstream_requests_total', cross(byUpstream, by('outcome', outcomes)))`
    Requests meant for an upstream, by how they ended`
  const durations = set.histograms('upstream_request_duration_seconds', durationBounds, byUpstream)`
    Time from a request that was sent to the end of the answer of its upstream, retries included`
  const retries = set.counters('upstream_retries_total', byUpstream)`Requests that were sent again`
  const states = new Map<string, BreakerState>()
  const isIn = (breaker: string, state: string) => (states.get(breaker) ?? 'closed') === state
  const series = upstreamNames.flatMap((upstream) =>
    breakersOf(upstream).flatMap((breaker) =>
      breakerStates.map((state) => {
        return [{ upstream, breaker, state }, () => Number(isIn(`${upstream} ${breaker}`, state))] as const
      }),
    ),
  )
  set.gauges('breaker_state', series)`Whether a breaker of an upstream is in this state: 1 or 0`
  return {
    callRefused: (upstream, _traffic, outcome) => requests[`${upstream} ${outcome}`].inc(),
    callEnded({ upstream }, outcome, durationMs) {
      requests[`${upstream} ${outcome}`].inc()
      if (!refusals.includes(outcome)) durations[upstream].observe(durationMs / 1_000)
    },
    callRetried: (upstream) => retries[upstream].inc(),
    breakerChanged: (upstream, { name, state }) => states.set(`${upstream} ${name}`, state),
  }
}

function breakersOf(upstream: UpstreamName): readonly BreakerName[] {
  return upstreamTable[upstream].requests === 'by-kind' ? ['connections', 'orders', 'rest'] : ['connections']
}

const storeOutcomes: readonly StoreOutcome[] = ['ok', 'failed', 'timeout', 'skipped']
/** From a server next door to the longest that VALKEY_TIMEOUT_MS is likely to be. */
const storeBounds = [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1]

export function countStore(set: MetricSet): Listener {
  const operations = set.counters(
    'store_operations_total',
    cross(by('op', storeOperations), by('outcome', storeOutcomes)),
  )`
    Calls of the shared store`
  const duration = set.histogram('store_operation_duration_seconds', storeBounds)`
    Time that a call of the shared store took, also one that failed`
  return {
    storeAsked(operation, outcome, durationMs) {
      operations[`${operation} ${outcome}`].inc()
      if (outcome !== 'skipped') duration.observe(durationMs / 1_000)
    },
  }
}
