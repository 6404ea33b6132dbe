import type { Events, Listener } from '../events.ts'
import { ownProblems, problemSlugs } from '../http/problem.ts'
import { type Area, areas } from '../http/target.ts'
import { by, cross, type MetricSet, type Tally } from './series.ts'

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

type RequestExchange = Parameters<Events['requestEnded']>[0]

export function countRequests(set: MetricSet): { listener: Listener; counts(): RequestCounts } {
  const byRoute = by('route', areas)
  const requests = set.counters(
    'http_requests_total',
    cross(cross(byRoute, by('method', methods)), by('status_class', Object.values(statusClasses))),
  )`
    Requests answered or broken off, by part of the service`
  const durations = set.histograms('http_request_duration_seconds', durationBounds, byRoute)`
    Time from the head of a request to the end of its answer, or to where it broke off`
  const answered = set.counters('problems_total', by('type', problemSlugs))`
    Answers made by the gateway itself, by problem type`
  const limited: Partial<Record<Area, Tally>> = set.counters('rate_limited_total', by('route', limitedAreas))`
    Requests refused by RATE_LIMIT_PER_MINUTE, by part of the service`
  const serverErrors = set.counters('server_errors_total', by('source', ['provider', 'gateway']))`
    Answers with a 5xx, by who is to blame: the provider, or the gateway itself`
  const addressNotes = set.counters(
    'client_address_headers_ignored_total',
    by('reason', ['malformed-header', 'no-client-named', 'untrusted-header', 'other-header']),
  )`
    Client-address headers that gave no client: malformed, naming none, another than CLIENT_IP_HEADER, or of a private
    peer outside TRUST_PROXY`
  const latencies = set.counters(
    'quote_latency_total',
    cross(by('how', ['hit', 'miss']), by('objective', ['met', 'missed'])),
  )`
    Quotes by whether they met the objective: a hit within 25 ms, a miss within 50 ms more than the provider took`
  // A quote of another client's call is not counted: how long the provider took is known for the one that made the call.
  const countLatency = ({ outcome, times }: RequestExchange, durationMs: number) => {
    if (outcome?.how === 'hit') {
      latencies[durationMs <= hitMs ? 'hit met' : 'hit missed'].inc()
      return
    }
    const { sentAtMs, beganAtMs, settledAtMs } = times ?? {}
    if (sentAtMs === undefined || beganAtMs === undefined || settledAtMs === undefined) return
    const allowedMs = settledAtMs - sentAtMs + missOverheadMs
    latencies[durationMs <= allowedMs ? 'miss met' : 'miss missed'].inc()
  }

  // A request finds its tally in three steps; to put the key together would take three times as long.
  const tallies = new Map(
    areas.map((area) => {
      const ofMethod = (method: (typeof methods)[number]): Record<number, Tally> =>
        Object.fromEntries(
          Object.entries(statusClasses).map(([digit, name]) => [
            digit,
            requests[`${area} ${method} ${name}`],
          ]),
        )
      return [
        area,
        new Map<string, Record<number, Tally>>(methods.map((method) => [method, ofMethod(method)])),
      ]
    }),
  )
  const tallyOf = (area: Area, method: string, status: number): Tally | undefined => {
    const byMethod = tallies.get(area)
    const byStatus = byMethod?.get(method) ?? byMethod?.get('other')
    // A status that HTTP does not have counts against us.
    return byStatus?.[Math.floor(status / 100)] ?? byStatus?.[5]
  }

  return {
    counts: () => ({
      requests: Object.values<Tally>(requests).reduce((sum, { value }) => sum + value, 0),
      untrustedHeaders: addressNotes['untrusted-header'].value,
      otherHeaders: addressNotes['other-header'].value,
    }),
    listener: {
      requestEnded(exchange, status, durationMs) {
        const { area, request } = exchange
        if (status >= 500) {
          const { problem } = exchange
          const isOwn = problem !== undefined && ownProblems.has(problem)
          serverErrors[isOwn ? 'gateway' : 'provider'].inc()
        } else if (area === 'quote' && status === 200) countLatency(exchange, durationMs)
        tallyOf(area, request.method ?? '', status)?.inc()
        durations[area].observe(durationMs / 1_000)
      },
      problemAnswered: ({ slug }) => answered[slug].inc(),
      addressNoted({ note }) {
        if (note !== undefined) addressNotes[note].inc()
      },
      rateLimited: (area) => limited[area]?.inc(),
    },
  }
}
