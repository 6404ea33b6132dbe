import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import { type ProblemSlug, problemTypes } from './problem.ts'

const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const
const statusClasses = ['aborted', '1xx', '2xx', '3xx', '4xx', '5xx'] as const
const routes = ['quote', 'float-order', 'order', 'swap', 'payments', 'webhooks', 'none'] as const

type Route = (typeof routes)[number]
interface Increment {
  inc(): void
}

export interface Gauges {
  cacheEntries(): number
  cacheBytes(): number
  clockOffsetMs(): number
}

const floatOrderDecisions = [
  'forwarded-live',
  'forwarded-unknown',
  'refused-expired',
  'refused-unknown',
] as const
export type FloatOrderDecision = (typeof floatOrderDecisions)[number]

const upstreamNames = ['swap', 'payments', 'webhooks'] as const
const outcomes = [
  'answered',
  'failed-status',
  'given-up',
  'connection_refused',
  'connection_timeout',
  'connection_terminated',
  'connection_limit_reached',
  'destination_unavailable',
  'dns_error',
  'tls_certificate_error',
  'http_response_timeout',
  'http_response_incomplete',
  'http_response_body_size',
  'http_protocol_error',
  'breaker_open',
] as const
const breakerStates = ['closed', 'open', 'half-open'] as const

export interface UpstreamMetrics {
  onRequest(outcome: (typeof outcomes)[number], durationMs: number): void
  onRetry(): void
  onBreaker(state: (typeof breakerStates)[number]): void
}

/** Everything the gateway counts, in a registry of its own: two gateways in one process share nothing. */
export interface Metrics {
  cacheLookups: Readonly<Record<'hit' | 'miss' | 'expired' | 'collapsed' | 'bypass', Increment>>
  cacheEvictions: Increment
  refreshes: Readonly<Record<'stored' | 'failed', Increment>>
  quotesNotKept(reason: string): void
  countFloatOrder(decision: FloatOrderDecision, quoteAgeMs: number | undefined): void
  upstreams: Readonly<Record<(typeof upstreamNames)[number], UpstreamMetrics>>
  /** What is read at each scrape rather than counted. */
  observe(gauges: Gauges): void
  /** A status of 0 is a request whose client left, or whose answer broke off. */
  countRequest(request: { area: Route; method: string; status: number }): void
  problems: Readonly<Record<ProblemSlug, Increment>>
  clientAddressNotes: Readonly<Record<'malformed-header' | 'untrusted-header', Increment>>
  contentType: string
  render(): Promise<string>
}

