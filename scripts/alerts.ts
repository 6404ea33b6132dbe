/** Writes what is made of other places into the text of grafana/alerts.yml, of its tests and of the runbook. */
import { parse } from 'yaml'
import {
  sectionOf,
  troubleRows,
  worstSeverityOf,
} from '../src/operations/trouble-table.ts'
import { dashboardPage, runbookOf } from './links.ts'

interface Rule {
  alert: string
  labels: { severity: string; window?: string }
  annotations: { description: string }
}

const made = /^ *(?:dashboard_url|runbook_url): /
const indentOf = (line: string) => /^ */.exec(line)?.[0] ?? ''

function linksOf(alert: string, indent: string): string[] {
  return [
    `${indent}dashboard_url: ${dashboardPage}`,
    `${indent}runbook_url: ${runbookOf(alert)}`,
  ]
}

/** The links of each rule, behind its description. */
export function withLinks(rules: string): string {
  let alert = ''
  return rules
    .split('\n')
    .flatMap((line) => {
      alert = /^ *- alert: (\w+)/.exec(line)?.[1] ?? alert
      if (made.test(line)) return []
      return /^ *description: /.test(line)
        ? [line, ...linksOf(alert, indentOf(line))]
        : [line]
    })
    .join('\n')
}

/** In the section of each alert, and in links to it: how severe it is, and for how long its rule waits. */
export function withSeverities(runbook: string): string {
  return runbook
    .replace(
      /^### (Quotegate\w+).*\n\n(?:- \*\*Severity:\*\* .*\n)?/gm,
      (_section, alert: string) =>
        `### ${alert} · ${worstSeverityOf(alert)}\n\n- **Severity:** ${severitiesOf(alert).join(', ')}.\n`,
    )
    .replace(
      /\[(Quotegate\w+)\]\(#[^)]*\)/g,
      (_link, alert: string) => `[${alert}](#${sectionOf({ alert })})`,
    )
}

function severitiesOf(alert: string): string[] {
  return troubleRows
    .filter((row) => row.alert === alert)
    .map(({ severity, patience, window }) => {
      const after = patience?.replace('m', ' min').replace('h', ' h')
      const of = window === undefined ? '' : ` (\`${window}\`)`
      return `\`${severity}\` ${after === undefined ? 'at once' : `after ${after}`}${of}`
    })
}

/** The same rules for the Prometheus operator: a PrometheusRule, which holds them as they stand in grafana/alerts.yml. */
export function prometheusRule(rules: string): string {
  const groups = rules.slice(rules.indexOf('\ngroups:') + 1)
  return `${ruleHead}${groups.replace(/^(?=.)/gm, '  ')}`
}

const ruleHead = `# Made of grafana/alerts.yml by \`npm run docs\`. Not in kustomization.yaml, because only the Prometheus operator defines its
# kind.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: quotegate
  namespace: quotegate
  labels:
    app.kubernetes.io/name: quotegate
spec:
`

/** What promtool wants to see word for word of each alert that a case expects: all but its summary. */
export function withExpectedLinks(cases: string, rules: string): string {
  const { groups } = parse(rules) as { groups: { rules: Rule[] }[] }
  const all = groups.flatMap((group) => group.rules)
  let alert = ''
  let labels = ''
  const ruleOf = () =>
    all.find(
      (rule) =>
        rule.alert === alert &&
        labels.includes(`severity: ${rule.labels.severity}`) &&
        (rule.labels.window === undefined ||
          labels.includes(`window: ${rule.labels.window}`)),
    )
  return cases
    .split('\n')
    .flatMap((line) => {
      alert = /^ *- alertname: (\w+)/.exec(line)?.[1] ?? alert
      labels = /exp_labels: (.+)/.exec(line)?.[1] ?? labels
      if (made.test(line) || /^ *description: /.test(line)) return []
      if (!/^ *summary: /.test(line)) return [line]
      const indent = indentOf(line)
      const description = ruleOf()?.annotations.description ?? ''
      return [line, `${indent}description: '${description}'`, ...linksOf(alert, indent)]
    })
    .join('\n')
}
