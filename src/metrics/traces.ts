import type { Registry } from 'prom-client'
import type { TracingObserver } from '../process/span.ts'
import { createTallies } from './series.ts'

export function createTraceMetrics(registry: Registry): TracingObserver {
  const [dropped] = createTallies(
    {
      registry,
      name: 'quotegate_trace_spans_dropped_total',
      help: 'Spans that were not exported: too many waited, or the collector did not take them',
    },
    [{}],
  )
  return { spansDropped: (count) => dropped?.inc(count) }
}
