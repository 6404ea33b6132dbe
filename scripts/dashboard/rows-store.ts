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
        'for all replicas. alone: the provider takes longer than three seconds; failed: fetched without the store.',
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
      queries: [
        {
          expr: `avg_over_time(${of('quotegate_journal_up', 'part="disk"')}[${interval}])`,
          legend: '{{instance}}',
        },
      ],
      steps: [
        { from: null, color: 'red' },
        { from: thresholds.journalUpShare, color: 'green' },
      ],
      least: 0,
      most: 1,
      runbook: 'quotegatejournalnotwritten',
    },
    {
      title: 'Records appended to the journal',
      description:
        'What this replica noted and told, on disk and in the shared store, a second. Good: as many as quotes were fetched.',
      kind: 'timeseries',
      unit: 'short',
      queries: [
        {
          expr: `rate(${of('quotegate_journal_appended_records_total')}[${interval}])`,
          legend: '{{instance}}: {{part}}',
        },
      ],
      least: 0,
      runbook: 'quotegatejournalnotwritten',
    },
    {
      title: 'Records that wait, and that are not read yet',
      description:
        'What is not in the journal yet, and what other replicas appended that is not read here yet. Good: 0, or close to it.',
      kind: 'timeseries',
      unit: 'short',
      queries: [
        { expr: of('quotegate_journal_waiting_records'), legend: '{{instance}}: waiting for the {{part}}' },
        { expr: of('quotegate_journal_behind_records'), legend: '{{instance}}: behind by' },
      ],
      least: 0,
      runbook: 'quotegatejournalnotwritten',
    },
    {
      title: 'Journal lines skipped and files set aside',
      description:
        'What was read and is not a record, or is damaged. Good: 0. Late orders for quotes that were lost with it are sent.',
      kind: 'timeseries',
      unit: 'short',
      queries: [
        { expr: of('quotegate_journal_skipped_records_total'), legend: '{{instance}}: skipped, {{part}}' },
        { expr: of('quotegate_journal_set_aside_files'), legend: '{{instance}}: set aside' },
      ],
      steps: redFrom(thresholds.journalDamaged + 1),
      least: 0,
      runbook: 'quotegatejournaldamaged',
    },
  ],
}
