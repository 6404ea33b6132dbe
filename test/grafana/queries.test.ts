import { readFileSync } from 'node:fs'
import { afterAll, expect, test } from 'vitest'
import { startGateway } from '../support/gateways/gateway.ts'
import {
  exampleVariables,
  queries,
  recordingRules,
  substitute,
} from '../support/observing/grafana.ts'
import { type PageMetric, readPage } from '../support/observing/metrics-page.ts'
import { parseQuery } from '../support/observing/promql.ts'

/** What Prometheus adds to whatever it scrapes. */
const added = ['job', 'instance']

const gateway = await startGateway()
afterAll(() => gateway.close())
const metrics = readPage(await gateway.metrics())

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
    if (metric === 'up' || recordingRules.some(({ record }) => record === metric))
      continue
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
  for (const label of grouping)
    if (!labels.has(label)) problems.push(`nothing has a label ${label}`)
  return problems
}

test('every query asks for what the gateway exposes', () => {
  const problems = queries.flatMap(({ where, expr }) =>
    problemsOf(substitute(expr, exampleVariables)).map(
      (problem) => `${where}: ${problem}`,
    ),
  )
  expect(problems).toEqual([])
})

test('every metric of our own is in an alert, in a panel, or is something that the runbook says to look at', () => {
  const asked = queries.flatMap(({ expr }) =>
    parseQuery(substitute(expr, exampleVariables)).selectors.map(
      ({ metric }) => metricOf(metric)?.name,
    ),
  )
  const runbook = readFileSync(new URL('../../docs/runbook.md', import.meta.url), 'utf8')
  const sentences = runbook.replace(/\s+/g, ' ').match(/\blook at\b[^.]*/gi) ?? []
  const lookedAt = sentences.flatMap(
    (sentence) => sentence.match(/\bquotegate_\w+/g) ?? [],
  )
  const seen = new Set([...asked, ...lookedAt])
  const ours = [...metrics.keys()].filter((name) => name.startsWith('quotegate_'))
  expect(ours.filter((name) => !seen.has(name))).toEqual([])
})
