import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { dashboardJson } from '../../scripts/dashboard/dashboard.ts'
import { troubles } from '../../src/operations/trouble-table.ts'
import { maxClientConnections } from '../../src/server/listen.ts'
import {
  alertRules,
  anchorsOf,
  panels,
  readGrafana,
} from '../support/observing/grafana.ts'

const runbook = readFileSync(new URL('../../docs/runbook.md', import.meta.url), 'utf8')

test('the dashboard is what npm run docs writes', () => {
  expect(readGrafana('dashboards/quotegate.json')).toBe(dashboardJson())
})

test.each(panels.map((panel) => [panel.title, panel] as const))(
  'the panel "%s" says what it shows and what a good value is, of the chosen jobs and instances',
  (_title, { description, fieldConfig, targets = [], links = [] }) => {
    expect(description).toMatch(/Good:/)
    expect(fieldConfig?.defaults.unit).toBeTruthy()
    expect(targets.length).toBeGreaterThan(0)
    for (const { legendFormat, expr } of targets) {
      expect(legendFormat).not.toBe('')
      const selectors =
        expr.match(/\b(?:quotegate[_:]|nodejs_|process_|up\{)[\w:{]*[^}]*\}/g) ?? []
      expect(selectors.length).toBeGreaterThan(0)
      for (const selector of selectors) {
        // What a rule records is of all instances of a job.
        const isRecorded = selector.startsWith('quotegate:')
        expect(selector).toContain(
          isRecorded ? '{job=~"$job"' : '{job=~"$job",instance=~"$instance"',
        )
      }
    }
    const linked = links.map(({ url }) => url.replace(/^\$runbook#/, ''))
    expect(linked.filter((anchor) => !anchorsOf(runbook).has(anchor))).toEqual([])
  },
)

const stopped = 'Breakers not closed, pairs stopped, clocks not known'
const answering = 'Share of the time that store and journal answer'
const errorBudget = [
  troubles['provider-errors-long'].limits.share,
  troubles['provider-errors-slow'].limits.share,
  troubles['provider-errors-fast'].limits.share,
]

/** The panel that shows what an alert judges: its colour changes at the first number of the alert's row. */
const shown = {
  'broken-off': 'Share failed or broken off',
  failing: 'Share failed or broken off',
  'turned-away': 'Connections turned away in five minutes',
  'hit-ratio': 'Hit ratio against the last day',
  'no-quotes': 'Calls that brought no valid quote',
  'orders-refused': 'Share of orders refused or unknown',
  'unknown-orders': 'Share of orders refused or unknown',
  clock: "The provider's clock less ours",
  'clock-unknown': stopped,
  upstream: stopped,
  held: 'Held by operators',
  slow: 'Upstream p95 against the last day',
  'provider-limits': 'Calls that brought no valid quote',
  'no-quote-given': 'Since the last quote',
  pairs: stopped,
  store: answering,
  disk: answering,
  'journal-damaged': 'Journal lines skipped and files set aside',
  restarts: 'Restarts in a quarter of an hour',
  'event-loop': 'Event loop lag, p99',
  memory: 'Memory and descriptors in use',
  descriptors: 'Memory and descriptors in use',
} as const satisfies Partial<Record<keyof typeof troubles, string>>
type Shown = keyof typeof shown
const slow = [
  troubles['slow-quotes-long'].limits.share,
  troubles['slow-quotes-slow'].limits.share,
  troubles['slow-quotes-fast'].limits.share,
]
const budgets: [
  alert: string,
  panel: string,
  budget: string,
  fromLongToFast: number[],
][] = [
  ['QuotegateProviderErrors', 'Share of 5xx', '0.001', errorBudget],
  ['QuotegateOwnErrors', 'Share of 5xx', '0.001', errorBudget],
  ['QuotegateSlow', 'Share of slow quotes', '0.01', slow],
]

function stepsOf(title: string) {
  return (
    panels.find((panel) => panel.title === title)?.fieldConfig?.defaults.thresholds
      .steps ?? []
  )
}

test.each(budgets)(
  '%s has three pairs of windows, and a line for each in "%s"',
  (...row) => {
    const [alert, title, budget, fromLongToFast] = row
    const rules = alertRules.filter((rule) => rule.alert === alert)
    for (const [index, [severity, long, short, pace]] of [
      ['critical', '1h', '5m', 14.4],
      ['warning', '6h', '30m', 6],
      ['warning', '3d', '6h', 1],
    ].entries()) {
      const { labels, expr = '' } = rules[index] ?? {}
      expect(labels).toEqual({ severity, window: long })
      expect(expr.split(`> ${pace} * ${budget}`)).toHaveLength(3)
      for (const window of [long, short]) expect(expr).toContain(`[${window}]`)
    }
    expect(rules).toHaveLength(3)
    expect(stepsOf(title).map(({ value }) => value)).toEqual([null, ...fromLongToFast])
  },
)

test.each(Object.entries(shown))(
  '%s is judged where its panel "%s" changes colour',
  (kind, title) => {
    const { alert, limits } = troubles[kind as Shown]
    const [limit = Number.NaN] = Object.values(limits)
    // Of what is counted one by one, more than the limit is the next whole number.
    const isCount = limit === 0 || kind === 'restarts'
    const step = stepsOf(title).find(
      ({ value }) => value === (isCount ? limit + 1 : limit),
    )
    const isGoodAbove = step?.color === 'green'
    const { expr = '' } = alertRules.find((one) => one.alert === alert) ?? {}
    expect(step).toBeDefined()
    expect(expr).toMatch(new RegExp(`${isGoodAbove ? '<' : '>=?'} ${limit}\\b`))
  },
)

test("QuotegateOrdersUnknown fires above its red line whatever the last day's share was", () => {
  const rule = alertRules.find(({ alert }) => alert === 'QuotegateOrdersUnknown')
  expect(rule?.expr).toMatch(
    new RegExp(`\\bor sum[^>]*> ${troubles['unknown-orders'].limits.always}\\n`),
  )
  const red = stepsOf('Share of orders refused or unknown').find(
    ({ color }) => color === 'red',
  )
  expect(red?.value).toBe(troubles['unknown-orders'].limits.always)
})

test('"Memory and descriptors in use" says at which share connections are turned away, well before 100 %', () => {
  const share = (maxClientConnections('Max open files  1000') ?? 0) / 1000
  const description = panels.find(
    ({ title }) => title === 'Memory and descriptors in use',
  )?.description
  expect(description).toContain(`at ${share * 100} % connections are turned away`)
})

// Three replicas together are past a limit that each of them keeps.
test.each([
  'Connections to upstreams',
  'Processor, and collecting garbage',
  'Memory and descriptors in use',
])('the panel "%s", whose limit is that of one process, has a line for each', (title) => {
  const targets = panels.find((panel) => panel.title === title)?.targets ?? []
  expect(targets.length).toBeGreaterThan(0)
  for (const { expr, legendFormat } of targets) {
    expect(legendFormat).toContain('{{instance}}')
    expect(expr).not.toMatch(/\bsum(?! by \([^)]*\binstance\b)/)
  }
})

test('every panel is one that an alert or the runbook uses, and the runbook names none that is neither there nor on the console', () => {
  const titles = panels.map(({ title }) => title)
  const used = [...Object.values(shown), ...budgets.map(([, title]) => title)]
  const others = titles.filter(
    (title) => !used.includes(title) && !runbook.includes(`*${title}*`),
  )
  expect(others).toEqual([])
  const text = runbook.replace(/\s+/g, ' ')
  const named = [...text.matchAll(/(?<!\*)\*([A-Z][^*]{3,})\*(?!\*)/g)].map(
    ([, title = '']) => title,
  )
  // The words of its pictures are those of the page: test/console/pictures.program.test.ts.
  const ofTheConsole = readFileSync(
    new URL('../../docs/images/console-words.txt', import.meta.url),
    'utf8',
  ).split('\n')
  expect(named.filter((title) => ![...titles, ...ofTheConsole].includes(title))).toEqual(
    [],
  )
})

test('every alert with a threshold has a panel that shows it', () => {
  // Whether a target answers is not a matter of degree.
  const without = ['QuotegateTargetAbsent']
  const alerts = [...new Set(alertRules.map(({ alert }) => alert))]
  expect(alerts.sort()).toEqual(
    [
      ...Object.keys(shown).map((kind) => troubles[kind as Shown].alert),
      ...budgets.map(([alert]) => alert),
      ...without,
    ].sort(),
  )
})
