import { collectDefaultMetrics, Registry } from 'prom-client'
import { createQuoteMetrics, type FloatOrderDecision, type QuoteMetrics } from './metrics/quotes.ts'
import { createRequestMetrics, type RequestMetrics } from './metrics/requests.ts'
import { createGauge } from './metrics/tallies.ts'
import { createUpstreamMetrics, type UpstreamMetrics } from './metrics/upstreams.ts'

export type { FloatOrderDecision }

/** Everything the gateway counts, in a registry of its own: two gateways in one process share nothing. */
export interface Metrics extends RequestMetrics, QuoteMetrics {
  upstreams: Readonly<Record<'swap' | 'payments' | 'webhooks', UpstreamMetrics>>
  contentType: string
  render(): Promise<string>
}

export interface MetricsOptions {
  version: string
  notKeptReasons: readonly string[]
  /** Pairs with series of their own; a client can add none. */
  pairs?: readonly string[]
}

// `promtool check metrics` refuses these gauges for their names.
const misnamed = [
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
]

/** What each metric means, and what to do when it moves, is in docs/metrics.md. */
export function createMetrics({ version, notKeptReasons, pairs = [] }: MetricsOptions): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  for (const name of misnamed) registry.removeSingleMetric(name)
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
    contentType: registry.contentType,
    render: () => registry.metrics(),
  }
}
