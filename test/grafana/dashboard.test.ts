import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { dashboardJson } from '../../scripts/dashboard/dashboard.ts'
import { thresholds } from '../../scripts/dashboard/thresholds.ts'
import { maxClientConnections } from '../../src/server/connection-limits.ts'
import { freshMetrics } from '../support/observing/fresh-metrics.ts'
import {
  alertRules,
  alertTestFiles,
  anchorsOf,
  dashboard,
  panels,
  readGrafana,
} from '../support/observing/grafana.ts'

const runbook = readFileSync(new URL('../../docs/runbook.md', import.meta.url), 'utf8')

test('the dashboard is what npm run docs writes', () => {
  expect(readGrafana('dashboards/quotegate.json')).toBe(dashboardJson())
})

test('the dashboard begins with the error budget, and has a row for each part', () => {
  expect([dashboard.panels[0]?.type, dashboard.panels[0]?.title]).toEqual(['stat', 'Error budget left, 30 d'])
  const rows = dashboard.panels.filter(({ type }) => type === 'row').map(({ title }) => title)
  expect(rows).toEqual(['Traffic', 'Quotes', 'Float orders', 'Upstreams', 'Store and journal', 'Process'])
})

test('the dashboard asks which data source, job and instance, and shares its crosshair', () => {
  expect(dashboard.templating.list.map(({ name }) => name)).toEqual([
    'datasource',
    'job',
    'instance',
    'runbook',
  ])
  expect(dashboard.graphTooltip).toBe(1)
})

test('no two panels lie on each other, and none reaches past the 24 columns', () => {
  const taken = new Set<string>()
  for (const { title, gridPos } of dashboard.panels) {
    expect(gridPos.x + gridPos.w, title).toBeLessThanOrEqual(24)
    for (let x = gridPos.x; x < gridPos.x + gridPos.w; x += 1) {
      for (let y = gridPos.y; y < gridPos.y + gridPos.h; y += 1) {
        expect(taken.has(`${x},${y}`), title).toBe(false)
        taken.add(`${x},${y}`)
      }
    }
  }
})

