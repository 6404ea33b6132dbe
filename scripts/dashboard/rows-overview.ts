import { of, type Panel, quantile, type Row, rate, redFrom, type Step } from './panel.ts'
import { thresholds } from './thresholds.ts'

const savedLookups = rate('quotegate_cache_lookups_total', 'result=~"hit|shared|collapsed"')
const allLookups = rate('quotegate_cache_lookups_total')
export const refusedShare = shareOfOrders('refused')
export const reportedShare = shareOfOrders('reported')

function shareOfOrders(decision: string): string {
  const decided = rate('quotegate_float_orders_total', `decision="${decision}"`)
  return `sum(${decided}) / sum(${rate('quotegate_float_orders_total')})`
}

const availabilitySteps: readonly Step[] = [
  { from: null, color: 'red' },
  { from: 1 - thresholds.errorsFast, color: 'yellow' },
  { from: 1 - thresholds.errorsSlowly, color: 'green' },
]

const anyBreaker: Panel = {
  title: 'Breakers not closed',
  description:
    'Good: 0. Each one more stands for requests that keep failing and are not sent; cached quotes are served meanwhile.',
  kind: 'stat',
  unit: 'none',
  queries: [{ expr: `sum(${of('quotegate_breaker_state', 'state!="closed"')})`, legend: 'not closed' }],
  // Whole numbers: more than none is one.
  steps: redFrom(thresholds.breakersNotClosed + 1),
  runbook: 'quotegatebreakeropen',
}

const allRequests = `sum(increase(${of('quotegate_http_requests_total')}[30d]))`
const budgetLeft = (bad: string, all: string, allowed: number) =>
  `1 - sum(increase(${bad}[30d])) / ${all} / ${allowed}`

const errorBudget: Panel = {
  title: 'Error budget left, 30 d',
  description:
    'What is left of the failures that the objectives allow in 30 days: 0.1 % of the requests for the 5xx of the provider, ' +
    'and as many for those of the gateway itself; 1 % of the quotes for slow ones. Good: above 0; below, the objective was missed.',
  kind: 'stat',
  unit: 'percentunit',
  queries: [
    {
      expr: budgetLeft(of('quotegate_server_errors_total', 'source="provider"'), allRequests, 0.001),
      legend: 'provider',
    },
    {
      expr: budgetLeft(of('quotegate_server_errors_total', 'source="gateway"'), allRequests, 0.001),
      legend: 'gateway',
    },
    {
      expr: budgetLeft(
        of('quotegate_quote_latency_total', 'objective="missed"'),
        `sum(increase(${of('quotegate_quote_latency_total')}[30d]))`,
        0.01,
      ),
      legend: 'latency',
    },
  ],
  steps: [
    { from: null, color: 'red' },
    { from: 0, color: 'yellow' },
    { from: 0.25, color: 'green' },
  ],
  runbook: 'quotegateprovidererrors',
  width: 24,
}

export const overview: Row = {
  title: 'At a glance',
  panels: [
    {
      title: 'Availability, 1 h',
      description:
        'The share of requests of the last hour that were not answered with a 5xx. Good: 99.9 % and more. Red: at ' +
        'this pace the month is used up in two days.',
      kind: 'stat',
      unit: 'percentunit',
      queries: [
        {
          expr:
            `1 - sum(${rate('quotegate_http_requests_total', 'status_class="5xx"', '1h')}) / ` +
            `sum(${rate('quotegate_http_requests_total', '', '1h')})`,
          legend: 'availability',
        },
      ],
      steps: availabilitySteps,
      runbook: 'quotegateprovidererrors',
    },
    {
      title: 'Hit ratio',
      description:
        'The share of quote requests that cost the provider no call of their own. Good: what it was yesterday; how ' +
        'high that is depends on who may share a quote (docs/partitions.md).',
      kind: 'stat',
      unit: 'percentunit',
      queries: [{ expr: `sum(${savedLookups}) / sum(${allLookups})`, legend: 'hit ratio' }],
      runbook: 'quotegatehitratiocollapsed',
    },
    {
      title: 'p95',
      description:
        'The time that 95 of 100 requests stay below. Good: near that of the upstreams, or far below it where quotes ' +
        'are hits.',
      kind: 'stat',
      unit: 's',
      queries: [{ expr: quantile(0.95, 'quotegate_http_request_duration_seconds'), legend: 'p95' }],
      runbook: 'it-is-slow',
    },
    {
      title: 'Upstream errors',
      description:
        'The share of requests to upstreams that ended without a usable answer, clients that left aside. Good: below 1 %.',
      kind: 'stat',
      unit: 'percentunit',
      queries: [
        {
          expr:
            `sum(${rate('quotegate_upstream_requests_total', 'outcome!~"answered|given-up"')}) / ` +
            `sum(${rate('quotegate_upstream_requests_total', 'outcome!="given-up"')})`,
          legend: 'errors',
        },
      ],
      runbook: 'quotegatebreakeropen',
    },
    {
      title: 'Orders refused',
      description:
        'The share of float orders that were refused because their quote had expired or was unknown. Good: a few per cent.',
      kind: 'stat',
      unit: 'percentunit',
      queries: [{ expr: refusedShare, legend: 'refused' }],
      steps: redFrom(thresholds.refusedShare),
      runbook: 'quotegateordersrefused',
    },
    anyBreaker,
    errorBudget,
  ],
}
