import { keyResults, type Listener, type Lookup, notKeptReasons } from '../events.ts'
import type { FloatOrderDecision, GuardRule, Verdict } from '../orders/guard.ts'
import { by, cross, type Labels, type MetricSet, type Tally } from './series.ts'

/** The label of every pair that METRICS_PAIRS does not name. */
export const otherPair = 'other'

/** Providers' quotes live for about half a minute; a day is the most that is believed. */
const lifeBounds = [0.5, 1, 2, 5, 10, 15, 20, 25, 30, 45, 60, 120, 300, 900, 3_600]
const ageBounds = [0.1, 0.5, 1, 2, 5, 10, 15, 20, 25, 30, 45, 60, 120, 300, 900]
/** From a tenth of a basis point to a tenth. */
const driftBounds = [
  0.000_01, 0.000_02, 0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
]

/** What was counted so far, for the console's history. */
export interface QuoteCounts {
  readonly lookups: Readonly<Record<Lookup, number>>
  readonly orders: Readonly<Record<FloatOrderDecision, number>>
  /** Orders that were not judged, because the shared store could not be asked. */
  readonly ordersWithoutStore: number
}

/** `pairs`: those with series of their own, and `other`. */
export function countQuotes(
  set: MetricSet,
  pairs: readonly string[],
): { listener: Listener; lookups: Readonly<Record<Lookup, Tally>> } {
  const named = new Set(pairs)
  const ofPair = <Series>(byPair: Readonly<Record<string, Series>>, pair: string): Series =>
    byPair[named.has(pair) ? pair : otherPair] as Series
  const notKept = set.counters('quotes_uncacheable_total', by('reason', notKeptReasons))`
    Answers to quote calls that were relayed and not kept, by reason`
  const lifetime = set.histogram('quote_lifetime_seconds', lifeBounds)`
    Time that a quote had left when it was stored`
  const remaining = set.histogram('quote_remaining_seconds', lifeBounds)`
    Time that a quote had left when it was served`
  const served = set.counters('quotes_served_total', by('pair', pairs))`
    Quotes that clients were given, cached or fresh`
  const calls = set.counters('quote_calls_total', by('pair', pairs))`Quotes that the provider was asked for`
  const drift = set.histograms(
    'quote_drift_ratio',
    driftBounds,
    cross(by('pair', pairs), by('direction', ['up', 'down'])),
  )`
    How far the price moved from one quote to the next for the same key, as a share of the first; up: the next gives
    as much or more`
  const lookups = set.counters(
    'cache_lookups_total',
    by('result', ['hit', 'shared', 'miss', 'expired', 'collapsed', 'bypass']),
  )`
    Quote requests, by what the cache made of them`
  const evictions = set.counters('cache_evictions_total', by('reason', ['capacity', 'order', 'elsewhere']))`
    Quotes dropped from memory before they were replaced, by reason`
  const refreshes = set.counters('quote_refreshes_total', by('outcome', ['stored', 'found', 'failed']))`
    Quotes fetched ahead of their expiry, by outcome`
  const sharing = set.counters(
    'quote_sharing_total',
    by('outcome', ['found', 'awaited', 'fetched', 'alone', 'failed']),
  )`
    Quotes that were looked for in the shared store, by what came of it`
  const coolDowns = set.counter('quote_cool_downs_total')`
    Times that the provider answered a quote with 429, so that it was not asked for a while`
  const listener: Listener = {
    quoteLookedUp: (result) => lookups[result].inc(),
    quoteNotKept: (reason) => notKept[reason].inc(),
    quoteRefreshed: (outcome) => refreshes[outcome].inc(),
    quotesDropped: (reason, quotes) => evictions[reason].inc(quotes),
    quoteShared: (outcome) => sharing[outcome].inc(),
    quoteCalled: (pair) => ofPair(calls, pair).inc(),
    quoteServed(pair, leftMs, found) {
      if (found !== undefined) lookups[found].inc()
      ofPair(served, pair).inc()
      remaining.observe(leftMs / 1_000)
    },
    quoteKept(leftMs, pair, moved) {
      lifetime.observe(leftMs / 1_000)
      if (moved === undefined || !Number.isFinite(moved)) return
      const label = named.has(pair) ? pair : otherPair
      drift[`${label} ${moved < 0 ? 'down' : 'up'}`]?.observe(Math.abs(moved))
    },
    coolDownBegan: () => coolDowns.inc(),
  }
  return { listener, lookups }
}

const decisions: Readonly<Record<FloatOrderDecision, Labels>> = {
  'forwarded-live': { decision: 'forwarded', reason: 'live' },
  'forwarded-unknown': { decision: 'forwarded', reason: 'unknown' },
  'refused-expired': { decision: 'refused', reason: 'expired' },
  'refused-unknown': { decision: 'refused', reason: 'unknown' },
  'reported-expired': { decision: 'reported', reason: 'expired' },
}

/** What each rule of orders/guard.ts can say of an order. */
const rules: Readonly<Record<Verdict['state'], readonly GuardRule[]>> = {
  live: ['id', 'exact', 'pays', 'any'],
  expired: ['id', 'exact', 'fallen', 'none'],
  unknown: ['id', 'none', 'store-away', 'unreadable', 'restored'],
}

export function countOrders(set: MetricSet) {
  const quoteAge = set.histogram('float_order_quote_age_seconds', ageBounds)`
    Age of the quote that a float order was matched with`
  const orders = set.counters('float_orders_total', decisions)`Float orders by what was decided and why`
  const matches: Readonly<Record<string, Tally>> = set.counters(
    'float_order_matches_total',
    Object.assign(
      {},
      ...Object.entries(rules).map(([state, found]) => cross(by('decision', [state]), by('rule', found))),
    ),
  )`
    Float orders by the state of their quote and the rule that found it`
  const repeated = set.counter('float_orders_repeated_total')`
    Float orders that were sent for a quote that an order of the same client had used already`
  const keyed = set.counters('order_keys_total', by('result', keyResults))`
    Orders with an Idempotency-Key, and keys that made room, by what came of them`
  const listener: Listener = {
    orderRepeated: () => repeated.inc(),
    orderKeyed: (result) => keyed[result].inc(),
    orderDecided(_exchange, decision, { verdict: { state, rule }, quoteAgeMs }) {
      orders[decision].inc()
      matches[`${state} ${rule}`]?.inc()
      if (quoteAgeMs !== undefined) quoteAge.observe(quoteAgeMs / 1_000)
    },
  }
  return { listener, orders, withoutStore: matches['unknown store-away'] }
}
