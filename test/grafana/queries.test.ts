import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type RunningGateway, startGateway } from '../support/gateways/gateway.ts'
import { exampleVariables, queries, recordingRules, substitute } from '../support/observing/grafana.ts'
import { type PageMetric, readPage } from '../support/observing/metrics-page.ts'
import { parseQuery } from '../support/observing/promql.ts'

/** What Prometheus adds to whatever it scrapes. */
const added = ['job', 'instance']

let gateway: RunningGateway
let metrics: Map<string, PageMetric>
beforeAll(async () => {
  gateway = await startGateway()
  metrics = readPage(await gateway.metrics())
})
afterAll(() => gateway.close())

/** The metric that a name in a query belongs to. */
function metricOf(name: string): PageMetric | undefined {
  const itself = metrics.get(name)
  if (itself !== undefined) return itself.type === 'histogram' ? undefined : itself
  const whole = metrics.get(name.replace(/_(?:bucket|sum|count)$/, ''))
  return whole?.type === 'histogram' ? whole : undefined
}

/** Why the gateway cannot answer a query, if it cannot. */
function problemsOf(query: string): string[] {
  const { errors, selectors, grouping } = parseQuery(query)
  const problems = errors.map((error) => `cannot be read: ${error}`)
  const labels = new Set(['le', ...added])
  for (const { metric, matchers } of selectors) {
    if (metric === 'up' || recordingRules.some(({ record }) => record === metric)) continue
    const exposed = metricOf(metric)
    if (exposed === undefined) problems.push(`${metric} is not exposed`)
    for (const label of exposed?.labels ?? []) labels.add(label)
    for (const { label, operator, value } of matchers) {
      if (added.includes(label)) continue
      const values = exposed?.series.map((series) => series.labels[label]) ?? []
      const wanted = operator.includes('~') ? value.split('|') : [value]
      for (const each of wanted) {
        if (!values.includes(each)) problems.push(`${metric} has no ${label}="${each}"`)
      }
    }
  }
  for (const label of grouping) if (!labels.has(label)) problems.push(`nothing has a label ${label}`)
  return problems
}

test.each(queries)('$where asks for what the gateway exposes', ({ expr }) => {
  expect(problemsOf(substitute(expr, exampleVariables))).toEqual([])
})

describe('a query is refused', () => {
  test.each([
    ['that cannot be read', 'sum(rate(quotegate_http_requests_total[1m])'],
    ['for a metric that is not exposed', 'rate(quotegate_requests_total[1m])'],
    ['for a histogram as if it were a counter', 'rate(quotegate_http_request_duration_seconds[1m])'],
    ['for a label that the metric has not', 'quotegate_cache_entries{kind="a"}'],
    ['for a value that the label never has', 'quotegate_breaker_state{state="opened"}'],
    ['that groups by what nothing has', 'sum by (shard) (quotegate_cache_entries)'],
  ])('%s', (_what, query) => {
    expect(problemsOf(query)).not.toEqual([])
  })
})
