import { setImmediate as nextTurn } from 'node:timers/promises'
import { collectDefaultMetrics, Histogram, type Metric, Registry } from 'prom-client'
import type { Listener } from '../events.ts'
import { memoryLimits } from '../process/memory.ts'
import { createJournalMetrics, type WatchedJournals } from './journal.ts'
import { createQuoteMetrics, type QuoteGauges, type QuoteMetrics } from './quotes.ts'
import { createRequestMetrics, type RequestMetrics } from './requests.ts'
import { createGauge, createTallies } from './series.ts'
import { createStoreMetrics } from './store.ts'
import { createUpstreamMetrics, type WatchedUpstreams } from './upstreams.ts'

/** What is read at each scrape, and not counted. */
export interface Watched extends QuoteGauges {
  readonly exchanges: { readonly inFlight: number }
  readonly bodies: { readonly heldBytes: number }
  readonly upstreams: WatchedUpstreams
  readonly journals: WatchedJournals
  readonly sharedStore: { readonly up: boolean } | undefined
}

/** Everything the gateway counts, in a registry of its own: two gateways in one process share no count. */
export interface Metrics extends Pick<RequestMetrics, 'requestCounts'>, Pick<QuoteMetrics, 'quoteCounts'> {
  readonly listeners: readonly Listener[]
  /** From now on these are read at each scrape. */
  watch(parts: Watched): void
  contentType: string
  render(): Promise<string>
  /** Also how long it took, the turns of the event loop between its own aside. */
  renderTimed(): Promise<{ text: string; tookMs: number }>
}

export interface MetricsOptions {
  version: string
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
export function createMetrics({ version, pairs = [], notKeptReasons }: MetricsOptions): Metrics {
  const registry = new Registry()
  let watched: Watched | undefined
  for (const metric of processMetrics().getMetricsAsArray())
    registry.registerMetric(metric as unknown as Metric)
  const gauge = (name: string, help: string, read: () => number, labels = {}) =>
    createGauge({ registry, name: `quotegate_${name}`, help }, [{ labels, read }])
  const counter = (name: string, help: string) =>
    createTallies({ registry, name: `quotegate_${name}`, help }, [{}])[0]

  const ofBuild = { version, node_version: process.version }
  gauge('build_info', 'Version of the gateway and of Node; always 1', () => 1, ofBuild)
  gauge(
    'memory_limit_bytes',
    'Memory that the process may have: of its container, or else of the machine',
    () => memoryLimits().processBytes,
  )
  gauge(
    'request_bodies_held_bytes',
    'What is held of request bodies that are not whole yet',
    () => watched?.bodies.heldBytes ?? 0,
  )
  const bodiesRefused = counter(
    'request_bodies_refused_total',
    'Orders that were refused because they came slowly while too much was held of unfinished bodies',
  )
  const spansDropped = counter(
    'trace_spans_dropped_total',
    'Spans that were not exported: too many waited, or the collector did not take them',
  )
  const requests = createRequestMetrics(registry, () => watched?.exchanges)
  const quotes = createQuoteMetrics(registry, { notKeptReasons, pairs, watched: () => watched })
  const upstreams = createUpstreamMetrics(registry, { pairs, watched: () => watched?.upstreams })
  const store = createStoreMetrics(registry, () => watched?.sharedStore)
  createJournalMetrics(registry, () => watched?.journals)
  const others: Listener = {
    bodyRefused: () => bodiesRefused?.inc(),
    spansDropped: (count) => spansDropped?.inc(count),
  }
  return {
    listeners: [requests.listener, quotes.listener, upstreams, store, others],
    requestCounts: requests.requestCounts,
    quoteCounts: quotes.quoteCounts,
    watch(parts) {
      watched = parts
    },
    contentType: registry.contentType,
    render: async () => (await renderPage(registry)).text,
    renderTimed: () => renderPage(registry),
  }
}
