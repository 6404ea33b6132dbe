import { of, quantile, type Row, rate, redFrom } from './panel.ts'
import { refusedShare, reportedShare } from './rows-overview.ts'
import { thresholds } from './thresholds.ts'

export const quoteFreshness: Row = {
  title: 'Quote freshness',
  panels: [
    {
      title: 'Remaining life at serve',
      description:
        'How long quotes still had to live when clients got them. Good: spread evenly below the lifetime. A dark band ' +
        'at the bottom means that clients get prices which end before a user can confirm: QUOTE_MIN_VALIDITY_MS.',
      kind: 'heatmap',
      unit: 's',
      queries: [
        { expr: `sum by (le) (${rate('quotegate_quote_remaining_seconds_bucket')})`, legend: '{{le}}' },
      ],
      runbook: 'clients-get-quotes-that-are-nearly-over',
    },
    {
      title: 'Lifetime at store',
      description:
        "How long quotes had to live when they came from the provider. Good: a flat line at the provider's usual " +
        'lifetime. Shorter means fewer hits and more late orders.',
      kind: 'timeseries',
      unit: 's',
      queries: [
        { expr: quantile(0.5, 'quotegate_quote_lifetime_seconds'), legend: 'median' },
        { expr: quantile(0.05, 'quotegate_quote_lifetime_seconds'), legend: 'shortest 5 %' },
      ],
      least: 0,
      runbook: 'quotegatehitratiocollapsed',
    },
    {
      title: 'Drift from one quote to the next',
      description:
        'How far the price moved between two quotes for the same key, by pair: what serving the older one costs or ' +
        'saves. Good: well below the margin that orders are made with.',
      kind: 'timeseries',
      unit: 'percentunit',
      queries: [
        { expr: quantile(0.5, 'quotegate_quote_drift_ratio', 'le, pair'), legend: '{{pair}} median' },
        { expr: quantile(0.95, 'quotegate_quote_drift_ratio', 'le, pair'), legend: '{{pair}} p95' },
      ],
      least: 0,
      runbook: 'prices-drift',
    },
    {
      title: 'Drift upwards',
      description:
        'The share of new quotes that gave as much as the one before, or more. Good: about half. All day far above or ' +
        'below it, cached quotes are on one side of the market.',
      kind: 'timeseries',
      unit: 'percentunit',
      queries: [
        {
          expr:
            `sum(${rate('quotegate_quote_drift_ratio_count', 'direction="up"')}) / ` +
            `sum(${rate('quotegate_quote_drift_ratio_count')})`,
          legend: 'up',
        },
      ],
      least: 0,
      most: 1,
      runbook: 'prices-drift',
    },
    {
      title: 'Quotes served, by pair',
      description:
        'Quotes that clients were given, cached or fresh. Pairs outside METRICS_PAIRS are other. Good: the usual day.',
      kind: 'timeseries',
      unit: 'reqps',
      queries: [{ expr: `sum by (pair) (${rate('quotegate_quotes_served_total')})`, legend: '{{pair}}' }],
      stacked: true,
      least: 0,
    },
    {
      title: 'Calls to the provider for a quote served, by pair',
      description:
        'Good: far below 1, which is what it would be without a cache. A pair near 1 is asked for too rarely, or at ' +
        'too many amounts, to be shared.',
      kind: 'timeseries',
      unit: 'none',
      queries: [
        {
          expr:
            `sum by (pair) (${rate('quotegate_quote_calls_total')}) / ` +
            `sum by (pair) (${rate('quotegate_quotes_served_total')})`,
          legend: '{{pair}}',
        },
      ],
      least: 0,
      runbook: 'quotegatehitratiocollapsed',
    },
    {
      title: 'Calls that brought no valid quote',
      description:
        'The share of calls for a quote that were answered with an error or with nothing that is a live quote; ' +
        'Answers not kept has the reasons. Good: the usual day, the pairs and amounts that the provider refuses. The ' +
        'line is where the alert begins.',
      kind: 'timeseries',
      unit: 'percentunit',
      queries: [
        {
          expr:
            `sum(${rate('quotegate_quotes_uncacheable_total', 'reason!~"content-coding|vary|too-large|used"')}) / ` +
            `sum(${rate('quotegate_quote_calls_total')})`,
          legend: 'no valid quote',
        },
      ],
      steps: redFrom(thresholds.noQuoteShare),
      least: 0,
      most: 1,
      runbook: 'quotegatenoquotes',
    },
  ],
}