describe.each(panels.map((panel) => [panel.title, panel] as const))('the panel "%s"', (_title, panel) => {
  test('says what it shows, what a good value is, its unit, and what each line is', () => {
    expect(panel.description).toMatch(/Good:/)
    expect(panel.fieldConfig?.defaults.unit).toBeTruthy()
    expect(panel.targets?.length).toBeGreaterThan(0)
    for (const { legendFormat } of panel.targets ?? []) expect(legendFormat).not.toBe('')
  })

  test('asks for the chosen jobs and instances only', () => {
    for (const { expr } of panel.targets ?? []) {
      const selectors = expr.match(/\b(?:quotegate[_:]|nodejs_|process_|up\{)[\w:{]*[^}]*\}/g) ?? []
      expect(selectors.length).toBeGreaterThan(0)
      for (const selector of selectors) {
        // What a rule records is of all instances of a job.
        const isRecorded = selector.startsWith('quotegate:')
        expect(selector).toContain(isRecorded ? '{job=~"$job"' : '{job=~"$job",instance=~"$instance"')
      }
    }
  })

  test('links only to sections that the runbook has', () => {
    const linked = (panel.links ?? []).map(({ url }) => url.replace(/^\$runbook#/, ''))
    expect(linked.filter((anchor) => !anchorsOf(runbook).has(anchor))).toEqual([])
  })
})

const stopped = 'Breakers not closed, pairs stopped, clocks not known'

/** The panel that shows what a rule judges, and where its colour changes. */
const shown: Record<string, { panels: string[]; threshold: number; inRule: string }> = {
  QuotegateProviderErrors: {
    panels: ['Share of 5xx'],
    threshold: thresholds.errorsFast,
    inRule: '> 14.4 * 0.001',
  },
  QuotegateOwnErrors: {
    panels: ['Share of 5xx'],
    threshold: thresholds.errorsFast,
    inRule: '> 14.4 * 0.001',
  },
  QuotegateSlow: {
    panels: ['Share of slow quotes'],
    threshold: thresholds.slowFast,
    inRule: '> 14.4 * 0.01',
  },
  QuotegateRequestsBrokenOff: {
    panels: ['Share failed or broken off'],
    threshold: thresholds.brokenOffShare,
    inRule: `> ${thresholds.brokenOffShare}`,
  },
  QuotegateRouteFails: {
    panels: ['Share failed or broken off'],
    threshold: thresholds.routeFailedShare,
    inRule: `> ${thresholds.routeFailedShare}`,
  },
  QuotegateClientsTurnedAway: {
    panels: ['Clients turned away in five minutes'],
    threshold: thresholds.turnedAway,
    inRule: `> ${thresholds.turnedAway}`,
  },
  QuotegateHitRatioCollapsed: {
    panels: ['Hit ratio against the last day'],
    threshold: thresholds.hitRatioOfTheDay,
    inRule: `< ${thresholds.hitRatioOfTheDay}`,
  },
  QuotegateNoQuotes: {
    panels: ['Calls that brought no valid quote'],
    threshold: thresholds.noQuoteShare,
    inRule: `> ${thresholds.noQuoteShare}`,
  },
  QuotegateOrdersRefused: {
    panels: ['Share of orders refused or unknown'],
    threshold: thresholds.refusedShare,
    inRule: `> ${thresholds.refusedShare}`,
  },
  QuotegateOrdersUnknown: {
    panels: ['Share of orders refused or unknown'],
    threshold: thresholds.unknownShare,
    inRule: `> ${thresholds.unknownShare}`,
  },
  QuotegateClockOffset: {
    panels: ["The provider's clock less ours"],
    threshold: thresholds.clockOffsetSeconds,
    inRule: `> ${thresholds.clockOffsetSeconds}`,
  },
  QuotegateClockUnknown: {
    panels: [stopped],
    threshold: thresholds.none + 1,
    inRule: `> ${thresholds.none}`,
  },
  QuotegateBreakerOpen: {
    panels: [stopped],
    threshold: thresholds.none + 1,
    inRule: `> ${thresholds.none}`,
  },
  QuotegateProviderSlow: {
    panels: ['Upstream p95 against the last day'],
    threshold: thresholds.slowerThanUsual,
    inRule: `>= ${thresholds.slowerThanUsual} *`,
  },
  QuotegateProviderLimits: {
    panels: ['Calls that brought no valid quote'],
    threshold: thresholds.quotesLimited,
    inRule: `> ${thresholds.quotesLimited}`,
  },
  QuotegatePairsStopped: {
    panels: [stopped],
    threshold: thresholds.none + 1,
    inRule: `> ${thresholds.none}`,
  },
  QuotegateStoreDown: {
    panels: ['Share of the time that store and journal answer'],
    threshold: thresholds.upShare,
    inRule: `< ${thresholds.upShare}`,
  },
  QuotegateJournalNotWritten: {
    panels: ['Share of the time that store and journal answer'],
    threshold: thresholds.upShare,
    inRule: `< ${thresholds.upShare}`,
  },
  QuotegateJournalDamaged: {
    panels: ['Journal lines skipped and files set aside'],
    threshold: thresholds.none + 1,
    inRule: `> ${thresholds.none}`,
  },
  QuotegateRestarts: {
    panels: ['Restarts in a quarter of an hour'],
    threshold: thresholds.restarts + 1,
    inRule: `> ${thresholds.restarts}`,
  },
  QuotegateEventLoopLag: {
    panels: ['Event loop lag, p99'],
    threshold: thresholds.eventLoopLagSeconds,
    inRule: `> ${thresholds.eventLoopLagSeconds}`,
  },
  QuotegateMemoryFull: {
    panels: ['Memory and descriptors in use'],
    threshold: thresholds.memoryShare,
    inRule: `> ${thresholds.memoryShare}`,
  },
  QuotegateDescriptorsFull: {
    panels: ['Memory and descriptors in use'],
    threshold: thresholds.descriptorShare,
    inRule: `> ${thresholds.descriptorShare}`,
  },
}

test.each([
  [
    'QuotegateProviderErrors',
    'Share of 5xx',
    [thresholds.errorsLong, thresholds.errorsSlowly, thresholds.errorsFast],
  ],
  [
    'QuotegateOwnErrors',
    'Share of 5xx',
    [thresholds.errorsLong, thresholds.errorsSlowly, thresholds.errorsFast],
  ],
  [
    'QuotegateSlow',
    'Share of slow quotes',
    [thresholds.slowLong, thresholds.slowSlowly, thresholds.slowFast],
  ],
])('%s has three pairs of windows, and a line for each in "%s"', (alert, title, [long, slowly, fast]) => {
  const budget = alert === 'QuotegateSlow' ? '0.01' : '0.001'
  const rules = alertRules.filter((rule) => rule.alert === alert)
  expect(rules.map(({ labels }) => labels)).toEqual([
    { severity: 'critical', window: '1h' },
    { severity: 'warning', window: '6h' },
    { severity: 'warning', window: '3d' },
  ])
  for (const [index, [pace, windows]] of [
    ['14.4', ['[1h]', '[5m]']],
    ['6', ['[6h]', '[30m]']],
    ['1', ['[3d]', '[6h]']],
  ].entries()) {
    const expr = rules[index]?.expr ?? ''
    expect(expr.split(`> ${pace} * ${budget}`)).toHaveLength(3)
    for (const window of windows ?? []) expect(expr).toContain(window)
  }
  const steps = panels.find((panel) => panel.title === title)?.fieldConfig?.defaults.thresholds.steps
  expect(steps?.map(({ value }) => value)).toEqual([null, long, slowly, fast])
})

test.each(Object.entries(shown))(
  '%s fires where its panels change colour',
  (alert, { threshold, inRule, ...is }) => {
    expect(alertRules.find((rule) => rule.alert === alert)?.expr).toContain(inRule)
    for (const title of is.panels) {
      const steps = panels.find((panel) => panel.title === title)?.fieldConfig?.defaults.thresholds.steps
      expect(
        steps?.map(({ value }) => value),
        title,
      ).toContain(threshold)
    }
  },
)

test("QuotegateOrdersUnknown fires above its red line whatever the last day's share was", () => {
  const rule = alertRules.find(({ alert }) => alert === 'QuotegateOrdersUnknown')
  expect(rule?.expr).toMatch(new RegExp(`\\bor sum[^>]*> ${thresholds.unguardedShare}\\n`))
  const panel = panels.find(({ title }) => title === 'Share of orders refused or unknown')
  const red = panel?.fieldConfig?.defaults.thresholds.steps.find(({ color }) => color === 'red')
  expect(red?.value).toBe(thresholds.unguardedShare)
})

test('"Memory and descriptors in use" says at which share clients are turned away, well before 100 %', () => {
  const share = (maxClientConnections('Max open files  1000') ?? 0) / 1000
  const description = panels.find(({ title }) => title === 'Memory and descriptors in use')?.description
  expect(description).toContain(`at ${share * 100} % clients are turned away`)
})

// Three replicas together are past a limit that each of them keeps.
test.each(['Connections to upstreams', 'Processor, and collecting garbage', 'Memory and descriptors in use'])(
  'the panel "%s", whose limit is that of one process, has a line for each',
  (title) => {
    const targets = panels.find((panel) => panel.title === title)?.targets ?? []
    expect(targets.length).toBeGreaterThan(0)
    for (const { expr, legendFormat } of targets) {
      expect(legendFormat).toContain('{{instance}}')
      expect(expr).not.toMatch(/\bsum(?! by \([^)]*\binstance\b)/)
    }
  },
)

test('every panel is one that an alert or the runbook uses', () => {
  const used = Object.values(shown).flatMap(({ panels: titles }) => titles)
  const others = panels.filter(({ title }) => !used.includes(title) && !runbook.includes(`*${title}*`))
  expect(others).toEqual([])
  expect(panels.length).toBeLessThanOrEqual(30)
})

test('every panel that the runbook names is there', () => {
  const text = runbook.replace(/\s+/g, ' ')
  const named = [...text.matchAll(/(?<!\*)\*([A-Z][^*]{3,60})\*(?!\*)/g)].map(([, title = '']) => title)
  const ofTheConsole = ['Would this order go?', 'All quotes that were asked for fail (4 of 4 pairs)']
  const titles = panels.map(({ title }) => title)
  expect(named.filter((title) => ![...titles, ...ofTheConsole].includes(title))).toEqual([])
})

test('every alert with a threshold has a panel that shows it', () => {
  // Whether a target answers is not a matter of degree.
  const without = ['QuotegateTargetAbsent']
  const alerts = [...new Set(alertRules.map(({ alert }) => alert))]
  expect(alerts.sort()).toEqual([...Object.keys(shown), ...without].sort())
})

test('a word under grafana/ that begins with quotegate_ is a metric', async () => {
  const page = await freshMetrics().render()
  const files = [
    'dashboards/quotegate.json',
    'alerts.yml',
    ...alertTestFiles,
    'alertmanager.example.yml',
    'prometheus.yml',
    'provisioning/datasources/prometheus.yml',
    'provisioning/dashboards/quotegate.yml',
  ]
  // What depends on the parts of a gateway is not on the page of metrics alone.
  const observed =
    /^quotegate_(?:cache_entries|cache_bytes|ledger_(?:entries|reach_seconds)|upstream_clock_(?:offset_seconds|unknown))$/
  const words = files.flatMap((file) => readGrafana(file).match(/\bquotegate_\w+/g) ?? [])
  expect(words.length).toBeGreaterThan(50)
  expect(words.filter((word) => !observed.test(word) && !new RegExp(`^${word}[{ ]`, 'm').test(page))).toEqual(
    [],
  )
})
