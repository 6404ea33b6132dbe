import type { Registry } from 'prom-client'
import { type Events, keyResults, type Listener, type Lookup } from '../events.ts'
import { createFloatOrders, createMatches } from './float-orders.ts'
import {
  createDistribution,
  createDistributions,
  createGauge,
  createTallies,
  createTalliesBy,
  type Distribution,
  type MetricName,
  type Tally,
} from './series.ts'

/** The label of every pair that METRICS_PAIRS does not name. */
export const otherPair = 'other'

/** Providers' quotes live for about half a minute; a day is the most that is believed. */
const lifeBounds = [0.5, 1, 2, 5, 10, 15, 20, 25, 30, 45, 60, 120, 300, 900, 3_600]
const ageBounds = [0.1, 0.5, 1, 2, 5, 10, 15, 20, 25, 30, 45, 60, 120, 300, 900]
/** From a tenth of a basis point to a tenth. */
const driftBounds = [
  0.000_01, 0.000_02, 0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
]

/** What is read at each scrape, not counted. */
export interface QuoteGauges {
  readonly cache: { readonly entries: number; readonly bytes: number }
  readonly ledger: { readonly size: number }
  readonly reach: { readonly ms: number }
  /** `saysNoTime`: answers came, and none told the provider's time. */
  readonly clockDifference: { readonly newestMs: number; readonly saysNoTime: boolean }
  readonly providerLimit: { list(): readonly unknown[] }
}

/** What was counted so far, for the console's history. */
export interface QuoteCounts {
  readonly lookups: Readonly<Record<Lookup, number>>
  readonly orders: Readonly<Record<Decision, number>>
  /** Orders that were not judged, because the shared store could not be asked. */
  readonly ordersWithoutStore: number
}

export interface QuoteMetrics {
  readonly listener: Listener
  quoteCounts(): QuoteCounts
}

type Decision = Parameters<Events['orderDecided']>[1]

export function createQuoteMetrics(
  registry: Registry,
  options: {
    notKeptReasons: readonly string[]
    pairs: readonly string[]
    watched(): QuoteGauges | undefined
  },
): QuoteMetrics {
  const metric = (name: string, help: string) => ({ registry, name: `quotegate_${name}`, help })
  const pairs = [...new Set([...options.pairs, otherPair])]
  const notKept = createTalliesBy(
    metric('quotes_uncacheable_total', 'Answers to quote calls that were relayed and not kept, by reason'),
    'reason',
    options.notKeptReasons,
  )
  const lifetime = createDistribution(
    metric('quote_lifetime_seconds', 'Time that a quote had left when it was stored'),
    lifeBounds,
  )
  const remaining = createDistribution(
    metric('quote_remaining_seconds', 'Time that a quote had left when it was served'),
    lifeBounds,
  )
  const served = perPair(pairs, (labels) =>
    createTallies(metric('quotes_served_total', 'Quotes that clients were given, cached or fresh'), labels),
  )
  const calls = perPair(pairs, (labels) =>
    createTallies(metric('quote_calls_total', 'Quotes that the provider was asked for'), labels),
  )
  const drift = createDrift(metric('quote_drift_ratio', driftHelp), pairs)
  const quoteAge = createDistribution(
    metric('float_order_quote_age_seconds', 'Age of the quote that a float order was matched with'),
    ageBounds,
  )
  const floatOrders = createFloatOrders(
    metric('float_orders_total', 'Float orders by what was decided and why'),
  )
  const matches = createMatches(
    metric(
      'float_order_matches_total',
      'Float orders by the state of their quote and the rule that found it',
    ),
  )

  const [repeated] = createTallies(
    metric(
      'float_orders_repeated_total',
      'Float orders that were sent for a quote that an order of the same client had used already',
    ),
    [{}],
  )
  const keyed = createTalliesBy(
    metric(
      'order_keys_total',
      'Orders with an Idempotency-Key, and keys that made room, by what came of them',
    ),
    'result',
    keyResults,
  )

  const lookups = createTalliesBy(
    metric('cache_lookups_total', 'Quote requests, by what the cache made of them'),
    'result',
    ['hit', 'shared', 'miss', 'expired', 'collapsed', 'bypass'],
  )
  const evictions = createTalliesBy(
    metric('cache_evictions_total', 'Quotes dropped from memory before they were replaced, by reason'),
    'reason',
    ['capacity', 'order', 'elsewhere'],
  )
  const refreshes = createTalliesBy(
    metric('quote_refreshes_total', 'Quotes fetched ahead of their expiry, by outcome'),
    'outcome',
    ['stored', 'found', 'failed'],
  )
  const sharing = createTalliesBy(
    metric('quote_sharing_total', 'Quotes that were looked for in the shared store, by what came of it'),
    'outcome',
    ['found', 'awaited', 'fetched', 'alone', 'failed'],
  )

  const [coolDowns] = createTallies(
    metric(
      'quote_cool_downs_total',
      'Times that the provider answered a quote with 429, so that it was not asked for a while',
    ),
    [{}],
  )
  createGauges(metric, options.watched)

  return {
    quoteCounts: () => ({
      lookups: valuesOf(lookups),
      orders: valuesOf(floatOrders),
      ordersWithoutStore: matches['unknown store-away']?.value ?? 0,
    }),
    listener: {
      quoteLookedUp: (result) => lookups[result].inc(),
      quoteNotKept: (reason) => notKept[reason]?.inc(),
      quoteRefreshed: (outcome) => refreshes[outcome].inc(),
      quotesDropped: (reason, quotes) => evictions[reason].inc(quotes),
      quoteShared: (outcome) => sharing[outcome].inc(),
      quoteCalled: (pair) => calls(pair).inc(),
      quoteServed(pair, leftMs) {
        served(pair).inc()
        remaining.observe(leftMs / 1_000)
      },
      quoteKept(leftMs, pair, moved) {
        lifetime.observe(leftMs / 1_000)
        if (moved !== undefined && Number.isFinite(moved)) drift(pair, moved)
      },
      coolDownBegan: () => coolDowns?.inc(),
      orderRepeated: () => repeated?.inc(),
      orderKeyed: (result) => keyed[result].inc(),
      orderDecided(_exchange, decision, { verdict: { state, rule }, quoteAgeMs }) {
        floatOrders[decision].inc()
        matches[`${state} ${rule}`]?.inc()
        if (quoteAgeMs !== undefined) quoteAge.observe(quoteAgeMs / 1_000)
      },
    },
  }
}

