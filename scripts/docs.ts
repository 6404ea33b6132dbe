/**
 * Writes what comes from the code: pages under docs/, the types of the settings, the dashboard, and the links of the
 * alerts, with the copies of both for Kubernetes.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { prometheusRule, withExpectedLinks, withLinks, withSeverities } from './alerts.ts'
import { dashboardConfigMap, dashboardJson } from './dashboard/dashboard.ts'
import { openApiJson } from './openapi/document.ts'
import { settingTypes } from './setting-types.ts'
import { beforeProductionPage, settingsPage } from './settings-page.ts'

writeFileSync(new URL('../docs/settings.md', import.meta.url), settingsPage())
writeFileSync(
  new URL('../docs/before-production.md', import.meta.url),
  beforeProductionPage(),
)
writeFileSync(new URL('../src/gateway/settings.ts', import.meta.url), settingTypes())
writeFileSync(new URL('../docs/openapi.json', import.meta.url), openApiJson)
const dashboard = dashboardJson()
writeFileSync(new URL('../grafana/dashboards/quotegate.json', import.meta.url), dashboard)
writeFileSync(
  new URL('../deploy/kubernetes/grafana-dashboard.yaml', import.meta.url),
  dashboardConfigMap(dashboard),
)

const runbook = new URL('../docs/runbook.md', import.meta.url)
writeFileSync(runbook, withSeverities(readFileSync(runbook, 'utf8')))

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
