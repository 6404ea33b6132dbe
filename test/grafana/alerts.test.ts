import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { runbookPage } from '../../scripts/dashboard/dashboard.ts'
import { isInstalled, promtool } from '../support/machine/tools.ts'
import { alertRules, alertTests, anchorsOf } from '../support/observing/grafana.ts'

const grafana = (path: string) => fileURLToPath(new URL(`../../grafana/${path}`, import.meta.url))
const runbook = readFileSync(new URL('../../docs/operations.md', import.meta.url), 'utf8')

/** The part of the runbook under one heading. */
function section(heading: string): string {
  const [, rest = ''] = runbook.split(`\n### ${heading}\n`)
  return rest.split(/\n#{2,3} /)[0] ?? ''
}

describe.each(alertRules.map((rule) => [rule.alert, rule] as const))('%s', (alert, rule) => {
  test('has a severity, a summary, and a section of its own in the runbook', () => {
    expect(rule.labels.severity).toMatch(/^(?:critical|warning)$/)
    expect(rule.annotations.summary).toBeTruthy()
    expect(rule.annotations.runbook_url).toBe(`${runbookPage}#${alert.toLowerCase()}`)
    expect(anchorsOf(runbook)).toContain(alert.toLowerCase())
  })

  test('is explained there: what it means, what to look at, what to do', () => {
    expect(section(alert)).toMatch(/\*\*Means:\*\*|\*\*Look at, do:\*\*/)
    expect(section(alert)).toMatch(/\*\*Look at/)
    expect(section(alert)).toMatch(/\*\*Do:\*\*|, do:\*\*/)
  })

  test('has a case that fires it and one that does not', () => {
    const cases = alertTests
      .flatMap((each) => each.alert_rule_test)
      .filter(({ alertname }) => alertname === alert)
    expect(cases.filter(({ exp_alerts }) => exp_alerts.length > 0).length).toBeGreaterThan(0)
    expect(cases.filter(({ exp_alerts }) => exp_alerts.length === 0).length).toBeGreaterThan(0)
  })
})

test('the command of the runbook that puts in its own address reaches every link, those of the tests too', () => {
  const folder = mkdtempSync(join(tmpdir(), 'quotegate-links-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  cpSync(grafana(''), join(folder, 'grafana'), { recursive: true })
  const [command = 'false'] = runbook.match(/^sed -i .*$/m) ?? []
  expect(spawnSync('sh', ['-c', command], { cwd: folder }).status).toBe(0)
  const left = spawnSync('grep', ['-rlF', new URL(runbookPage).host, '.'], { cwd: folder, encoding: 'utf8' })
  expect(left.stdout).toBe('')
})

describe.skipIf(!isInstalled('promtool'))('promtool', () => {
  test('finds every case of alerts.test.yml as it should be', () => {
    expect(promtool(['test', 'rules', grafana('alerts.test.yml')])).toEqual({
      status: 0,
      output: expect.stringContaining('SUCCESS'),
    })
  }, 120_000)

  test('accepts the rules, and prometheus.yml with them', () => {
    const { status, output } = promtool(['check', 'config', grafana('prometheus.yml')])
    expect([status, output]).toEqual([0, expect.stringContaining(`${alertRules.length} rules found`)])
  })
})
