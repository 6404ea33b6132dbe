import type { Registry } from 'prom-client'
import type { Events, Listener } from '../events.ts'
import { ownProblems, problemSlugs } from '../http/problem.ts'
import { type Area, areas } from '../http/target.ts'
import {
  createDistributionsBy,
  createGauge,
  createTallies,
  createTalliesBy,
  type Distribution,
  type Tally,
} from './series.ts'

const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'other'] as const
/** By the first digit of a status; a status of 0 is a request whose client left, or whose answer broke off. */
const statusClasses = { 0: 'aborted', 2: '2xx', 3: '3xx', 4: '4xx', 5: '5xx' } as const
/** Only the swap side is limited. */
const limitedAreas = ['quote', 'float-order', 'order', 'swap'] as const satisfies readonly Area[]

/**
 * From a hit, a fraction of a millisecond, to what the timeouts of upstreams allow. The metric of upstreams ends at the
 * same bound, because the two are compared, and a quantile past the last bound is drawn at it.
 */
const durationBounds = [
  0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30,
]

/** What a quote may take: a hit all in all, and a miss beyond what the provider took. */
const hitMs = 25
const missOverheadMs = 50

/** What was counted so far, for the console's history. */
export interface RequestCounts {
  readonly requests: number
  /** Client-address headers of private peers outside TRUST_PROXY. */
  readonly untrustedHeaders: number
  readonly otherHeaders: number
}

export interface RequestMetrics {
  readonly listener: Listener
  requestCounts(): RequestCounts
}

interface AreaTallies {
  /** By method, then by the first digit of the status. */
  byMethod: ReadonlyMap<string, readonly Tally[]>
  others: readonly Tally[]
  duration: Distribution
}

export function createRequestMetrics(
  registry: Registry,
  watched: () => { readonly inFlight: number } | undefined,
): RequestMetrics {
  const { byArea, tallies } = areaTallies(registry)
  createGauge(
    {
      registry,
      name: 'quotegate_http_requests_in_flight',
      help: 'Requests that have no complete answer yet',
    },
    [{ labels: {}, read: () => watched()?.inFlight ?? 0 }],
  )
  const answered = createTalliesBy(
    {
      registry,
      name: 'quotegate_problems_total',
      help: 'Answers made by the gateway itself, by problem type',
    },
    'type',
    problemSlugs,
  )
  const limited = createTalliesBy(
    {
      registry,
      name: 'quotegate_rate_limited_total',
      help: 'Requests refused by RATE_LIMIT_PER_MINUTE, by part of the service',
    },
    'route',
    limitedAreas,
  )
  const serverErrors = createTalliesBy(
    {
      registry,
      name: 'quotegate_server_errors_total',
      help: 'Answers with a 5xx, by who is to blame: the provider, or the gateway itself',
    },
    'source',
    ['provider', 'gateway'],
  )
  const latency = createLatency(registry)
  const addressNotes = createTalliesBy(
    {
      registry,
      name: 'quotegate_client_address_headers_ignored_total',
      help: 'Client-address headers that gave no client: malformed, naming none, another than CLIENT_IP_HEADER, or of a private peer outside TRUST_PROXY',
    },
    'reason',
    ['malformed-header', 'no-client-named', 'untrusted-header', 'other-header'],
  )

  return {
    requestCounts: () => ({
      requests: tallies.reduce((sum, { value }) => sum + value, 0),
      untrustedHeaders: addressNotes['untrusted-header'].value,
      otherHeaders: addressNotes['other-header'].value,
    }),
    listener: {
      requestEnded(exchange, status, durationMs) {
        const { area, request } = exchange
        const { method = '' } = request
        if (status >= 500) {
          const { problem } = exchange
          const isOwn = problem !== undefined && ownProblems.has(problem)
          serverErrors[isOwn ? 'gateway' : 'provider'].inc()
        } else if (area === 'quote' && status === 200) latency(exchange, durationMs)
        const { byMethod, others, duration } = byArea[area]
        const byStatus = byMethod.get(method) ?? others
        // A status that HTTP does not have counts against us.
        const tally = byStatus[Math.floor(status / 100)] ?? byStatus[5]
        tally?.inc()
        duration.observe(durationMs / 1_000)
      },
      problemAnswered: ({ slug }) => answered[slug].inc(),
      addressNoted({ note }) {
        if (note !== undefined) addressNotes[note].inc()
      },
      rateLimited(area) {
        const tally: Tally | undefined = (limited as Partial<Record<Area, Tally>>)[area]
        tally?.inc()
      },
    },
  }
}

/** A quote of another client's call is not counted: how long the provider took is known for the one that made the call. */
function createLatency(
  registry: Registry,
): (exchange: Parameters<Events['requestEnded']>[0], durationMs: number) => void {
  const [hitMet, hitMissed, missMet, missMissed] = createTallies(
    {
      registry,
      name: 'quotegate_quote_latency_total',
      help: 'Quotes by whether they met the objective: a hit within 25 ms, a miss within 50 ms more than the provider took',
    },
    [
      { how: 'hit', objective: 'met' },
      { how: 'hit', objective: 'missed' },
      { how: 'miss', objective: 'met' },
      { how: 'miss', objective: 'missed' },
    ],
  ) as [Tally, Tally, Tally, Tally]
  return ({ outcome, times }, durationMs) => {
    const providerMs = times?.wholeMs
    if (outcome?.how === 'hit') (durationMs <= hitMs ? hitMet : hitMissed).inc()
    else if (providerMs !== undefined)
      (durationMs <= providerMs + missOverheadMs ? missMet : missMissed).inc()
  }
}

function areaTallies(registry: Registry): {
  byArea: Readonly<Record<Area, AreaTallies>>
  tallies: readonly Tally[]
} {
  const labelSets = areas.flatMap((route) =>
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
    { label: 'route', values: areas },
  )

  let taken = 0
  const ofOneMethod = (): readonly Tally[] => {
    const byDigit: Tally[] = []
    for (const digit of Object.keys(statusClasses)) byDigit[Number(digit)] = tallies[taken++] as Tally
    return byDigit
  }
  const ofArea = (area: Area): AreaTallies => {
    const byMethod = new Map(methods.map((method) => [method as string, ofOneMethod()]))
    return { byMethod, others: byMethod.get('other') ?? [], duration: durations[area] }
  }
  const byArea = Object.fromEntries(areas.map((area) => [area, ofArea(area)])) as Record<Area, AreaTallies>
  return { byArea, tallies }
}
