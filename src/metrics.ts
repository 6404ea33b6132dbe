import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import { type ProblemSlug, problemTypes } from './problem.ts'

const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const
const statusClasses = ['aborted', '1xx', '2xx', '3xx', '4xx', '5xx'] as const
const routes = ['quote', 'float-order', 'order', 'swap', 'payments', 'webhooks', 'none'] as const

type Route = (typeof routes)[number]
interface Increment {
  inc(): void
}

/** Everything the gateway counts, in a registry of its own: two gateways in one process share nothing. */
export interface Metrics {
  /** A status of 0 is a request whose client left, or whose answer broke off. */
  countRequest(request: { area: Route; method: string; status: number }): void
  problems: Readonly<Record<ProblemSlug, Increment>>
  clientAddressNotes: Readonly<Record<'malformed-header' | 'untrusted-header', Increment>>
  contentType: string
  render(): Promise<string>
}

export function createMetrics(options: { version: string }): Metrics {
  const registry = new Registry()
  const registers = [registry]
  collectDefaultMetrics({ register: registry })
  // `promtool check metrics` refuses these gauges for their names.
  for (const name of [
    'nodejs_active_handles_total',
    'nodejs_active_requests_total',
    'nodejs_active_resources_total',
  ]) {
    registry.removeSingleMetric(name)
  }

  new Gauge({
    name: 'quotegate_build_info',
    help: 'Version of the gateway and of Node; always 1',
    labelNames: ['version', 'node_version'],
    registers,
  }).set({ version: options.version, node_version: process.version }, 1)

  const requests = new Counter({
    name: 'quotegate_http_requests_total',
    help: 'Requests answered or broken off, by part of the service',
    labelNames: ['route', 'method', 'status_class'],
    registers,
  })
  const problems = new Counter({
    name: 'quotegate_problems_total',
    help: 'Answers made by the gateway itself, by problem type',
    labelNames: ['type'],
    registers,
  })
  const addressNotes = new Counter({
    name: 'quotegate_client_address_headers_ignored_total',
    help: 'Client-address headers that changed nothing: malformed, or sent by a private peer outside TRUST_PROXY',
    labelNames: ['reason'],
    registers,
  })

  // Children are held, because looking one up by a label object costs microseconds; and made at once, so
  // that rate() sees the first event of each.
  const requestCounters = new Map<string, Counter.Internal>()
  for (const route of routes) {
    for (const method of [...methods, 'other']) {
      for (const statusClass of statusClasses) {
        const child = requests.labels(route, method, statusClass)
        child.inc(0)
        requestCounters.set(route + method + statusClass, child)
      }
    }
  }

  return {
    countRequest({ area, method, status }) {
      const statusClass = statusClasses[Math.floor(status / 100)] ?? '5xx'
      const known = requestCounters.get(area + method + statusClass)
      ;(known ?? requestCounters.get(`${area}other${statusClass}`))?.inc()
    },
    problems: children(problems, Object.keys(problemTypes) as ProblemSlug[]),
    clientAddressNotes: children(addressNotes, ['malformed-header', 'untrusted-header']),
    contentType: registry.contentType,
    render: () => registry.metrics(),
  }
}

function children<Label extends string>(
  counter: Counter,
  labels: readonly Label[],
): Record<Label, Increment> {
  const held: Partial<Record<Label, Increment>> = {}
  for (const label of labels) {
    const child = counter.labels(label)
    child.inc(0)
    held[label] = child
  }
  return held as Record<Label, Increment>
}