export function createMetrics(options: { version: string; notKeptReasons: readonly string[] }): Metrics {
  const registry = new Registry()
  const registers = [registry]
  collectDefaultMetrics({ register: registry })
  // `promtool check metrics` refuses these gauges for their names.
  for (const name of [
    'nodejs_active_handles_total',
    'nodejs_active_requests_total',
    'nodejs_active_resources_total',
  ]) {
    registry.removeSingleMetric(name)
  }

  new Gauge({
    name: 'quotegate_build_info',
    help: 'Version of the gateway and of Node; always 1',
    labelNames: ['version', 'node_version'],
    registers,
  }).set({ version: options.version, node_version: process.version }, 1)

  const requests = new Counter({
    name: 'quotegate_http_requests_total',
    help: 'Requests answered or broken off, by part of the service',
    labelNames: ['route', 'method', 'status_class'],
    registers,
  })
  const problems = new Counter({
    name: 'quotegate_problems_total',
    help: 'Answers made by the gateway itself, by problem type',
    labelNames: ['type'],
    registers,
  })
  const addressNotes = new Counter({
    name: 'quotegate_client_address_headers_ignored_total',
    help: 'Client-address headers that changed nothing: malformed, or sent by a private peer outside TRUST_PROXY',
    labelNames: ['reason'],
    registers,
  })

  const lookups = new Counter({
    name: 'quotegate_cache_lookups_total',
    help: 'Quote requests, by what the cache made of them',
    labelNames: ['result'],
    registers,
  })
  const evictions = new Counter({
    name: 'quotegate_cache_evictions_total',
    help: 'Quotes dropped from memory before their time, by reason',
    labelNames: ['reason'],
    registers,
  })
  const refreshes = new Counter({
    name: 'quotegate_quote_refreshes_total',
    help: 'Quotes fetched ahead of their expiry, by outcome',
    labelNames: ['outcome'],
    registers,
  })
  const notKept = new Counter({
    name: 'quotegate_quotes_uncacheable_total',
    help: 'Answers to quote calls that were relayed and not kept, by reason',
    labelNames: ['reason'],
    registers,
  })
  const floatOrders = new Counter({
    name: 'quotegate_float_orders_total',
    help: 'Float orders by what was decided and why',
    labelNames: ['decision', 'reason'],
    registers,
  })
  const floatOrderCounters = Object.fromEntries(
    floatOrderDecisions.map((name) => {
      const [decision = '', reason = ''] = name.split('-')
      const child = floatOrders.labels(decision, reason)
      child.inc(0)
      return [name, child]
    }),
  ) as Record<FloatOrderDecision, Increment>
  const upstreamRequests = new Counter({
    name: 'quotegate_upstream_requests_total',
    help: 'Requests meant for an upstream, by how they ended',
    labelNames: ['upstream', 'outcome'],
    registers,
  })
  const upstreamDuration = new Histogram({
    name: 'quotegate_upstream_request_duration_seconds',
    help: 'Time from a request to the end of the answer of its upstream',
    labelNames: ['upstream'],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    registers,
  })
  const upstreamRetries = new Counter({
    name: 'quotegate_upstream_retries_total',
    help: 'Requests that were sent again',
    labelNames: ['upstream'],
    registers,
  })
  const breakerState = new Gauge({
    name: 'quotegate_breaker_state',
    help: 'Whether the breaker of an upstream is in this state: 1 or 0',
    labelNames: ['upstream', 'state'],
    registers,
  })

  function upstreamMetrics(upstream: string): UpstreamMetrics {
    const counters = Object.fromEntries(
      outcomes.map((outcome) => [outcome, upstreamRequests.labels(upstream, outcome)]),
    )
    for (const counter of Object.values(counters)) counter.inc(0)
    upstreamDuration.zero({ upstream })
    const durations = upstreamDuration.labels(upstream)
    const retries = upstreamRetries.labels(upstream)
    retries.inc(0)
    const onBreaker = (state: string) => {
      for (const name of breakerStates) breakerState.labels(upstream, name).set(name === state ? 1 : 0)
    }
    onBreaker('closed')
    return {
      onRequest(outcome, durationMs) {
        counters[outcome]?.inc()
        durations.observe(durationMs / 1_000)
      },
      onRetry: () => retries.inc(),
      onBreaker,
    }
  }

  const quoteAge = new Histogram({
    name: 'quotegate_float_order_quote_age_seconds',
    help: 'Age of the quote that a float order was matched with',
    buckets: [0.1, 0.5, 1, 2, 5, 10, 15, 20, 25, 30, 45, 60, 120, 300, 900],
    registers,
  })
  const notKeptCounters = children(notKept, options.notKeptReasons)

  function gauge(name: string, help: string, read: () => number, labels: Record<string, string> = {}): void {
    new Gauge({
      name,
      help,
      labelNames: Object.keys(labels),
      registers,
      collect() {
        this.set(labels, read())
      },
    })
  }

  // Children are held, because looking one up by a label object costs microseconds; and made at once, so
  // that rate() sees the first event of each.
  const requestCounters = new Map<string, Counter.Internal>()
  for (const route of routes) {
    for (const method of [...methods, 'other']) {
      for (const statusClass of statusClasses) {
        const child = requests.labels(route, method, statusClass)
        child.inc(0)
        requestCounters.set(route + method + statusClass, child)
      }
    }
  }

  return {
    countRequest({ area, method, status }) {
      const statusClass = statusClasses[Math.floor(status / 100)] ?? '5xx'
      const known = requestCounters.get(area + method + statusClass)
      ;(known ?? requestCounters.get(`${area}other${statusClass}`))?.inc()
    },
    upstreams: {
      swap: upstreamMetrics('swap'),
      payments: upstreamMetrics('payments'),
      webhooks: upstreamMetrics('webhooks'),
    },
    cacheLookups: children(lookups, ['hit', 'miss', 'expired', 'collapsed', 'bypass']),
    cacheEvictions: children(evictions, ['capacity']).capacity,
    refreshes: children(refreshes, ['stored', 'failed']),
    countFloatOrder(decision, quoteAgeMs) {
      floatOrderCounters[decision].inc()
      if (quoteAgeMs !== undefined) quoteAge.observe(quoteAgeMs / 1_000)
    },
    quotesNotKept: (reason) => notKeptCounters[reason]?.inc(),
    observe(gauges) {
      gauge('quotegate_cache_entries', 'Quotes in memory, expired ones among them', gauges.cacheEntries)
      gauge('quotegate_cache_bytes', 'Bytes of the quotes in memory', gauges.cacheBytes)
      gauge(
        'quotegate_upstream_clock_offset_seconds',
        "The provider's clock less ours, as far as its answers tell; 0 while they may agree",
        () => gauges.clockOffsetMs() / 1_000,
        { upstream: 'swap' },
      )
    },
    problems: children(problems, Object.keys(problemTypes) as ProblemSlug[]),
    clientAddressNotes: children(addressNotes, ['malformed-header', 'untrusted-header']),
    contentType: registry.contentType,
    render: () => registry.metrics(),
  }
}

function children<Label extends string>(
  counter: Counter,
  labels: readonly Label[],
): Record<Label, Increment> {
  const held: Partial<Record<Label, Increment>> = {}
  for (const label of labels) {
    const child = counter.labels(label)
    child.inc(0)
    held[label] = child
  }
  return held as Record<Label, Increment>
}