export const floatOrders: Row = {
  title: 'Float orders',
  panels: [
    {
      title: 'Float orders by decision',
      description:
        'Good: nearly all forwarded, live. forwarded, unknown: quotes that were not asked for here, or were by another ' +
        'replica without a shared store. reported, expired: sent, and would be refused without ORDER_EXPIRED_QUOTE=report.',
      kind: 'timeseries',
      unit: 'reqps',
      queries: [
        {
          expr: `sum by (decision, reason) (${rate('quotegate_float_orders_total')})`,
          legend: '{{decision}}, {{reason}}',
        },
      ],
      stacked: true,
      least: 0,
      runbook: 'quotegateordersrefused',
    },
    {
      title: 'Share of orders refused',
      description:
        'Good: a few per cent, users who went for coffee. The line is where the alert begins. reported: those that were ' +
        'sent because of ORDER_EXPIRED_QUOTE=report; no alert counts them.',
      kind: 'timeseries',
      unit: 'percentunit',
      queries: [
        { expr: refusedShare, legend: 'refused' },
        { expr: reportedShare, legend: 'reported' },
      ],
      steps: redFrom(thresholds.refusedShare),
      least: 0,
      most: 1,
      runbook: 'quotegateordersrefused',
    },
    {
      title: 'Orders forwarded as unknown',
      description:
        'The share of the float orders whose quote is not known here. Good: the usual day. The alert begins ' +
        'at the yellow line if it is twice the share of the last day as well, and at the red one in any case.',
      kind: 'timeseries',
      unit: 'percentunit',
      queries: [
        {
          expr:
            `sum(${rate('quotegate_float_orders_total', 'decision="forwarded",reason="unknown"')}) / ` +
            `sum(${rate('quotegate_float_orders_total')})`,
          legend: 'unknown',
        },
      ],
      steps: [
        { from: null, color: 'green' },
        { from: thresholds.unknownShare, color: 'yellow' },
        { from: thresholds.unguardedShare, color: 'red' },
      ],
      least: 0,
      most: 1,
      runbook: 'quotegateordersunknown',
    },
    {
      title: 'How orders were matched',
      description:
        'By which rule the quote of an order was found, and its state. Good: the usual day. unknown, store-away: no quote is ' +
        'is refused by terms while the store is away. unknown, unreadable: the provider gives quotes that cannot be read.',
      kind: 'timeseries',
      unit: 'reqps',
      queries: [
        {
          expr: `sum by (decision, rule) (${rate('quotegate_float_order_matches_total')})`,
          legend: '{{decision}}, {{rule}}',
        },
      ],
      stacked: true,
      least: 0,
      runbook: 'quotegateordersunknown',
    },
    {
      title: 'How far back the ledger reaches',
      description:
        'Good: a day, or since the start of the process. Below 15 minutes late orders may be forwarded: raise LEDGER_ENTRIES.',
      kind: 'timeseries',
      unit: 's',
      queries: [
        { expr: `min by (instance) (${of('quotegate_ledger_reach_seconds')})`, legend: '{{instance}}' },
      ],
      least: 0,
      runbook: 'quotegateordersunknown',
    },
    {
      title: 'Age of the quote at the order',
      description:
        'How old the quote was that an order was matched with. Good: below the lifetime of quotes. A p95 just past it ' +
        'is an application whose countdown is broken; everything past it is a clock or a cache elsewhere.',
      kind: 'timeseries',
      unit: 's',
      queries: [
        { expr: quantile(0.5, 'quotegate_float_order_quote_age_seconds'), legend: 'median' },
        { expr: quantile(0.95, 'quotegate_float_order_quote_age_seconds'), legend: 'p95' },
      ],
      least: 0,
      runbook: 'quotegateordersrefused',
    },
    {
      title: 'Age of the quote at the order, all of them',
      description:
        'The same as a map: two bands are two kinds of client. Good: one band, below the lifetime of quotes.',
      kind: 'heatmap',
      width: 24,
      unit: 's',
      queries: [
        {
          expr: `sum by (le) (${rate('quotegate_float_order_quote_age_seconds_bucket')})`,
          legend: '{{le}}',
        },
      ],
      runbook: 'quotegateordersrefused',
    },
  ],
}
