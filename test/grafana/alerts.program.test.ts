import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { withExpectedLinks, withLinks, withSeverities } from '../../scripts/alerts.ts'
import { dashboardPage, runbookPage } from '../../scripts/links.ts'
import { runbookPageOf } from '../../src/operations/outages.ts'
import {
  sectionOf,
  troubleRows,
  usableReasons,
} from '../../src/operations/trouble-table.ts'
import { newFolder } from '../support/machine/new-folder.ts'
import {
  alertRules,
  alertTestFiles,
  alertTests,
  anchorsOf,
  readGrafana,
  recordingRules,
} from '../support/observing/grafana.ts'
import { promtool } from '../support/observing/promtool.ts'

const grafana = (path: string) =>
  fileURLToPath(new URL(`../../grafana/${path}`, import.meta.url))
const read = (page: string) =>
  readFileSync(new URL(`../../docs/${page}`, import.meta.url), 'utf8')
const runbook = read('runbook.md')

/** The part of the runbook under one heading. */
function section(heading: string): string {
  const [, rest = ''] = runbook.split(new RegExp(`\n### ${heading}(?: ·.*)?\n`))
  return rest.split(/\n#{2,3} /)[0] ?? ''
}

test.each(alertRules.map((rule) => [rule.alert, rule] as const))(
  '%s has texts, a dashboard, a section of the runbook that says what to do, a case that fires it and one that does not',
  (alert, rule) => {
    expect(rule.labels.severity).toMatch(/^(?:critical|warning)$/)
    expect(rule.annotations).toMatchObject({
      summary: expect.any(String),
      description: expect.any(String),
      dashboard_url: dashboardPage,
      runbook_url: `${runbookPage}#${sectionOf({ alert })}`,
    })
    expect(anchorsOf(runbook)).toContain(sectionOf({ alert }))
    expect(section(alert)).toMatch(/\*\*Look at[\s\S]*do:\*\*/i)
    const cases = alertTests
      .flatMap((each) => each.alert_rule_test)
      .filter(({ alertname }) => alertname === alert)
    expect(new Set(cases.map(({ exp_alerts }) => exp_alerts.length > 0)).size).toBe(2)
  },
)

test('the links of the alerts are those that npm run docs writes, to a runbook that exists', () => {
  const rules = readGrafana('alerts.yml')
  expect(withLinks(rules)).toBe(rules)
  for (const file of alertTestFiles) {
    const cases = readGrafana(file)
    expect(withExpectedLinks(cases, rules)).toBe(cases)
  }
  const [, path = ''] = runbookPage.split('/blob/main/')
  expect(existsSync(new URL(`../../${path}`, import.meta.url))).toBe(true)
  // It is below the homepage of package.json; without one it is a path.
  const page = 'https://example.org/quotegate/blob/main/docs/runbook.md'
  expect(runbookPageOf('https://example.org/quotegate/#readme')).toBe(page)
  expect(runbookPageOf(undefined)).toBe('docs/runbook.md')
})

/** What an expression compares with, and how far back its history has to reach, each once. */
function numbersOf(expr: string): number[] {
  const recorded = recordingRules.filter(({ record }) => expr.includes(record))
  const all = [expr, ...recorded.map((rule) => rule.expr)].join('\n')
  const found = all.matchAll(/(?:[<>]=?|==|offset) ([\d.]+)(?: \* ([\d.]+))?/g)
  return [
    ...new Set(
      [...found].map(([, number, times = '1']) => Number(number) * Number(times)),
    ),
  ]
}

const ruleOf = ({ alert, severity, window }: (typeof troubleRows)[number]) =>
  alertRules.filter(
    (rule) =>
      rule.alert === alert &&
      rule.labels.severity === severity &&
      rule.labels.window === window,
  )

test.each(
  troubleRows
    .filter(({ alert }) => alert !== undefined)
    .map((row) => [row.alert, row] as const),
)(
  '%s has the severity, the patience and the numbers of its row in the table of troubles',
  (_alert, row) => {
    const found = ruleOf(row).map(({ expr, for: patience }) => ({
      patience,
      numbers: numbersOf(expr),
    }))
    expect(found).toEqual([
      { patience: row.patience, numbers: Object.values(row.limits) },
    ])
  },
)

test('every alert has a row in the table of troubles, and every row a section of the runbook', () => {
  const known = troubleRows.flatMap(ruleOf)
  expect(alertRules.filter((rule) => !known.includes(rule))).toEqual([])
  const anchors = anchorsOf(runbook)
  expect(troubleRows.filter((row) => !anchors.has(sectionOf(row)))).toEqual([])
  expect(withSeverities(runbook)).toBe(runbook)
  expect(section('QuotegateBreakerOpen')).toContain(
    '**Severity:** `critical` after 1 min.',
  )
})

test('quotes that users can use, though they are not kept, do not count for QuotegateNoQuotes', () => {
  const { expr = '' } =
    alertRules.find(({ alert }) => alert === 'QuotegateNoQuotes') ?? {}
  expect(expr.split(`reason!~"${usableReasons.join('|')}"`)).toHaveLength(3)
})

test('the command of docs/operations.md that sets another address changes every link, in the tests too', () => {
  const folder = newFolder()
  const ofKubernetes = ['prometheus-rule', 'grafana-dashboard'].map(
    (name) => `deploy/kubernetes/${name}.yaml`,
  )
  cpSync(grafana(''), join(folder, 'grafana'), { recursive: true })
  for (const file of ofKubernetes) cpSync(grafana(`../${file}`), join(folder, file))
  const [command = 'false'] = read('operations.md').match(/^sed -i .*$/m) ?? []
  expect(spawnSync('sh', ['-c', command], { cwd: folder }).status).toBe(0)
  const standIns = [runbookPage, dashboardPage].flatMap((page) => [
    '-e',
    new URL(page).host,
  ])
  const left = spawnSync('grep', ['-rlF', ...standIns, '.'], {
    cwd: folder,
    encoding: 'utf8',
  })
  expect(left.stdout).toBe('')
})

test.each(alertTestFiles)(
  'promtool passes every case of %s',
  { tags: ['promtool'], timeout: 300_000 },
  (file) => {
    expect(promtool(['test', 'rules', grafana(file)])).toEqual({
      status: 0,
      output: expect.stringContaining('SUCCESS'),
    })
  },
)

test('promtool accepts the rules, and prometheus.yml with them', {
  tags: ['promtool'],
}, () => {
  const { status, output } = promtool(['check', 'config', grafana('prometheus.yml')])
  const found = `${alertRules.length + recordingRules.length} rules found`
  expect([status, output]).toEqual([0, expect.stringContaining(found)])
})
