import { setImmediate as nextTurn } from 'node:timers/promises'
import { collectDefaultMetrics, Histogram, type Metric, Registry } from 'prom-client'
import { memoryLimits } from '../process/memory.ts'
import { countEvents } from './counts.ts'
import { type GaugedParts, watch } from './gauges.ts'
import { otherPair } from './labels.ts'
import { MetricSet } from './series.ts'

// Each of these has a series for every kind of open handle, which callers decide, and walks all handles at every
// scrape: milliseconds with thousands of connections. `promtool check metrics` also refuses the names in _total.
// process_open_fds says as much.
const leftOut = ['handles', 'requests', 'resources'].flatMap((what) => [
  `nodejs_active_${what}`,
  `nodejs_active_${what}_total`,
])
const collections = ['major', 'minor', 'incremental', 'weakcb']

let ofProcess: Registry | undefined

/**
 * One registry for all gateways of the process: prom-client never stops watching the event loop and the garbage
 * collector for a registry that it has filled.
 */
function processMetrics(): Registry {
  if (ofProcess !== undefined) return ofProcess
  ofProcess = new Registry()
  collectDefaultMetrics({ register: ofProcess })
  for (const name of leftOut) ofProcess.removeSingleMetric(name)
  const collecting = ofProcess.getSingleMetric('nodejs_gc_duration_seconds')
  if (collecting instanceof Histogram)
    for (const kind of collections) collecting.zero({ kind })
  return ofProcess
}

/** Work per turn; a page takes about two milliseconds. */
const msATurn = 0.25

/** Writes the page in several turns of the event loop: in one turn, quotes would wait for all of it. */
async function renderPage(registry: Registry): Promise<{ text: string; tookMs: number }> {
  const written: string[] = []
  let tookMs = 0
  let turnBeganMs = performance.now()
  for (const { name } of registry.getMetricsAsArray()) {
    written.push(await registry.getSingleMetricAsString(name))
    const turnMs = performance.now() - turnBeganMs
    if (turnMs < msATurn) continue
    tookMs += turnMs
    await nextTurn()
    turnBeganMs = performance.now()
  }
  const text = `${written.join('\n\n')}\n`
  return { text, tookMs: tookMs + performance.now() - turnBeganMs }
}

interface MetricsOptions {
  version: string
  /** Pairs with their own series. */
  pairs?: readonly string[]
}

/** What the gateway counts, in a registry of its own: two gateways in one process share no count. */
export type Metrics = ReturnType<typeof createMetrics>

/** docs/metrics.md says what each metric means. */
export function createMetrics({ version, pairs: named = [] }: MetricsOptions) {
  const set = new MetricSet()
  const { registry } = set
  for (const metric of processMetrics().getMetricsAsArray())
    registry.registerMetric(metric as unknown as Metric)
  const pairs = [...new Set([...named, otherPair])]
  const ofBuild = { version, node_version: process.version }
  set.gauge(
    'build_info',
    'Version of the gateway and of Node; always 1',
    () => 1,
    ofBuild,
  )
  set.gauge(
    'memory_limit_bytes',
    'Memory that the process may have: of its container, or else of the machine',
    () => memoryLimits().processBytes,
  )
  return {
    ...countEvents(set, pairs),
    /** Called once, with the parts of the gateway, which each scrape reads. */
    watch: (parts: GaugedParts) => watch(set, parts, pairs),
    contentType: registry.contentType,
    render: async () => (await renderPage(registry)).text,
    /** Also returns how long the page took, without the turns in between. */
    renderTimed: () => renderPage(registry),
  }
}
