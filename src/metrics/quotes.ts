import type { Registry } from 'prom-client'
import {
  createDistribution,
  createDistributions,
  createGauge,
  createTallies,
  createTalliesBy,
  type Distribution,
  type Tally,
} from './series.ts'

const otherPair = 'other'
const floatOrderDecisions = [
  'forwarded-live',
  'forwarded-unknown',
  'refused-expired',
  'refused-unknown',
] as const
export type FloatOrderDecision = (typeof floatOrderDecisions)[number]

/** Providers' quotes live for about half a minute; a day is the most that is believed. */
const lifeBounds = [0.5, 1, 2, 5, 10, 15, 20, 25, 30, 45, 60, 120, 300, 900, 3_600]
const ageBounds = [0.1, 0.5, 1, 2, 5, 10, 15, 20, 25, 30, 45, 60, 120, 300, 900]
/** From a tenth of a basis point to a tenth. */
const driftBounds = [
  0.000_01, 0.000_02, 0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
]

/** What is read at each scrape rather than counted. */
export interface QuoteGauges {
  cacheEntries(): number
  cacheBytes(): number
  ledgerEntries(): number
  clockOffsetMs(): number
}

export interface QuoteMetrics {
  cacheLookups: Readonly<Record<'hit' | 'shared' | 'miss' | 'expired' | 'collapsed' | 'bypass', Tally>>
  cacheEvictions: Readonly<Record<'capacity' | 'order' | 'elsewhere' | 'gap', Tally>>
  refreshes: Readonly<Record<'stored' | 'found' | 'failed', Tally>>
  quoteSharing: Readonly<Record<'found' | 'awaited' | 'fetched' | 'alone' | 'failed', Tally>>
  quotesNotKept(reason: string): void
  quoteStored(lifetimeMs: number): void
  quoteServed(pair: string, remainingMs: number): void
  quoteCalled(pair: string): void
  /** `move`: what the next quote gives more than the one before it, as a share of that; negative if less. */
  quoteDrifted(pair: string, move: number): void
  countFloatOrder(decision: FloatOrderDecision, quoteAgeMs: number | undefined): void
  observe(gauges: QuoteGauges): void
}

export function createQuoteMetrics(
  registry: Registry,
  options: { notKeptReasons: readonly string[]; pairs: readonly string[] },
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

  return {
    cacheLookups: createTalliesBy(
      metric('cache_lookups_total', 'Quote requests, by what the cache made of them'),
      'result',
      ['hit', 'shared', 'miss', 'expired', 'collapsed', 'bypass'],
    ),
    cacheEvictions: createTalliesBy(
      metric('cache_evictions_total', 'Quotes dropped from memory before they were replaced, by reason'),
      'reason',
      ['capacity', 'order', 'elsewhere', 'gap'],
    ),
    refreshes: createTalliesBy(
      metric('quote_refreshes_total', 'Quotes fetched ahead of their expiry, by outcome'),
      'outcome',
      ['stored', 'found', 'failed'],
    ),
    quoteSharing: createTalliesBy(
      metric('quote_sharing_total', 'Quotes that were looked for in the shared store, by what came of it'),
      'outcome',
      ['found', 'awaited', 'fetched', 'alone', 'failed'],
    ),
    quotesNotKept: (reason) => notKept[reason]?.inc(),
    quoteStored: (lifetimeMs) => lifetime.observe(lifetimeMs / 1_000),
    quoteServed(pair, remainingMs) {
      served(pair).inc()
      remaining.observe(remainingMs / 1_000)
    },
    quoteCalled: (pair) => calls(pair).inc(),
    quoteDrifted: drift,
    countFloatOrder(decision, quoteAgeMs) {
      floatOrders[decision].inc()
      if (quoteAgeMs !== undefined) quoteAge.observe(quoteAgeMs / 1_000)
    },
    observe(gauges) {
      const gauge = (name: string, help: string, read: () => number, labels = {}) =>
        createGauge(metric(name, help), [{ labels, read }])
      gauge('cache_entries', 'Quotes in memory, expired ones among them', gauges.cacheEntries)
      gauge('cache_bytes', 'Bytes of the quotes in memory', gauges.cacheBytes)
      gauge('ledger_entries', 'Quotes remembered for the orders that may use them', gauges.ledgerEntries)
      gauge(
        'upstream_clock_offset_seconds',
        "The provider's clock less ours, as far as its answers tell; 0 while they may agree",
        () => gauges.clockOffsetMs() / 1_000,
        { upstream: 'swap' },
      )
    },
  }
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
): QuoteMetrics['quoteDrifted'] {
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

function createFloatOrders(
  metric: Parameters<typeof createTallies>[0],
): Readonly<Record<FloatOrderDecision, Tally>> {
  const tallies = createTallies(
    metric,
    floatOrderDecisions.map((name) => {
      const [decision = '', reason = ''] = name.split('-')
      return { decision, reason }
    }),
  )
  return Object.fromEntries(floatOrderDecisions.map((name, index) => [name, tallies[index]])) as Record<
    FloatOrderDecision,
    Tally
  >
}
