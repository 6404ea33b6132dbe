import { type Heard, keyResults, type Listener, storeOperations } from '../events.ts'
import { ownProblems, problemSlugs } from '../http/problem.ts'
import { type Area, areas } from '../http/target.ts'
import { upstreamNames } from '../http/upstreams.ts'
import {
  ageBounds,
  callBounds,
  decisions,
  durationBounds,
  lifeBounds,
  limitedAreas,
  methods,
  notKept,
  otherPair,
  outcomes,
  providerCodes,
  refusals,
  statesByRule,
  statusClasses,
  storeBounds,
  storeOutcomes,
} from './labels.ts'
import { by, cross, type MetricSet, type Tally } from './series.ts'

/** The objective: for a hit in all, for a miss beyond the provider's time. */
const hitMs = 25
const missOverheadMs = 50

const noteReasons = [
  'malformed-header',
  'no-client-named',
  'untrusted-header',
  'other-header',
  'no-header',
] as const

function latencyCounter(set: MetricSet) {
  const latencies = set.counters(
    'quote_latency_total',
    'Quotes by whether they met the objective: a hit within 25 ms, a miss within 50 ms more than the provider took',
    cross(by('how', ['hit', 'miss']), by('objective', ['met', 'missed'])),
  )
  // Shared calls are not counted: only the request that made the call knows the provider's time.
  return ({ outcome, times }: Heard<'requestEnded'>[0], durationMs: number): void => {
    if (outcome?.how === 'hit') {
      count(latencies[durationMs <= hitMs ? 'hit met' : 'hit missed'])
      return
    }
    const { sentAtMs, beganAtMs, settledAtMs } = times ?? {}
    if (sentAtMs === undefined || beganAtMs === undefined || settledAtMs === undefined)
      return
    const allowedMs = settledAtMs - sentAtMs + missOverheadMs
    count(latencies[durationMs <= allowedMs ? 'miss met' : 'miss missed'])
  }
}

function tallyFinder(requests: Readonly<Record<string, Tally>>) {
  // The key has only the status's first digit: keys of three parts take three times as long.
  const tallies = new Map<string, Readonly<Record<number, Tally>>>()
  for (const area of areas)
    for (const method of methods) {
      const ofStatus = Object.entries(statusClasses).map(([digit, name]) => [
        digit,
        requests[`${area} ${method} ${name}`],
      ])
      tallies.set(area + method, Object.fromEntries(ofStatus))
    }
  return (area: Area, method: string, status: number): Tally | undefined => {
    const byStatus = tallies.get(area + method) ?? tallies.get(`${area}other`)
    // An unknown status counts against us.
    return byStatus?.[Math.floor(status / 100)] ?? byStatus?.[5]
  }
}

function countRequests(set: MetricSet) {
  const byRoute = by('route', areas)
  const requests = set.counters(
    'http_requests_total',
    'Requests answered or broken off, by part of the service',
    cross(
      cross(byRoute, by('method', methods)),
      by('status_class', Object.values(statusClasses)),
    ),
  )
  const durations = set.histograms(
    'http_request_duration_seconds',
    'Time from the head of a request to the end of its answer, or to where it broke off',
    durationBounds,
    byRoute,
  )
  const answered = set.counters(
    'problems_total',
    'Answers made by the gateway itself, by problem type',
    by('type', problemSlugs),
  )
  const limited: Partial<Record<Area, Tally>> = set.counters(
    'rate_limited_total',
    'Requests refused by RATE_LIMIT_PER_MINUTE, by part of the service',
    by('route', limitedAreas),
  )
  const serverErrors = set.counters(
    'server_errors_total',
    'Answers with a 5xx, by who is to blame: the provider, or the gateway itself',
    by('source', ['provider', 'gateway']),
  )
  const addressNotes = set.counters(
    'client_address_headers_ignored_total',
    "Headers for the user's address that gave none: malformed, naming no user, another than CLIENT_IP_HEADER, missing, or of a private peer outside TRUST_PROXY",
    by('reason', noteReasons),
  )
  const countLatency = latencyCounter(set)
  const tallyOf = tallyFinder(requests)
  const listener: Listener = {
    requestEnded(exchange, status, durationMs) {
      const { area, request } = exchange
      const { problem } = exchange
      // What operators hold is not a failure.
      if (status >= 500 && problem !== 'held') {
        const isOwn = problem !== undefined && ownProblems.has(problem)
        count(serverErrors[isOwn ? 'gateway' : 'provider'])
      } else if (area === 'quote' && status === 200) countLatency(exchange, durationMs)
      count(tallyOf(area, request.method ?? '', status))
      durations[area].observe(durationMs / 1_000)
    },
    problemAnswered: ({ slug }) => count(answered[slug]),
    addressNoted({ note }) {
      if (note !== undefined) count(addressNotes[note])
    },
    rateLimited: (area) => count(limited[area]),
  }
  const counts = () => ({
    requests: Object.values<Tally>(requests).reduce((sum, { value }) => sum + value, 0),
    /** Client-address headers of private peers outside TRUST_PROXY. */
    untrustedHeaders: addressNotes['untrusted-header'].value,
    otherHeaders: addressNotes['other-header'].value,
    missingHeaders: addressNotes['no-header'].value,
  })
  return { listener, counts }
}

