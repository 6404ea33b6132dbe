import type { Registry } from 'prom-client'
import type { Listener } from '../events.ts'
import { type UpstreamName, upstreamNames, upstreamTable } from '../http/upstreams.ts'
import type { BreakerName, BreakerState, Breakers } from '../upstream/breakers.ts'
import { refusedPairs } from '../upstream/breakers.ts'
import type { Outcome } from '../upstream/fault.ts'
import { otherPair } from './quotes.ts'
import { createDistributionsBy, createGauge, createTallies, createTalliesBy, type Tally } from './series.ts'

/** Never sent: these took no time of the upstream. */
const refusals = ['connection_limit_reached', 'breaker_open'] as const
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
const breakerStates: readonly BreakerState[] = ['closed', 'open', 'half-open']
const breakerNames: readonly BreakerName[] = ['connections', 'orders', 'rest']

/** From half a second on each is less than twice the one before: QuotegateProviderSlow fires at twice the usual p95. */
const durationBounds = [
  0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2.5, 4, 5, 7.5, 10, 15, 25, 30,
]

const connectionStates = ['busy', 'idle'] as const

export interface WatchedUpstream {
  readonly inFlight: number
  readonly connections: Readonly<Record<(typeof connectionStates)[number], number>>
  readonly breakers: Pick<Breakers, 'pairs'>
}

export type WatchedUpstreams = Readonly<Record<UpstreamName, WatchedUpstream | undefined>>

export function createUpstreamMetrics(
  registry: Registry,
  { pairs, watched }: { pairs: readonly string[]; watched(): WatchedUpstreams | undefined },
): Listener {
  const requests = createTallies(
    {
      registry,
      name: 'quotegate_upstream_requests_total',
      help: 'Requests meant for an upstream, by how they ended',
    },
    upstreamNames.flatMap((upstream) => outcomes.map((outcome) => ({ upstream, outcome }))),
  )
  const durations = createDistributionsBy(
    {
      registry,
      name: 'quotegate_upstream_request_duration_seconds',
      help: 'Time from a request that was sent to the end of the answer of its upstream, retries included',
    },
    durationBounds,
    { label: 'upstream', values: upstreamNames },
  )
  const retries = createTalliesBy(
    { registry, name: 'quotegate_upstream_retries_total', help: 'Requests that were sent again' },
    'upstream',
    upstreamNames,
  )
  const breakers = new Map<string, BreakerState>()
  const keyOf = (upstream: string, breaker: string) => `${upstream} ${breaker}`
  createGauge(
    {
      registry,
      name: 'quotegate_breaker_state',
      help: 'Whether a breaker of an upstream is in this state: 1 or 0',
    },
    upstreamNames.flatMap((upstream) =>
      breakersOf(upstream).flatMap((breaker) =>
        breakerStates.map((state) => ({
          labels: { upstream, breaker, state },
          read: () => ((breakers.get(keyOf(upstream, breaker)) ?? 'closed') === state ? 1 : 0),
        })),
      ),
    ),
  )
  createGauge(
    {
      registry,
      name: 'quotegate_upstream_requests_in_flight',
      help: 'Requests that an upstream is working on, or that wait for a connection to it',
    },
    upstreamNames.map((upstream) => ({
      labels: { upstream },
      read: () => watched()?.[upstream]?.inFlight ?? 0,
    })),
  )
  createGauge(
    { registry, name: 'quotegate_upstream_connections', help: 'Connections to an upstream, by what they do' },
    upstreamNames.flatMap((upstream) =>
      connectionStates.map((state) => ({
        labels: { upstream, state },
        read: () => watched()?.[upstream]?.connections[state] ?? 0,
      })),
    ),
  )

  const refused = () =>
    upstreamNames.flatMap((name) => refusedPairs(watched()?.[name]?.breakers ?? { pairs: [] }))
  // A breaker knows a pair in capitals, because clients spell it as they like.
  const labelOf = (refused: string) => pairs.find((pair) => pair.toUpperCase() === refused) ?? otherPair
  createGauge(
    {
      registry,
      name: 'quotegate_breaker_open_pairs',
      help: 'Pairs whose quotes are not asked for now, because they keep failing',
    },
    [...new Set([...pairs, otherPair])].map((pair) => ({
      labels: { pair },
      read: () => refused().filter((one) => labelOf(one) === pair).length,
    })),
  )

  const places = new Map(outcomes.map((outcome, place) => [outcome, place]))
  const tallyOf = (upstream: UpstreamName, outcome: Outcome): Tally | undefined =>
    requests[upstreamNames.indexOf(upstream) * outcomes.length + (places.get(outcome) ?? Number.NaN)]
  return {
    callRefused: (upstream, _traffic, outcome) => tallyOf(upstream, outcome)?.inc(),
    callEnded({ upstream }, outcome, durationMs) {
      tallyOf(upstream, outcome)?.inc()
      if (!isRefusal(outcome)) durations[upstream].observe(durationMs / 1_000)
    },
    callRetried: (upstream) => retries[upstream].inc(),
    breakerChanged: (upstream, { name, state }) => breakers.set(keyOf(upstream, name), state),
  }
}

function breakersOf(upstream: UpstreamName): readonly BreakerName[] {
  return upstreamTable[upstream].requests === 'by-kind' ? breakerNames : ['connections']
}

function isRefusal(outcome: Outcome): boolean {
  return (refusals as readonly Outcome[]).includes(outcome)
}
