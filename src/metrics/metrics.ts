import { setImmediate as nextTurn } from 'node:timers/promises'
import { collectDefaultMetrics, Histogram, type Metric, Registry } from 'prom-client'
import { createQuoteMetrics, type FloatOrderDecision, type QuoteMetrics } from './quotes.ts'
import { createRequestMetrics, type RequestMetrics } from './requests.ts'
import { createGauge } from './series.ts'
import { createStoreMetrics, type StoreMetrics } from './store.ts'
import { createUpstreamMetrics, type UpstreamMetrics } from './upstreams.ts'

export type { FloatOrderDecision }

/** Everything the gateway counts, in a registry of its own: two gateways in one process share no count. */
export interface Metrics extends RequestMetrics, QuoteMetrics {
  upstreams: Readonly<Record<'swap' | 'payments' | 'webhooks', UpstreamMetrics>>
  store: StoreMetrics
  contentType: string
  render(): Promise<string>
}

export interface MetricsOptions {
  version: string
  notKeptReasons: readonly string[]
  /** Pairs with series of their own; a client can add none. */
  pairs?: readonly string[]
}

// Each has a series for whatever kinds of handle happen to be open, which clients decide, and walks all of them at
// every scrape: milliseconds with thousands of connections. The names in _total are also refused by
// `promtool check metrics`. process_open_fds says as much.
const leftOut = ['handles', 'requests', 'resources'].flatMap((what) => [
  `nodejs_active_${what}`,
  `nodejs_active_${what}_total`,
])
const collections = ['major', 'minor', 'incremental', 'weakcb']

let ofProcess: Registry | undefined

/**
 * Once for the process that they are about, however many gateways are in it: prom-client watches the event loop and
 * the garbage collector for ever, and with them all that it was asked to count for.
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

/** As the registry writes it, but in several turns of the event loop: quotes would wait for the whole of it. */
async function renderPage(registry: Registry): Promise<string> {
  const written: string[] = []
  let turnBeganMs = performance.now()
  for (const { name } of registry.getMetricsAsArray()) {
    written.push(await registry.getSingleMetricAsString(name))
    if (performance.now() - turnBeganMs < msATurn) continue
    await nextTurn()
    turnBeganMs = performance.now()
  }
  return `${written.join('\n\n')}\n`
}

/** What each metric means, and what to do when it moves, is in docs/metrics.md. */
export function createMetrics({ version, notKeptReasons, pairs = [] }: MetricsOptions): Metrics {
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
  return {
    ...createRequestMetrics(registry),
    ...createQuoteMetrics(registry, { notKeptReasons, pairs }),
    upstreams: createUpstreamMetrics(registry),
    store: createStoreMetrics(registry),
    contentType: registry.contentType,
    render: () => renderPage(registry),
  }
}
