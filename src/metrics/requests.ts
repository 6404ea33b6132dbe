import type { Registry } from 'prom-client'
import { type ProblemSlug, problemTypes } from '../http/problem.ts'
import {
  createDistributionsBy,
  createGauge,
  createTallies,
  createTalliesBy,
  type Distribution,
  type Tally,
} from './series.ts'

const routes = ['quote', 'float-order', 'order', 'swap', 'payments', 'webhooks', 'none'] as const
const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'other'] as const
/** By the first digit of a status; a status of 0 is a request whose client left, or whose answer broke off. */
const statusClasses = { 0: 'aborted', 2: '2xx', 3: '3xx', 4: '4xx', 5: '5xx' } as const

export type Route = (typeof routes)[number]

/**
 * From a hit, a fraction of a millisecond, to what the timeouts of upstreams allow. Their metric ends at the same
 * bound: a quantile past the last one is drawn at it, and the two are compared.
 */
const durationBounds = [
  0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30,
]

export interface RequestMetrics {
  requestBegan(): void
  /** A status of 0 is a request whose client left, or whose answer broke off. */
  requestOver(request: { area: Route; method: string; status: number; durationMs: number }): void
  problems: Readonly<Record<ProblemSlug, Tally>>
  /** Those of the swap side alone: nothing else is limited. */
  rateLimited: Readonly<Partial<Record<Route, Tally>>>
  clientAddressNotes: Readonly<Record<'malformed-header' | 'untrusted-header', Tally>>
}

interface RouteTallies {
  /** By method, then by the first digit of the status. */
  byMethod: ReadonlyMap<string, readonly Tally[]>
  others: readonly Tally[]
  duration: Distribution
}

export function createRequestMetrics(registry: Registry): RequestMetrics {
  let inFlight = 0
  const byRoute = routeTallies(registry)
  createGauge(
    {
      registry,
      name: 'quotegate_http_requests_in_flight',
      help: 'Requests that have no complete answer yet',
    },
    [{ labels: {}, read: () => inFlight }],
  )

  return {
    requestBegan() {
      inFlight += 1
    },
    requestOver({ area, method, status, durationMs }) {
      inFlight -= 1
      const { byMethod, others, duration } = byRoute[area]
      const byStatus = byMethod.get(method) ?? others
      // Whatever is no status of HTTP counts against us.
      const tally = byStatus[Math.floor(status / 100)] ?? byStatus[5]
      tally?.inc()
      duration.observe(durationMs / 1_000)
    },
    problems: createTalliesBy(
      {
        registry,
        name: 'quotegate_problems_total',
        help: 'Answers made by the gateway itself, by problem type',
      },
      'type',
      Object.keys(problemTypes) as ProblemSlug[],
    ),
    rateLimited: createTalliesBy(
      {
        registry,
        name: 'quotegate_rate_limited_total',
        help: 'Requests refused by RATE_LIMIT_PER_MINUTE, by part of the service',
      },
      'route',
      ['quote', 'float-order', 'order', 'swap'],
    ),
    clientAddressNotes: createTalliesBy(
      {
        registry,
        name: 'quotegate_client_address_headers_ignored_total',
        help: 'Client-address headers that changed nothing: malformed, or sent by a private peer outside TRUST_PROXY',
      },
      'reason',
      ['malformed-header', 'untrusted-header'],
    ),
  }
}

function routeTallies(registry: Registry): Readonly<Record<Route, RouteTallies>> {
  const labelSets = routes.flatMap((route) =>
    methods.flatMap((method) =>
      Object.values(statusClasses).map((status_class) => ({ route, method, status_class })),
    ),
  )
  const tallies = createTallies(
    {
      registry,
      name: 'quotegate_http_requests_total',
      help: 'Requests answered or broken off, by part of the service',
    },
    labelSets,
  )
  const durations = createDistributionsBy(
    {
      registry,
      name: 'quotegate_http_request_duration_seconds',
      help: 'Time from the head of a request to the end of its answer, or to where it broke off',
    },
    durationBounds,
    { label: 'route', values: routes },
  )

  let taken = 0
  const ofOneMethod = (): readonly Tally[] => {
    const byDigit: Tally[] = []
    for (const digit of Object.keys(statusClasses)) byDigit[Number(digit)] = tallies[taken++] as Tally
    return byDigit
  }
  const ofRoute = (route: Route): RouteTallies => {
    const byMethod = new Map(methods.map((method) => [method as string, ofOneMethod()]))
    return { byMethod, others: byMethod.get('other') ?? [], duration: durations[route] }
  }
  return Object.fromEntries(routes.map((route) => [route, ofRoute(route)])) as Record<Route, RouteTallies>
}
