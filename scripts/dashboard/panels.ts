import { troubles, usableReasons } from '../../src/operations/trouble-table.ts'

export interface Query {
  expr: string
  legend: string
}

export interface Panel {
  title: string
  /** What good looks like. */
  description: string
  unit: string
  queries: readonly Query[]
  /** From where on it is bad, in colours; those of an alert are the alert's. */
  steps?: readonly Step[]
  stacked?: boolean
  /** The alert whose section of docs/runbook.md to read when it looks bad, or another section. */
  alert?: string
  section?: string
}

export interface Step {
  from: number | null
  color: 'green' | 'yellow' | 'red'
}

/** A metric of the gateways that are looked at. */
function of(metric: string, matchers = ''): string {
  return `${metric}{job=~"$job",instance=~"$instance"${matchers === '' ? '' : `,${matchers}`}}`
}

const interval = '$__rate_interval'

function rate(metric: string, matchers = '', over = interval): string {
  return `rate(${of(metric, matchers)}[${over}])`
}

function quantile(share: number, histogram: string, by = 'le'): string {
  return `histogram_quantile(${share}, sum by (${by}) (${rate(`${histogram}_bucket`)}))`
}

/** One line for each combination of the labels. */
function ratesBy(metric: string, ...labels: string[]): Query[] {
  const legend = labels.map((label) => `{{${label}}}`).join(', ')
  return [{ expr: `sum by (${labels.join(', ')}) (${rate(metric)}) > 0`, legend }]
}

const shareOf = (part: string, whole: string) => `sum(${part}) / sum(${whole})`

/** Good below the first number; each is one colour worse. */
function worseFrom(...numbers: number[]): readonly Step[] {
  const worst = numbers.length - 1
  return [
    { from: null, color: 'green' },
    ...numbers.map(
      (from, index): Step => ({ from, color: index === worst ? 'red' : 'yellow' }),
    ),
  ]
}

/** Bad below the number. */
const goodFrom = (from: number): readonly Step[] => [
  { from: null, color: 'red' },
  { from, color: 'green' },
]

const requests = 'quotegate_http_requests_total'
const orders = 'quotegate_float_orders_total'

const allRequests = `sum(increase(${of(requests)}[30d]))`
const budgetLeft = (bad: string, all: string, allowed: number) =>
  `1 - sum(increase(${bad}[30d])) / ${all} / ${allowed}`

