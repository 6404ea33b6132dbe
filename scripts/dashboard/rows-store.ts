import { interval, of, quantile, type Row, rate, redFrom } from './panel.ts'
import { thresholds } from './thresholds.ts'

export const store: Row = {
  title: 'Store',
  panels: [
    {
      title: 'Share of the time that the store answers',
      description:
        'What replicas share (VALKEY_URL). Good: 1, also where none is set. At 0 every replica goes on out of its own ' +
        'memory.',
      kind: 'timeseries',
      unit: 'percentunit',
      queries: [{ expr: `avg_over_time(${of('quotegate_store_up')}[${interval}])`, legend: '{{instance}}' }],
      steps: [
        { from: null, color: 'red' },
        { from: thresholds.storeUpShare, color: 'green' },
      ],
      least: 0,
      most: 1,
      runbook: 'quotegatestoredown',
    },
    {
      title: 'Store calls by outcome',
      description:
        'Good: ok. timeout: it is slow; failed: it refuses, and the log says why; skipped: not asked, because it is down.',
      kind: 'timeseries',
      unit: 'ops',
      queries: [
        {
          expr: `sum by (op, outcome) (${rate('quotegate_store_operations_total')}) > 0`,
          legend: '{{op}}: {{outcome}}',
        },
      ],
      stacked: true,
      least: 0,
      runbook: 'quotegatestoredown',
    },
    {
      title: 'Quotes looked for in the store',
      description:
        'Those that were not in memory. Good: found and awaited, which cost no call to the provider; fetched is the one call ' +
        'for all replicas. alone: the provider takes longer than VALKEY_LOCK_WAIT_MS; failed: fetched without the store.',
      kind: 'timeseries',
      unit: 'ops',
      queries: [
        {
          expr: `sum by (outcome) (${rate('quotegate_quote_sharing_total')}) > 0`,
          legend: '{{outcome}}',
        },
      ],
      stacked: true,
      least: 0,
      runbook: 'quotegatestoredown',
    },
    {
      title: 'Store call duration',
      description: 'Good: about 1 ms, and far below VALKEY_TIMEOUT_MS (50 ms), past which no request waits.',
      kind: 'timeseries',
      unit: 's',
      queries: [
        { expr: quantile(0.5, 'quotegate_store_operation_duration_seconds'), legend: 'p50' },
        { expr: quantile(0.99, 'quotegate_store_operation_duration_seconds'), legend: 'p99' },
      ],
      least: 0,
      runbook: 'quotegatestoredown',
    },
    {
      title: 'Share of the time that the ledger is written to disk',
      description:
        'The folder of STATE_DIRECTORY. Good: 1, also where none is set. At 0 a restart forgets the newest quotes.',
      kind: 'timeseries',
      unit: 'percentunit',
      queries: [{ expr: `avg_over_time(${of('quotegate_state_up')}[${interval}])`, legend: '{{instance}}' }],
      steps: [
        { from: null, color: 'red' },
        { from: thresholds.stateUpShare, color: 'green' },
      ],
      least: 0,
      most: 1,
      runbook: 'quotegatestatenotwritten',
    },
    {
      title: 'Ledger on disk',
      description:
        'Records in the folder of STATE_DIRECTORY, and what is not written yet. Good: a backlog of 0, or close to it.',
      kind: 'timeseries',
      unit: 'short',
      queries: [
        { expr: of('quotegate_state_records'), legend: '{{instance}}: records' },
        { expr: of('quotegate_state_backlog'), legend: '{{instance}}: backlog' },
      ],
      least: 0,
      runbook: 'quotegatestatenotwritten',
    },
    {
      title: 'Ledger records missing and folders set aside',
      description:
        'What the start found in STATE_DIRECTORY. Good: 0. Late orders for quotes that are missing are sent.',
      kind: 'timeseries',
      unit: 'short',
      queries: [
        { expr: of('quotegate_state_missing'), legend: '{{instance}}: missing' },
        { expr: of('quotegate_state_set_aside'), legend: '{{instance}}: set aside' },
      ],
      steps: redFrom(thresholds.stateDamaged + 1),
      least: 0,
      runbook: 'quotegatestatedamaged',
    },
  ],
}