function watchLastQuote(set: MetricSet): { ms: number } {
  const lastQuote = { ms: Date.now() }
  set.gauge(
    'last_quote_timestamp_seconds',
    'When a user was last given a quote, cached or fresh; before the first, when the gateway started',
    () => lastQuote.ms / 1_000,
  )
  return lastQuote
}

function countQuotes(set: MetricSet, pairs: readonly string[]) {
  const named = new Set(pairs)
  const ofPair = <Series>(
    byPair: Readonly<Record<string, Series>>,
    pair: string,
  ): Series => byPair[named.has(pair) ? pair : otherPair] as Series
  const uncacheable: Readonly<Record<string, Tally>> = set.counters(
    'quotes_uncacheable_total',
    'Answers to quote calls that were relayed and not kept, by reason, and by the code of the error',
    notKept,
  )
  const lifetime = set.histogram(
    'quote_lifetime_seconds',
    'Time that a quote had left when it was stored',
    lifeBounds,
  )
  const remaining = set.histogram(
    'quote_remaining_seconds',
    'Time that a quote had left when it was served',
    lifeBounds,
  )
  const served = set.counters(
    'quotes_served_total',
    'Quotes that users were given, cached or fresh',
    by('pair', pairs),
  )
  const calls = set.counters(
    'quote_calls_total',
    'Quotes that the provider was asked for',
    by('pair', pairs),
  )
  const lookups = set.counters(
    'cache_lookups_total',
    'Quote requests, by what the cache made of them',
    by('result', ['hit', 'shared', 'miss', 'expired', 'collapsed', 'bypass']),
  )
  const evictions = set.counters(
    'cache_evictions_total',
    'Quotes dropped from memory before they were replaced, by reason',
    by('reason', ['capacity', 'order', 'elsewhere']),
  )
  const refreshes = set.counters(
    'quote_refreshes_total',
    'Quotes fetched ahead of their expiry, by outcome',
    by('outcome', ['stored', 'found', 'failed']),
  )
  const lastQuote = watchLastQuote(set)
  const listener: Listener = {
    quoteLookedUp: (result) => count(lookups[result]),
    quoteNotKept(reason, status, code) {
      const counted = status === 429 ? 'limited' : reason
      const named = code === undefined || providerCodes.includes(code) ? code : 'other'
      count(uncacheable[`${counted} ${named}`] ?? uncacheable[`${counted} none`])
    },
    quoteRefreshed: (outcome) => count(refreshes[outcome]),
    quotesDropped: (reason, quotes) => count(evictions[reason], quotes),
    quoteCalled: (pair) => count(ofPair(calls, pair)),
    quoteServed(pair, leftMs, nowMs, lookup) {
      lastQuote.ms = nowMs
      if (lookup !== undefined) count(lookups[lookup])
      count(ofPair(served, pair))
      remaining.observe(leftMs / 1_000)
    },
    quoteKept: (leftMs) => lifetime.observe(leftMs / 1_000),
  }
  return { listener, lookups }
}

