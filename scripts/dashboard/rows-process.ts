import { of, type Row, rate, redFrom } from './panel.ts'
import { thresholds } from './thresholds.ts'

export const process: Row = {
  title: 'Process',
  panels: [
    {
      title: 'Event loop lag, p99',
      description:
        'How late the one thread is. Good: below 20 ms. Past the line every request waits that long.',
      kind: 'timeseries',
      unit: 's',
      queries: [{ expr: of('nodejs_eventloop_lag_p99_seconds'), legend: '{{instance}}' }],
      steps: redFrom(thresholds.eventLoopLagSeconds),
      least: 0,
      runbook: 'quotegateeventlooplag',
    },
    {
      title: 'Processor',
      description: 'One process uses one core. Good: below 0.7; past that, another replica.',
      kind: 'timeseries',
      unit: 'none',
      queries: [{ expr: rate('process_cpu_seconds_total'), legend: '{{instance}}' }],
      least: 0,
      runbook: 'size',
    },
    {
      title: 'Memory',
      description: 'Good: flat once the cache and the ledger are full. A ramp that never ends is a leak.',
      kind: 'timeseries',
      unit: 'bytes',
      queries: [
        { expr: of('process_resident_memory_bytes'), legend: 'resident {{instance}}' },
        { expr: of('nodejs_heap_size_used_bytes'), legend: 'heap used {{instance}}' },
      ],
      least: 0,
      runbook: 'size',
    },
    {
      title: 'Memory in use',
      description:
        'Of what the container is given, or else the machine has. Good: below 80 %. The line is where the alert begins.',
      kind: 'timeseries',
      unit: 'percentunit',
      queries: [
        {
          expr: `${of('process_resident_memory_bytes')} / ${of('quotegate_memory_limit_bytes')}`,
          legend: '{{instance}}',
        },
      ],
      steps: redFrom(thresholds.memoryShare),
      least: 0,
      most: 1,
      runbook: 'quotegatememoryfull',
    },
    {
      title: 'Time spent collecting garbage',
      description: 'As a share of the time of each process. Good: below 5 %.',
      kind: 'timeseries',
      unit: 'percentunit',
      queries: [
        {
          expr: `sum by (instance) (${rate('nodejs_gc_duration_seconds_sum')})`,
          legend: '{{instance}}',
        },
      ],
      least: 0,
      runbook: 'quotegateeventlooplag',
    },
    {
      title: 'Descriptors in use',
      description:
        'Connections and files, as a share of what the system allows. Good: below 70 %; at 75 % clients are turned away.',
      kind: 'timeseries',
      unit: 'percentunit',
      queries: [{ expr: `${of('process_open_fds')} / ${of('process_max_fds')}`, legend: '{{instance}}' }],
      steps: redFrom(thresholds.descriptorShare),
      least: 0,
      most: 1,
      runbook: 'quotegatedescriptorsfull',
    },
    {
      title: 'Instances that answer Prometheus',
      description: 'Good: as many as there are replicas.',
      kind: 'timeseries',
      unit: 'none',
      queries: [{ expr: `sum by (job) (${of('up')})`, legend: '{{job}}' }],
      least: 0,
      runbook: 'quotegatetargetabsent',
    },
    {
      title: 'Restarts in a quarter of an hour',
      description: 'Good: 0, and 1 after a deployment. From the line on it dies again and again: the alert.',
      kind: 'timeseries',
      unit: 'none',
      queries: [
        {
          expr: `changes(${of('process_start_time_seconds')}[15m])`,
          legend: '{{instance}}',
        },
      ],
      // Whole numbers: more than two are three.
      steps: redFrom(thresholds.restarts + 1),
      least: 0,
      runbook: 'quotegaterestarts',
    },
    {
      title: 'Uptime',
      description: 'Good: since the last deployment. The purple marks are restarts.',
      kind: 'stat',
      unit: 's',
      queries: [{ expr: `time() - ${of('process_start_time_seconds')}`, legend: '{{instance}}' }],
      width: 8,
      runbook: 'restart',
    },
    {
      title: 'Versions',
      description: 'Instances by version. Good: one version, but for the minutes of a deployment.',
      kind: 'stat',
      unit: 'none',
      queries: [{ expr: `count by (version) (${of('quotegate_build_info')})`, legend: '{{version}}' }],
      width: 8,
      runbook: 'deploy',
    },
  ],
}
