import { of, type Row, rate } from './panel.ts'
import { thresholds } from './thresholds.ts'

const lookups = (over: string, matchers = '') =>
  `sum(${rate('quotegate_cache_lookups_total', matchers, over)})`
const hitRatio = (over: string) => `${lookups(over, 'result=~"hit|shared|collapsed"')} / ${lookups(over)}`

export const cache: Row = {
  title: 'Cache',
  panels: [
    {
      title: 'Lookups by result',
      description: 'Good: mostly hit and collapsed. bypass: a client with whom nothing may be shared.',
      kind: 'timeseries',
      unit: 'reqps',
      queries: [{ expr: `sum by (result) (${rate('quotegate_cache_lookups_total')})`, legend: '{{result}}' }],
      stacked: true,
      least: 0,
      runbook: 'quotegatehitratiocollapsed',
    },
    {
      title: 'Hit ratio against the last day',
      description:
        'The hit ratio of 15 minutes, as a share of that of a day. Good: about 1. Below the line: the alert.',
      kind: 'timeseries',
      unit: 'percentunit',
      queries: [{ expr: `(${hitRatio('15m')}) / (${hitRatio('1d')})`, legend: 'of the day' }],
      steps: [
        { from: null, color: 'red' },
        { from: thresholds.hitRatioOfTheDay, color: 'green' },
      ],
      least: 0,
      runbook: 'quotegatehitratiocollapsed',
    },
    {
      title: 'Quotes in memory',
      description:
        'Good: below QUOTE_CACHE_ENTRIES. Expired ones stay until they are replaced or room is needed. ledger: quotes ' +
        'remembered for late orders.',
      kind: 'timeseries',
      unit: 'none',
      queries: [
        { expr: of('quotegate_cache_entries'), legend: 'cache {{instance}}' },
        { expr: of('quotegate_ledger_entries'), legend: 'ledger {{instance}}' },
      ],
      least: 0,
      runbook: 'size',
    },
    {
      title: 'Bytes of quotes in memory',
      description: 'Good: below 64 MiB, at which quotes are evicted.',
      kind: 'timeseries',
      unit: 'bytes',
      queries: [{ expr: of('quotegate_cache_bytes'), legend: '{{instance}}' }],
      least: 0,
      runbook: 'size',
    },
    {
      title: 'Evictions and refreshes',
      description:
        'Good: order (a quote that was used) and stored (a quote fetched ahead of its expiry) only. capacity: the ' +
        'bounds of the cache are too small. failed: the provider did not give a new quote in time.',
      kind: 'timeseries',
      unit: 'ops',
      queries: [
        {
          expr: `sum by (reason) (${rate('quotegate_cache_evictions_total')})`,
          legend: 'evicted: {{reason}}',
        },
        {
          expr: `sum by (outcome) (${rate('quotegate_quote_refreshes_total')})`,
          legend: 'refresh: {{outcome}}',
        },
      ],
      least: 0,
      runbook: 'size',
    },
    {
      title: 'Answers not kept',
      description:
        'Good: only status, the errors of the provider. Anything else on every answer means that nothing is cached: ' +
        'the provider changed what it says.',
      kind: 'timeseries',
      unit: 'ops',
      queries: [
        {
          expr: `sum by (reason) (${rate('quotegate_quotes_uncacheable_total')}) > 0`,
          legend: '{{reason}}',
        },
      ],
      stacked: true,
      least: 0,
      runbook: 'quotegatehitratiocollapsed',
    },
  ],
}
