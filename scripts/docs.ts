/** Writes the pages under docs/ that come from the code, the dashboard, the links of the alerts and their copy for Kubernetes. */
import { readFileSync, writeFileSync } from 'node:fs'
import { prometheusRule, withExpectedLinks, withLinks } from './alerts.ts'
import { dashboardJson } from './dashboard/dashboard.ts'
import { openApiJson } from './openapi/document.ts'
import { settingsPage } from './settings-page.ts'

writeFileSync(new URL('../docs/settings.md', import.meta.url), settingsPage())
writeFileSync(new URL('../docs/openapi.json', import.meta.url), openApiJson)
writeFileSync(
  new URL('../grafana/dashboards/quotegate.json', import.meta.url),
  dashboardJson(),
)

const alerts = new URL('../grafana/alerts.yml', import.meta.url)
const rules = withLinks(readFileSync(alerts, 'utf8'))
writeFileSync(alerts, rules)
writeFileSync(
  new URL('../deploy/kubernetes/prometheus-rule.yaml', import.meta.url),
  prometheusRule(rules),
)
for (const name of ['alerts.test.yml', 'alerts-days.test.yml']) {
  const cases = new URL(`../grafana/${name}`, import.meta.url)
  writeFileSync(cases, withExpectedLinks(readFileSync(cases, 'utf8'), rules))
}
