import { setImmediate as nextTurn } from 'node:timers/promises'
import { collectDefaultMetrics, Histogram, type Metric, Registry } from 'prom-client'
import type { ProblemSlug } from '../http/problem.ts'
import type { UpstreamName } from '../http/upstreams.ts'
import { memoryLimits } from '../process/memory.ts'
import type { TracingObserver } from '../process/span.ts'
import type { Area } from '../routes/area.ts'
import type { ServerObserver } from '../server/traffic-server.ts'
import { type CoolDownMetrics, createCoolDownMetrics } from './cool-downs.ts'
import { createJournalMetrics, type JournalMetrics } from './journal.ts'
import { createQuoteMetrics, type QuoteMetrics } from './quotes.ts'
import { createRequestBodyMetrics, type RequestBodyMetrics } from './request-bodies.ts'
import { createRequestMetrics, type RequestMetrics } from './requests.ts'
import { createGauge } from './series.ts'
import { createStoreMetrics, type StoreMetrics } from './store.ts'
import { createTraceMetrics } from './traces.ts'
import { createUpstreamMetrics, type UpstreamMetrics } from './upstreams.ts'

/** Everything the gateway counts, in a registry of its own: two gateways in one process share no count. */
export interface Metrics extends RequestMetrics, QuoteMetrics {
  server: ServerObserver
  upstreams: Readonly<Record<UpstreamName, UpstreamMetrics>>
  requestBodies: RequestBodyMetrics
  store: StoreMetrics
  journal: JournalMetrics
  coolDowns: CoolDownMetrics
  traces: TracingObserver
  contentType: string
  render(): Promise<string>
  /** Also how long it took, the turns of the event loop between its own aside. */
  renderTimed(): Promise<{ text: string; tookMs: number }>
}

export interface MetricsOptions {
  version: string
  areas: readonly Area[]
  upstreams: readonly UpstreamName[]
  problems: readonly ProblemSlug[]
  notKeptReasons: readonly string[]
  /** Pairs with series of their own; a client can add none. */
  pairs?: readonly string[]
}

// Each of these has a series for whatever kinds of handle happen to be open, which clients decide, and walks all handles
// at every scrape: milliseconds with thousands of connections. `promtool check metrics` also refuses the names in
// _total. process_open_fds says as much.
const leftOut = ['handles', 'requests', 'resources'].flatMap((what) => [
  `nodejs_active_${what}`,
  `nodejs_active_${what}_total`,
])
const collections = ['major', 'minor', 'incremental', 'weakcb']

let ofProcess: Registry | undefined

/**
 * One registry for the process, however many gateways are in it: prom-client never stops watching the event loop and
 * the garbage collector, for each registry that it was asked to fill.
 */
function processMetrics(): Registry {
  if (ofProcess !== undefined) return ofProcess
  ofProcess = new Registry()
  collectDefaultMetrics({ register: ofProcess })
  for (const name of leftOut) ofProcess.removeSingleMetric(name)
  const collecting = ofProcess.getSingleMetric('nodejs_gc_duration_seconds')
  if (collecting instanceof Histogram) for (const kind of collections) collecting.zero({ kind })
  return ofProcess
}

/** Of the two milliseconds that a page takes. */
const msATurn = 0.25

/** Writes the page in several turns of the event loop: in one turn, quotes would wait for all of it. */
async function renderPage(registry: Registry): ReturnType<Metrics['renderTimed']> {
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

/** What each metric means, and what to do when it moves, is in docs/metrics.md. */
export function createMetrics({ version, pairs = [], ...options }: MetricsOptions): Metrics {
  const registry = new Registry()
  for (const metric of processMetrics().getMetricsAsArray())
    registry.registerMetric(metric as unknown as Metric)
  createGauge(
    {
      registry,
      name: 'quotegate_build_info',
      help: 'Version of the gateway and of Node; always 1',
    },
    [{ labels: { version, node_version: process.version }, read: () => 1 }],
  )
  createGauge(
    {
      registry,
      name: 'quotegate_memory_limit_bytes',
      help: 'Memory that the process may have: of its container, or else of the machine',
    },
    [{ labels: {}, read: () => memoryLimits().processBytes }],
  )
  const requests = createRequestMetrics(registry, options)
  return {
    ...requests,
    ...createQuoteMetrics(registry, { notKeptReasons: options.notKeptReasons, pairs }),
    server: requests.exchanges,
    upstreams: createUpstreamMetrics(registry, { upstreams: options.upstreams, pairs }),
    requestBodies: createRequestBodyMetrics(registry),
    store: createStoreMetrics(registry),
    journal: createJournalMetrics(registry),
    coolDowns: createCoolDownMetrics(registry),
    traces: createTraceMetrics(registry),
    contentType: registry.contentType,
    render: async () => (await renderPage(registry)).text,
    renderTimed: () => renderPage(registry),
  }
}
