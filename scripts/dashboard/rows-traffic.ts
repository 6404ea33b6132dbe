import { of, quantile, type Row, rate, redFrom, type Step } from './panel.ts'
import { thresholds } from './thresholds.ts'

const stepsOf = (long: number, slowly: number, fast: number): readonly Step[] => [
  { from: null, color: 'green' },
  { from: long, color: 'yellow' },
  { from: slowly, color: 'yellow' },
  { from: fast, color: 'red' },
]
const errorSteps = stepsOf(thresholds.errorsLong, thresholds.errorsSlowly, thresholds.errorsFast)
const slowSteps = stepsOf(thresholds.slowLong, thresholds.slowSlowly, thresholds.slowFast)

export const traffic: Row = {
  title: 'Traffic',
  panels: [
    {
      title: 'Requests by route',
      description:
        'What clients ask for. Good: the usual day. none is a path that is not served: a typo, a scanner.',
      kind: 'timeseries',
      unit: 'reqps',
      queries: [{ expr: `sum by (route) (${rate('quotegate_http_requests_total')})`, legend: '{{route}}' }],
      stacked: true,
      least: 0,
    },
    {
      title: 'Requests by status',
      description:
        'How they ended. Good: 2xx. aborted are clients that left before their answer was whole, or answers that an ' +
        'upstream broke off.',
      kind: 'timeseries',
      unit: 'reqps',
      queries: [
        {
          expr: `sum by (status_class) (${rate('quotegate_http_requests_total')})`,
          legend: '{{status_class}}',
        },
      ],
      stacked: true,
      least: 0,
      runbook: 'quotegateprovidererrors',
    },
    {
      title: 'Share of 5xx',
      description:
        'By who is to blame: the provider (relayed, or because it failed) or the gateway itself. Good: below 0.1 %, the ' +
        'objective of each. The lines are where the alerts begin.',
      kind: 'timeseries',
      unit: 'percentunit',
      queries: [
        {
          expr:
            `sum by (source) (${rate('quotegate_server_errors_total')}) / on () group_left () ` +
            `sum(${rate('quotegate_http_requests_total')})`,
          legend: '{{source}}',
        },
      ],
      steps: errorSteps,
      least: 0,
      runbook: 'quotegateprovidererrors',
    },
    {
      title: 'Share of slow quotes',
      description:
        'Hits that took more than 25 ms, and misses that took 50 ms more than the provider. Good: below 1 %, the ' +
        'objective. The lines are where the alerts begin.',
      kind: 'timeseries',
      unit: 'percentunit',
      queries: [
        {
          expr:
            `sum(${rate('quotegate_quote_latency_total', 'objective="missed"')}) / ` +
            `sum(${rate('quotegate_quote_latency_total')})`,
          legend: 'slow',
        },
      ],
      steps: slowSteps,
      least: 0,
      runbook: 'quotegateslow',
    },
    {
      title: 'Share broken off',
      description:
        'Requests without a whole answer: clients that left, and answers that an upstream broke off. Good: a few per ' +
        'cent. The line is where the alert begins.',
      kind: 'timeseries',
      unit: 'percentunit',
      queries: [
        {
          expr:
            `sum(${rate('quotegate_http_requests_total', 'status_class="aborted"')}) / ` +
            `sum(${rate('quotegate_http_requests_total')})`,
          legend: 'broken off',
        },
      ],
      steps: redFrom(thresholds.brokenOffShare),
      least: 0,
      runbook: 'quotegaterequestsbrokenoff',
    },
    {
      title: 'Share failed, by route',
      description:
        'Of the requests of each route those that were answered with a 5xx or broken off: a route with little traffic ' +
        'does not show in the shares of all. Good: near 0. The line is where the alert begins.',
      kind: 'timeseries',
      unit: 'percentunit',
      queries: [
        {
          expr:
            `sum by (route) (${rate('quotegate_http_requests_total', 'status_class=~"5xx|aborted"')}) / ` +
            `sum by (route) (${rate('quotegate_http_requests_total')})`,
          legend: '{{route}}',
        },
      ],
      steps: redFrom(thresholds.routeFailedShare),
      least: 0,
      runbook: 'quotegateroutefails',
    },
    {
      title: 'Duration',
      description:
        'From the head of a request to the end of its answer. Good: a median below a millisecond where most quotes ' +
        'are hits, and a p99 like that of the upstreams.',
      kind: 'timeseries',
      unit: 's',
      queries: [0.5, 0.95, 0.99].map((share) => ({
        expr: quantile(share, 'quotegate_http_request_duration_seconds'),
        legend: `p${share * 100}`,
      })),
      least: 0,
      runbook: 'it-is-slow',
    },
    {
      title: 'p95 by route',
      description:
        'Good: each near its upstream. One alone that rises is that upstream; all together, this process.',
      kind: 'timeseries',
      unit: 's',
      queries: [
        {
          expr: quantile(0.95, 'quotegate_http_request_duration_seconds', 'le, route'),
          legend: '{{route}}',
        },
      ],
      least: 0,
      runbook: 'it-is-slow',
    },
    {
      title: 'Requests in flight',
      description: 'Good: small and flat. A ramp is an upstream that has stopped answering.',
      kind: 'timeseries',
      unit: 'none',
      queries: [{ expr: of('quotegate_http_requests_in_flight'), legend: '{{instance}}' }],
      least: 0,
      runbook: 'it-is-slow',
    },
    {
      title: 'Problems by type',
      description:
        'Answers that the gateway made itself, each explained in docs/problems.md. Good: none of the 5xx kind, few of ' +
        'the others.',
      kind: 'timeseries',
      unit: 'reqps',
      queries: [{ expr: `sum by (type) (${rate('quotegate_problems_total')}) > 0`, legend: '{{type}}' }],
      stacked: true,
      least: 0,
      runbook: 'quotegateprovidererrors',
    },
    {
      title: 'Clients turned away in five minutes',
      description:
        'Connections past CLIENT_CONNECTIONS, told 503 before a request is read: they are in no other panel but ' +
        'Problems by type. Good: 0. The line is where the alert begins.',
      kind: 'timeseries',
      unit: 'none',
      queries: [
        {
          expr: `sum by (instance) (increase(${of('quotegate_problems_total', 'type="too-many-connections"')}[5m]))`,
          legend: '{{instance}}',
        },
      ],
      steps: redFrom(thresholds.turnedAway),
      least: 0,
      runbook: 'quotegateclientsturnedaway',
    },
    {
      title: 'Requests over the rate limit',
      description: 'Refused with 429 by RATE_LIMIT_PER_MINUTE. Good: 0, or one client that is known for it.',
      kind: 'timeseries',
      unit: 'reqps',
      queries: [{ expr: `sum by (route) (${rate('quotegate_rate_limited_total')})`, legend: '{{route}}' }],
      least: 0,
      runbook: 'clients-get-429',
    },
    {
      title: 'Client-address headers ignored',
      description:
        'Good: 0. untrusted-header: a peer in our own network is not in TRUST_PROXY, and all its users look like that ' +
        'peer to the provider. other-header: so do those of a trusted proxy that does not send CLIENT_IP_HEADER but another ' +
        'such header. malformed-header, no-client-named: a trusted proxy names no client, and the provider is ' +
        'told for=unknown.',
      kind: 'timeseries',
      unit: 'reqps',
      queries: [
        {
          expr: `sum by (reason) (${rate('quotegate_client_address_headers_ignored_total')})`,
          legend: '{{reason}}',
        },
      ],
      least: 0,
      runbook: 'users-look-as-if-they-were-one',
    },
  ],
}
