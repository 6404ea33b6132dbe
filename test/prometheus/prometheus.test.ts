import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { alertRules, dashboard, panels, recordingRules, substitute } from '../support/observing/grafana.ts'
import { parseQuery } from '../support/observing/promql.ts'
import { type Stage, setStage } from './stage.ts'

describe('the real Prometheus, after some of every kind of traffic', {
  tags: ['prometheus', 'redis-server'],
}, () => {
  let stage: Stage
  beforeAll(async () => {
    stage = await setStage()
  }, 120_000)
  afterAll(() => stage?.close())

  const ask = (expr: string) => stage.prometheus.query(substitute(expr, stage.variables), stage.seenAtMs)

  test('scrapes the gateway without an error', async () => {
    expect(await stage.prometheus.targets()).toEqual([
      expect.objectContaining({
        health: 'up',
        lastError: '',
        scrapeUrl: `${stage.gateway.operationsUrl}/metrics`,
      }),
    ])
  })

  test('evaluates every rule', async () => {
    const rules = await stage.prometheus.rules()
    const healths = rules.map(({ name, health }) => `${name} ${health}`)
    const names = [...alertRules.map(({ alert }) => alert), ...recordingRules.map(({ record }) => record)]
    expect(healths.sort()).toEqual(names.map((name) => `${name} ok`).sort())
  })

  test.each(
    panels.flatMap(({ title, targets = [] }) =>
      targets.map(({ expr, legendFormat }) => ({ title, legend: legendFormat, expr })),
    ),
  )('has data for the panel "$title": $legend', async ({ expr }) => {
    const samples = await ask(expr)
    expect(samples.filter(({ value }) => Number.isFinite(value)).length).toBeGreaterThan(0)
  })

  test.each([
    'Requests by route and status',
    'Lifetime of quotes',
    'Age of the quote at the order',
    'Float orders by decision',
    'Lookups by result',
    'Requests by outcome',
    'Problems by type',
    'Connections to upstreams',
    'Store calls by outcome',
  ])('has more than zeros for the panel "%s"', async (title) => {
    const [query] = panels.find((panel) => panel.title === title)?.targets ?? []
    const samples = await ask(query?.expr ?? '')
    expect(Math.max(...samples.map(({ value }) => value))).toBeGreaterThan(0)
  })

  test('saw every kind of lookup, and orders that were forwarded and refused', async () => {
    const results = await ask('sum by (result) (quotegate_cache_lookups_total{result!="bypass"}) > 0')
    expect(results.map(({ labels }) => labels.result).sort()).toEqual(['collapsed', 'expired', 'hit', 'miss'])
    const decisions = await ask('sum by (decision, reason) (quotegate_float_orders_total) > 0')
    expect(decisions.map(({ labels }) => [labels.decision, labels.reason])).toEqual(
      expect.arrayContaining([
        ['forwarded', 'live'],
        ['refused', 'expired'],
      ]),
    )
  })

  test.each(alertRules.map(({ alert, expr }) => ({ alert, expr })))(
    'evaluates $alert, and has values for each side that it compares',
    async ({ alert, expr }) => {
      await ask(expr)
      const { compared } = parseQuery(expr)
      expect(compared.length).toBeGreaterThan(0)
      for (const side of compared) {
        const values = (await ask(side)).map(({ value }) => value)
        expect(values.filter(Number.isFinite).length, `${alert}: ${side}`).toBeGreaterThan(0)
      }
    },
  )

  test('answers the annotations and variables of the dashboard', async () => {
    for (const { expr } of dashboard.annotations.list) await ask(expr)
    const offers = dashboard.templating.list.flatMap(({ definition }) => definition ?? [])
    expect(offers.length).toBe(2)
    for (const offer of offers) {
      const [, selector = '', label = ''] = /^label_values\((.+), (\w+)\)$/.exec(offer) ?? []
      const samples = await ask(selector)
      expect(samples.map(({ labels }) => labels[label])).toEqual([
        stage.variables[label as 'job' | 'instance'],
      ])
    }
  })
})
