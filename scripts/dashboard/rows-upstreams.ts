import { of, quantile, type Row, rate, redFrom } from './panel.ts'
import { thresholds } from './thresholds.ts'

/** Of all instances of a job together. */
const recorded = 'quotegate:upstream_duration_seconds:p95_10m{job=~"$job"}'

export const upstreams: Row = {
  title: 'Upstreams',
  panels: [
    {
      title: 'Requests by outcome',
      description:
        'How requests to upstreams ended. Good: answered. given-up: the client left. breaker_open and ' +
        'connection_limit_reached were never sent.',
      kind: 'timeseries',
      unit: 'reqps',
      queries: [
        {
          expr: `sum by (upstream, outcome) (${rate('quotegate_upstream_requests_total')}) > 0`,
          legend: '{{upstream}}: {{outcome}}',
        },
      ],
      stacked: true,
      least: 0,
      runbook: 'quotegatebreakeropen',
    },
    {
      title: 'Upstream duration, p95',
      description: "Good: flat. Compare with p95 by route: the difference is the gateway's own.",
      kind: 'timeseries',
      unit: 's',
      queries: [
        {
          expr: quantile(0.95, 'quotegate_upstream_request_duration_seconds', 'le, upstream'),
          legend: '{{upstream}}',
        },
      ],
      least: 0,
      runbook: 'it-is-slow',
    },
    {
      title: 'Upstream p95 against the last day',
      description:
        'The p95 of ten minutes, as a multiple of its median over a day; both by the recording rule of alerts.yml. ' +
        'Good: about 1. From 2 on, and with half a second more: the alert.',
      kind: 'timeseries',
      unit: 'none',
      queries: [
        { expr: `${recorded} / quantile_over_time(0.5, ${recorded}[1d])`, legend: '{{job}}: {{upstream}}' },
      ],
      least: 0,
      steps: redFrom(thresholds.slowerThanUsual),
      runbook: 'quotegateproviderslow',
    },
    {
      title: 'Upstream requests in flight',
      description:
        'In flight or waiting for a connection. Good: below UPSTREAM_CONNECTIONS (128); requests beyond it wait, and ' +
        'past eight times as many they are refused.',
      kind: 'timeseries',
      unit: 'none',
      queries: [{ expr: of('quotegate_upstream_requests_in_flight'), legend: '{{upstream}} {{instance}}' }],
      least: 0,
      runbook: 'it-is-slow',
    },
    {
      title: 'Connections to upstreams',
      description:
        'Busy with a request, or idle. Good: busy below UPSTREAM_CONNECTIONS (128); at it, requests wait. On the swap ' +
        'side all but float orders wait from seven eighths of it on (112).',
      kind: 'timeseries',
      unit: 'none',
      queries: [
        {
          expr: of('quotegate_upstream_connections'),
          legend: '{{upstream}}: {{state}} {{instance}}',
        },
      ],
      least: 0,
      runbook: 'it-is-slow',
    },
    {
      title: 'Retries',
      description:
        'Requests sent again. Good: near 0; at most one for each request, and none while connections are stopped.',
      kind: 'timeseries',
      unit: 'reqps',
      queries: [
        { expr: `sum by (upstream) (${rate('quotegate_upstream_retries_total')})`, legend: '{{upstream}}' },
      ],
      least: 0,
      runbook: 'quotegatebreakeropen',
    },
    {
      title: 'Breakers not closed, by upstream',
      description:
        'Good: 0 throughout. 1 while requests are not sent (open) or one of them tries (half-open): all that need ' +
        'connections, or those of one kind.',
      kind: 'state-timeline',
      unit: 'none',
      queries: [
        {
          expr: `sum by (upstream, breaker, instance) (${of('quotegate_breaker_state', 'state!="closed"')})`,
          legend: '{{upstream}}: {{breaker}} {{instance}}',
        },
      ],
      steps: redFrom(thresholds.breakersNotClosed + 1),
      runbook: 'quotegatebreakeropen',
    },
    {
      title: 'Pairs stopped',
      description:
        'Pairs whose quotes keep failing and are not asked for. Good: 0. Other pairs and orders go on.',
      kind: 'timeseries',
      unit: 'none',
      queries: [
        {
          expr: `sum by (pair, instance) (${of('quotegate_breaker_open_pairs')})`,
          legend: '{{pair}} {{instance}}',
        },
      ],
      least: 0,
      steps: redFrom(thresholds.pairsStopped + 1),
      runbook: 'quotegatepairsstopped',
    },
    {
      title: 'Limited by the provider',
      description:
        'Share of the quotes that the provider was asked for and answered with 429. The client is then not asked for again ' +
        'until its Retry-After is over. Good: 0. Live quotes are served, and orders go on.',
      kind: 'timeseries',
      unit: 'percentunit',
      queries: [
        {
          expr: `sum by (instance) (${rate('quotegate_quote_cool_downs_total')}) / sum by (instance) (${rate('quotegate_quote_calls_total')})`,
          legend: '{{instance}}',
        },
      ],
      least: 0,
      steps: redFrom(thresholds.quotesLimited),
      runbook: 'quotegateproviderlimits',
    },
    {
      title: "The provider's clock less ours",
      description: 'Good: 0. Past 2 s either way quotes seem to live longer or shorter than they do.',
      kind: 'timeseries',
      unit: 's',
      queries: [{ expr: of('quotegate_upstream_clock_offset_seconds'), legend: '{{upstream}} {{instance}}' }],
      steps: [
        { from: null, color: 'red' },
        { from: -thresholds.clockOffsetSeconds, color: 'green' },
        { from: thresholds.clockOffsetSeconds, color: 'red' },
      ],
      runbook: 'quotegateclockoffset',
    },
    {
      title: "Providers whose clock isn't known",
      description: 'Good: 0. At 1 no answer had a Date that can be read, and quotes end by our clock alone.',
      kind: 'timeseries',
      unit: 'none',
      queries: [{ expr: of('quotegate_upstream_clock_unknown'), legend: '{{upstream}} {{instance}}' }],
      steps: redFrom(thresholds.clocksUnknown + 1),
      runbook: 'quotegateclockunknown',
    },
  ],
}