/** In a row of its own at the top. */
export const errorBudget: Panel = {
  title: 'Error budget left, 30 d',
  description:
    'What is left of the failures that the objectives allow in 30 days: 0.1 % of the requests for the 5xx of the provider, ' +
    'and as many for those of the gateway itself; 1 % of the quotes for slow ones. Good: above 0; below, the objective was missed.',
  unit: 'percentunit',
  queries: [
    {
      expr: budgetLeft(
        of('quotegate_server_errors_total', 'source="provider"'),
        allRequests,
        0.001,
      ),
      legend: 'provider',
    },
    {
      expr: budgetLeft(
        of('quotegate_server_errors_total', 'source="gateway"'),
        allRequests,
        0.001,
      ),
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
  alert: 'QuotegateProviderErrors',
}

const traffic: readonly Panel[] = [
  {
    title: 'Requests by route and status',
    description:
      'What callers ask for, and how it ended. Good: the usual day, 2xx. none is a path that is not served: a typo, a ' +
      'scanner. aborted are callers that left before their answer was whole, or answers that an upstream broke off.',
    unit: 'reqps',
    queries: ratesBy(requests, 'route', 'status_class'),
    stacked: true,
    alert: 'QuotegateProviderErrors',
  },
  {
    title: 'Share of 5xx',
    description:
      'By who is to blame: the provider (relayed, or because it failed) or the gateway itself. Good: below 0.1 %, the ' +
      'objective of each. The lines are where the alerts begin.',
    unit: 'percentunit',
    queries: [
      {
        expr: `sum by (source) (${rate('quotegate_server_errors_total')}) / on () group_left () sum(${rate(requests)})`,
        legend: '{{source}}',
      },
    ],
    steps: worseFrom(
      troubles['provider-errors-long'].limits.share,
      troubles['provider-errors-slow'].limits.share,
      troubles['provider-errors-fast'].limits.share,
    ),
    alert: 'QuotegateProviderErrors',
  },
  {
    title: 'Share of slow quotes',
    description:
      'Hits that took more than 25 ms, and misses that took 50 ms more than the provider. Good: below 1 %, the ' +
      'objective. The lines are where the alerts begin.',
    unit: 'percentunit',
    queries: [
      {
        expr: shareOf(
          rate('quotegate_quote_latency_total', 'objective="missed"'),
          rate('quotegate_quote_latency_total'),
        ),
        legend: 'slow',
      },
    ],
    steps: worseFrom(
      troubles['slow-quotes-long'].limits.share,
      troubles['slow-quotes-slow'].limits.share,
      troubles['slow-quotes-fast'].limits.share,
    ),
    alert: 'QuotegateSlow',
  },
  {
    title: 'Share failed or broken off',
    description:
      'Of the requests of each route those that were answered with a 5xx or broken off: a route with little traffic does ' +
      'not show in the shares of all. Good: near 0. The alert for a route begins at the red line, the one for all ' +
      'requests that were broken off at the yellow one.',
    unit: 'percentunit',
    queries: [
      {
        expr:
          `sum by (route) (${rate(requests, 'status_class=~"5xx|aborted"')}) / ` +
          `sum by (route) (${rate(requests)})`,
        legend: '{{route}}',
      },
      {
        expr: shareOf(rate(requests, 'status_class="aborted"'), rate(requests)),
        legend: 'broken off, of all',
      },
    ],
    steps: worseFrom(troubles['broken-off'].limits.share, troubles.failing.limits.share),
    alert: 'QuotegateRouteFails',
  },
  {
    title: 'Problems by type',
    description:
      'Answers that the gateway made itself, each explained in docs/problems.md. Good: none of the 5xx kind, few of the others.',
    unit: 'reqps',
    queries: ratesBy('quotegate_problems_total', 'type'),
    stacked: true,
    alert: 'QuotegateProviderErrors',
  },
  {
    title: 'p95 by route and upstream',
    description:
      "Good: each route near its upstream, or far below it where quotes are hits. The difference is the gateway's own.",
    unit: 's',
    queries: [
      {
        expr: quantile(0.95, 'quotegate_http_request_duration_seconds', 'le, route'),
        legend: '{{route}}',
      },
      {
        expr: quantile(
          0.95,
          'quotegate_upstream_request_duration_seconds',
          'le, upstream',
        ),
        legend: 'upstream {{upstream}}',
      },
    ],
    section: 'it-is-slow',
  },
  {
    title: 'Connections turned away in five minutes',
    description:
      'Connections past CLIENT_CONNECTIONS, told 503 before a request is read: they are in no other panel but ' +
      'Problems by type. Good: 0. The line is where the alert begins.',
    unit: 'none',
    queries: [
      {
        expr: `sum by (instance) (increase(${of('quotegate_problems_total', 'type="too-many-connections"')}[5m]))`,
        legend: '{{instance}}',
      },
    ],
    steps: worseFrom(troubles['turned-away'].limits.connections),
    alert: 'QuotegateClientsTurnedAway',
  },
]

const lookups = 'quotegate_cache_lookups_total'
const hitRatio = (over: string) =>
  shareOf(rate(lookups, 'result=~"hit|shared|collapsed"', over), rate(lookups, '', over))
const calls = 'quotegate_quote_calls_total'
const notKept = 'quotegate_quotes_uncacheable_total'

const quotes: readonly Panel[] = [
  {
    title: 'Lookups by result',
    description:
      'Good: mostly hit and collapsed. bypass: a user with whom nothing may be shared.',
    unit: 'reqps',
    queries: ratesBy(lookups, 'result'),
    stacked: true,
    alert: 'QuotegateHitRatioCollapsed',
  },
  {
    title: 'Hit ratio against the last day',
    description:
      'The hit ratio of 15 minutes, as a share of that of a day. Good: about 1. Below the line: the alert.',
    unit: 'percentunit',
    queries: [
      { expr: `(${hitRatio('15m')}) / (${hitRatio('1d')})`, legend: 'of the day' },
    ],
    steps: goodFrom(troubles['hit-ratio'].limits.shareOfUsual),
    alert: 'QuotegateHitRatioCollapsed',
  },
  {
    title: 'Calls that brought no valid quote',
    description:
      'The share of calls for a quote that were answered with an error or with nothing that is a live quote; Answers not ' +
      'kept has the reasons. limited: those that were answered with 429, by instance; refused by the limit: requests that ' +
      'were answered with 429 because of it. Good: the usual day, the pairs and amounts that the provider refuses, and ' +
      'none limited. The alert for limited ones begins at the yellow line, the other at the red one.',
    unit: 'percentunit',
    queries: [
      {
        expr: shareOf(rate(notKept, `reason!~"${usableReasons.join('|')}"`), rate(calls)),
        legend: 'no valid quote',
      },
      {
        expr: `sum by (instance) (${rate(notKept, 'reason="limited"')}) / sum by (instance) (${rate(calls)})`,
        legend: 'limited {{instance}}',
      },
      {
        expr:
          `sum by (instance) (${rate('quotegate_problems_total', 'type="provider-limit"')})` +
          ` / sum by (instance) (${rate('quotegate_http_requests_total', 'route="quote"')})`,
        legend: 'refused by the limit {{instance}}',
      },
    ],
    steps: worseFrom(
      troubles['provider-limits'].limits.share,
      troubles['no-quotes'].limits.share,
    ),
    alert: 'QuotegateNoQuotes',
  },
  {
    title: 'Answers not kept',
    description:
      'Good: only status and limited, the errors of the provider. Anything else on every answer means that nothing is cached: the ' +
      'provider changed what it says.',
    unit: 'ops',
    queries: ratesBy(notKept, 'reason'),
    stacked: true,
    alert: 'QuotegateHitRatioCollapsed',
  },
  {
    title: 'Codes of the provider',
    description:
      'The code in the error that the provider gave in place of a quote. other: one that has no series of its own; none: ' +
      'an error without a code. Good: the usual day, the places and amounts that the provider refuses.',
    unit: 'ops',
    queries: [
      {
        expr: `sum by (code) (${rate(notKept, 'reason=~"status|limited|not-a-quote"')}) > 0`,
        legend: '{{code}}',
      },
    ],
    stacked: true,
    alert: 'QuotegateNoQuotes',
  },
  {
    title: 'Since the last quote',
    description:
      'How long ago an instance gave a user a quote, cached or fresh. Good: seconds, wherever quotes are asked for. The ' +
      'alert begins at the line, if no instance has given one since and quotes are asked for.',
    unit: 's',
    queries: [
      {
        expr: `time() - max by (instance) (${of('quotegate_last_quote_timestamp_seconds')})`,
        legend: '{{instance}}',
      },
    ],
    steps: worseFrom(troubles['no-quote-given'].limits.seconds),
    alert: 'QuotegateNoQuoteGiven',
  },
  {
    title: 'Lifetime of quotes',
    description:
      "How long quotes had to live when they came from the provider, and when users got them. Good: flat, at the provider's " +
      'usual lifetime, and well above the time in which a user confirms. Shorter means fewer hits and more late orders.',
    unit: 's',
    queries: [
      {
        expr: quantile(0.5, 'quotegate_quote_lifetime_seconds'),
        legend: 'given, median',
      },
      {
        expr: quantile(0.05, 'quotegate_quote_lifetime_seconds'),
        legend: 'given, shortest 5 %',
      },
      {
        expr: quantile(0.05, 'quotegate_quote_remaining_seconds'),
        legend: 'served, shortest 5 %',
      },
    ],
    section: 'users-get-quotes-that-are-nearly-over',
  },
  {
    title: 'Calls for a quote served, by pair',
    description:
      'How many calls to the provider a quote costs that a user is given, for the pairs of METRICS_PAIRS; other: all others. ' +
      'Good: the usual day. Near 1 the cache saves nothing: too many amounts or partitions to share quotes.',
    unit: 'none',
    queries: [
      {
        expr:
          `sum by (pair) (${rate(calls)}) / ` +
          `sum by (pair) (${rate('quotegate_quotes_served_total')})`,
        legend: '{{pair}}',
      },
    ],
    alert: 'QuotegateHitRatioCollapsed',
  },
]

const floatOrders: readonly Panel[] = [
  {
    title: 'Float orders by decision',
    description:
      'Good: nearly all forwarded, live. forwarded, unknown: quotes that were not asked for here, or were by another ' +
      'replica without a shared store. reported, expired: sent, and would be refused without ORDER_EXPIRED_QUOTE=report.',
    unit: 'reqps',
    queries: ratesBy(orders, 'decision', 'reason'),
    stacked: true,
    alert: 'QuotegateOrdersRefused',
  },
  {
    title: 'Share of orders refused or unknown',
    description:
      'refused: good is a few per cent, users who went for coffee; the alert begins at 20 %. unknown: those whose quote is ' +
      'not known here; the alert begins at 10 % if that is twice the share of the last day as well, and at the red line in ' +
      'any case. reported: those that were sent because of ORDER_EXPIRED_QUOTE=report; no alert counts them. Good: the usual day.',
    unit: 'percentunit',
    queries: [
      {
        expr: shareOf(rate(orders, 'decision="refused"'), rate(orders)),
        legend: 'refused',
      },
      {
        expr: shareOf(rate(orders, 'decision="reported"'), rate(orders)),
        legend: 'reported',
      },
      {
        expr: shareOf(
          rate(orders, 'decision="forwarded",reason="unknown"'),
          rate(orders),
        ),
        legend: 'unknown',
      },
    ],
    steps: worseFrom(
      troubles['unknown-orders'].limits.share,
      troubles['orders-refused'].limits.share,
      troubles['unknown-orders'].limits.always,
    ),
    alert: 'QuotegateOrdersUnknown',
  },
  {
    title: 'Held by operators',
    description:
      'How many scopes are held: a pair, an application, both, or everything. Good: 0. From the line on orders get 503 ' +
      'held; after an hour the alert asks whether that was forgotten.',
    unit: 'none',
    queries: [{ expr: of('quotegate_holds'), legend: '{{instance}}' }],
    steps: worseFrom(troubles.held.limits.holds + 1),
    alert: 'QuotegateHeld',
  },
  {
    title: 'Age of the quote at the order',
    description:
      'How old the quote was that an order was matched with. Good: below the lifetime of quotes. A p95 just past it is an ' +
      'application whose countdown is broken; everything past it is a clock or a cache elsewhere.',
    unit: 's',
    queries: [
      {
        expr: quantile(0.5, 'quotegate_float_order_quote_age_seconds'),
        legend: 'median',
      },
      { expr: quantile(0.95, 'quotegate_float_order_quote_age_seconds'), legend: 'p95' },
    ],
    alert: 'QuotegateOrdersRefused',
  },
]

/** Of all instances of a job together. */
const recorded = 'quotegate:upstream_duration_seconds:p95_10m{job=~"$job"}'

const upstreams: readonly Panel[] = [
  {
    title: 'Requests by outcome',
    description:
      'How requests to upstreams ended. Good: answered. given-up: the caller left. breaker_open and ' +
      'connection_limit_reached were never sent.',
    unit: 'reqps',
    queries: ratesBy('quotegate_upstream_requests_total', 'upstream', 'outcome'),
    stacked: true,
    alert: 'QuotegateBreakerOpen',
  },
  {
    title: 'Upstream p95 against the last day',
    description:
      'The p95 of ten minutes, as a multiple of its median over a day; both by the recording rule of alerts.yml. Good: ' +
      'about 1. From 2 on, and with half a second more: the alert.',
    unit: 'none',
    queries: [
      {
        expr: `${recorded} / quantile_over_time(0.5, ${recorded}[1d])`,
        legend: '{{job}}: {{upstream}}',
      },
    ],
    steps: worseFrom(troubles.slow.limits.timesUsual),
    alert: 'QuotegateProviderSlow',
  },
  {
    title: 'Connections to upstreams',
    description:
      'Busy with a request, or idle, and the requests that are sent or wait. Good: busy below UPSTREAM_CONNECTIONS (128); at ' +
      'it, requests wait. On the swap side all but float orders wait from seven eighths of it on (112).',
    unit: 'none',
    queries: [
      {
        expr: of('quotegate_upstream_connections'),
        legend: '{{upstream}}: {{state}} {{instance}}',
      },
      {
        expr: of('quotegate_upstream_requests_in_flight'),
        legend: '{{upstream}}: requests in flight {{instance}}',
      },
    ],
    section: 'it-is-slow',
  },
  {
    title: 'Breakers not closed, pairs stopped, clocks not known',
    description:
      'Good: 0 throughout. A breaker is 1 while requests are not sent (open) or one of them tries (half-open): all that need ' +
      'connections, or those of one kind. A pair is stopped while its quotes keep failing; other pairs and orders go on. A ' +
      'clock is not known if no answer had a Date that can be read: quotes end by our clock alone.',
    unit: 'none',
    queries: [
      {
        expr: `sum by (upstream, breaker, instance) (${of('quotegate_breaker_state', 'state!="closed"')})`,
        legend: '{{upstream}}: {{breaker}} {{instance}}',
      },
      {
        expr: `sum by (pair, instance) (${of('quotegate_breaker_open_pairs')})`,
        legend: 'pairs stopped: {{pair}} {{instance}}',
      },
      {
        expr: of('quotegate_upstream_clock_unknown'),
        legend: 'clock of {{upstream}} {{instance}}',
      },
    ],
    // Whole numbers: more than none is one.
    steps: worseFrom(troubles.upstream.limits.breakers + 1),
    alert: 'QuotegateBreakerOpen',
  },
  {
    title: "The provider's clock less ours",
    description:
      'Good: 0. Past 2 s either way quotes seem to live longer or shorter than they do.',
    unit: 's',
    queries: [
      {
        expr: of('quotegate_upstream_clock_offset_seconds'),
        legend: '{{upstream}} {{instance}}',
      },
    ],
    steps: [
      { from: null, color: 'red' },
      { from: -troubles.clock.limits.offsetSeconds, color: 'green' },
      { from: troubles.clock.limits.offsetSeconds, color: 'red' },
    ],
    alert: 'QuotegateClockOffset',
  },
]

const store: readonly Panel[] = [
  {
    title: 'Share of the time that store and journal answer',
    description:
      'The store that replicas share (VALKEY_URL), and the journals in it (stream) and in STATE_DIRECTORY (disk). Good: 1, ' +
      'also where none is set. Without the store or its journal every replica goes on out of its own memory; without the ' +
      'folder a restart forgets the newest quotes.',
    unit: 'percentunit',
    queries: [
      {
        expr: `avg_over_time(${of('quotegate_store_up')}[${interval}])`,
        legend: 'store {{instance}}',
      },
      {
        expr: `avg_over_time(${of('quotegate_journal_up')}[${interval}])`,
        legend: 'journal {{part}} {{instance}}',
      },
    ],
    steps: goodFrom(troubles.store.limits.upShare),
    alert: 'QuotegateStoreDown',
  },
  {
    title: 'Store calls by outcome',
    description:
      'Good: ok. timeout: it is slow; failed: it refuses, and the log says why; skipped: not asked, because it is down.',
    unit: 'ops',
    queries: ratesBy('quotegate_store_operations_total', 'op', 'outcome'),
    stacked: true,
    alert: 'QuotegateStoreDown',
  },
  {
    title: 'Journal lines skipped and files set aside',
    description:
      'What was read and is not a record, or is damaged. Good: 0. Late orders for quotes that were lost with it are sent.',
    unit: 'short',
    queries: [
      {
        expr: of('quotegate_journal_skipped_records_total'),
        legend: '{{instance}}: skipped, {{part}}',
      },
      {
        expr: of('quotegate_journal_set_aside_files'),
        legend: '{{instance}}: set aside',
      },
    ],
    steps: worseFrom(troubles['journal-damaged'].limits.recordsOrFiles + 1),
    alert: 'QuotegateJournalDamaged',
  },
]

const process: readonly Panel[] = [
  {
    title: 'Event loop lag, p99',
    description:
      'How late the one thread is. Good: below 20 ms. Past the line every request waits that long.',
    unit: 's',
    queries: [{ expr: of('nodejs_eventloop_lag_p99_seconds'), legend: '{{instance}}' }],
    steps: worseFrom(troubles['event-loop'].limits.seconds),
    alert: 'QuotegateEventLoopLag',
  },
  {
    title: 'Processor, and collecting garbage',
    description:
      'As shares of the time of each process, which uses one core. Good: below 70 %; past that, another replica. ' +
      'Garbage: below 5 %.',
    unit: 'percentunit',
    queries: [
      { expr: rate('process_cpu_seconds_total'), legend: '{{instance}}' },
      {
        expr: `sum by (instance) (${rate('nodejs_gc_duration_seconds_sum')})`,
        legend: 'garbage {{instance}}',
      },
    ],
    alert: 'QuotegateEventLoopLag',
  },
  {
    title: 'Memory and descriptors in use',
    description:
      'Memory, of what the container is given, or else the machine has. Good: flat once cache and ledger are full, and below ' +
      '80 %; a ramp that never ends is a leak. Descriptors, which are connections and files, of what the system allows. ' +
      'Good: below 70 %; at 75 % connections are turned away. The alerts begin at the lines: descriptors at the yellow one, ' +
      'memory at the red one.',
    unit: 'percentunit',
    queries: [
      {
        expr: `${of('process_resident_memory_bytes')} / ${of('quotegate_memory_limit_bytes')}`,
        legend: 'memory {{instance}}',
      },
      {
        expr: `${of('process_open_fds')} / ${of('process_max_fds')}`,
        legend: 'descriptors {{instance}}',
      },
    ],
    steps: worseFrom(troubles.descriptors.limits.share, troubles.memory.limits.share),
    alert: 'QuotegateMemoryFull',
  },
  {
    title: 'Quotes in cache and ledger',
    description:
      'Good: flat, once they have grown to their bounds, QUOTE_CACHE_ENTRIES or 64 MiB of quotes for the cache and ' +
      'LEDGER_ENTRIES for the ledger. Memory that grows while both are flat is a leak.',
    unit: 'short',
    queries: [
      { expr: of('quotegate_entries', 'in="cache"'), legend: 'cache {{instance}}' },
      { expr: of('quotegate_entries', 'in="ledger"'), legend: 'ledger {{instance}}' },
    ],
    alert: 'QuotegateMemoryFull',
  },
  {
    title: 'Restarts in a quarter of an hour',
    description:
      'Good: 0, and 1 after a deployment. From the line on it dies again and again: the alert.',
    unit: 'none',
    queries: [
      {
        expr: `changes(${of('process_start_time_seconds')}[15m])`,
        legend: '{{instance}}',
      },
    ],
    // Whole numbers: more than two are three.
    steps: worseFrom(troubles.restarts.limits.times + 1),
    alert: 'QuotegateRestarts',
  },
]

/** Under their titles. */
export const rows: Record<string, readonly Panel[]> = {
  Traffic: traffic,
  Quotes: quotes,
  'Float orders': floatOrders,
  Upstreams: upstreams,
  'Store and journal': store,
  Process: process,
}