function countOrders(set: MetricSet) {
  const quoteAge = set.histogram(
    'float_order_quote_age_seconds',
    'Age of the quote that a float order was matched with',
    ageBounds,
  )
  const orders = set.counters(
    'float_orders_total',
    'Float orders by what was decided and why',
    decisions,
  )
  const byMatch = Object.entries(statesByRule).flatMap(([rule, states]) =>
    states.map((state) => [`${state} ${rule}`, { decision: state, rule }] as const),
  )
  const matches: Readonly<Record<string, Tally>> = set.counters(
    'float_order_matches_total',
    'Float orders by the state of their quote and the rule that found it',
    Object.fromEntries(byMatch),
  )
  const repeated = set.counter(
    'float_orders_repeated_total',
    'Float orders that were sent for a quote that an order of the same user had used already',
  )
  const keyed = set.counters(
    'order_keys_total',
    'Orders with an Idempotency-Key, and keys that made room, by what came of them',
    by('result', keyResults),
  )
  const listener: Listener = {
    quoteOrderedAgain: () => count(repeated),
    orderKeyed: (result) => count(keyed[result]),
    orderDecided(_exchange, decision, { verdict: { state, rule }, quoteAgeMs }) {
      count(orders[decision])
      count(matches[`${state} ${rule}`])
      if (quoteAgeMs !== undefined) quoteAge.observe(quoteAgeMs / 1_000)
    },
  }
  /** Orders that were not judged, because the store could not be asked. */
  const withoutStore = matches['unknown store-away']
  return { listener, orders, withoutStore }
}

function countUpstreams(set: MetricSet): Listener {
  const byUpstream = by('upstream', upstreamNames)
  const requests = set.counters(
    'upstream_requests_total',
    'Requests meant for an upstream, by how they ended',
    cross(byUpstream, by('outcome', outcomes)),
  )
  const durations = set.histograms(
    'upstream_request_duration_seconds',
    'Time from a request that was sent to the end of the answer of its upstream, retries included',
    callBounds,
    byUpstream,
  )
  const retries = set.counters(
    'upstream_retries_total',
    'Requests that were sent again',
    byUpstream,
  )
  return {
    callRefused: (upstream, _traffic, outcome) =>
      count(requests[`${upstream} ${outcome}`]),
    callEnded({ upstream }, outcome, durationMs) {
      count(requests[`${upstream} ${outcome}`])
      if (!refusals.includes(outcome)) durations[upstream].observe(durationMs / 1_000)
    },
    callRetried: (upstream) => count(retries[upstream]),
  }
}

function countStore(set: MetricSet): Listener {
  const operations = set.counters(
    'store_operations_total',
    'Calls of the shared store',
    cross(by('op', storeOperations), by('outcome', storeOutcomes)),
  )
  const duration = set.histogram(
    'store_operation_duration_seconds',
    'Time that a call of the shared store took, also one that failed',
    storeBounds,
  )
  return {
    storeAsked(operation, outcome, durationMs) {
      count(operations[`${operation} ${outcome}`])
      if (outcome !== 'skipped') duration.observe(durationMs / 1_000)
    },
  }
}

/** Counts events, and returns the counts for the console. `pairs`: pairs with their own series, and `other`. */
export function countEvents(set: MetricSet, pairs: readonly string[]) {
  const requests = countRequests(set)
  const quotes = countQuotes(set, pairs)
  const orders = countOrders(set)
  const spansDropped = set.counter(
    'trace_spans_dropped_total',
    'Spans that were not exported: too many waited, or the collector did not take them',
  )
  return {
    listener: {
      ...requests.listener,
      ...quotes.listener,
      ...orders.listener,
      ...countUpstreams(set),
      ...countStore(set),
      spansDropped: (spans) => count(spansDropped, spans),
    } satisfies Listener,
    requestCounts: requests.counts,
    quoteCounts: () => ({
      lookups: valuesOf(quotes.lookups),
      orders: valuesOf(orders.orders),
      ordersWithoutStore: orders.withoutStore?.value ?? 0,
    }),
  }
}

/** Undefined: what happened has no series. */
function count(tally: Tally | undefined, times = 1): void {
  if (tally !== undefined) tally.value += times
}

function valuesOf<Name extends string>(
  tallies: Readonly<Record<Name, Tally>>,
): Record<Name, number> {
  const entries = Object.entries<Tally>(tallies)
  return Object.fromEntries(entries.map(([name, { value }]) => [name, value])) as Record<
    Name,
    number
  >
}