function createGauges(
  metric: (name: string, help: string) => MetricName,
  watched: () => QuoteGauges | undefined,
): void {
  const gauge = (name: string, help: string, read: (gauges: QuoteGauges) => number, labels = {}) => {
    const readNow = () => {
      const gauges = watched()
      return gauges === undefined ? 0 : read(gauges)
    }
    createGauge(metric(name, help), [{ labels, read: readNow }])
  }
  gauge('cache_entries', 'Quotes in memory, expired ones among them', ({ cache }) => cache.entries)
  gauge('cache_bytes', 'Bytes of the quotes in memory', ({ cache }) => cache.bytes)
  gauge('ledger_entries', 'Quotes remembered for the orders that may use them', ({ ledger }) => ledger.size)
  gauge(
    'ledger_reach_seconds',
    'How far back every quote is remembered: since the start, until one was dropped to make room',
    ({ reach }) => reach.ms / 1_000,
  )
  gauge(
    'upstream_clock_offset_seconds',
    "The provider's clock less ours, as far as the Date of its newest quote tells; 0 while they may agree",
    ({ clockDifference }) => clockDifference.newestMs / 1_000,
    { upstream: 'swap' },
  )
  gauge(
    'upstream_clock_unknown',
    '1 once three quotes came and none had a Date that can be read: quotes are judged by our clock alone',
    ({ clockDifference }) => Number(clockDifference.saysNoTime),
    { upstream: 'swap' },
  )
  gauge(
    'quote_cool_downs',
    'Clients whose quotes the provider is not asked for now',
    ({ providerLimit }) => providerLimit.list().length,
  )
}

function valuesOf<Name extends string>(tallies: Readonly<Record<Name, Tally>>): Record<Name, number> {
  const entries = Object.entries<Tally>(tallies)
  return Object.fromEntries(entries.map(([name, { value }]) => [name, value])) as Record<Name, number>
}

const driftHelp =
  'How far the price moved from one quote to the next for the same key, as a share of the first; up: the next ' +
  'gives as much or more'

/** One series a pair, made by `create`; whatever is not listed shares that of `other`. */
function perPair<Series>(
  pairs: readonly string[],
  create: (labels: { pair: string }[]) => readonly Series[],
): (pair: string) => Series {
  const series = create(pairs.map((pair) => ({ pair })))
  const byPair = new Map(pairs.map((pair, index) => [pair, series[index] as Series]))
  const other = byPair.get(otherPair) as Series
  return (pair) => byPair.get(pair) ?? other
}

function createDrift(
  metric: Parameters<typeof createDistributions>[0],
  pairs: readonly string[],
): (pair: string, move: number) => void {
  const directions = perPair(pairs, (labels) => {
    const labelSets = labels.flatMap(({ pair }) => [
      { pair, direction: 'up' },
      { pair, direction: 'down' },
    ])
    const all = createDistributions(metric, driftBounds, labelSets)
    return labels.map((_, index) => ({
      up: all[index * 2] as Distribution,
      down: all[index * 2 + 1] as Distribution,
    }))
  })
  return (pair, move) => directions(pair)[move < 0 ? 'down' : 'up'].observe(Math.abs(move))
}
