import { readFileSync } from 'node:fs'
import { parse } from 'yaml'

const grafana = new URL('../../../grafana/', import.meta.url)
export const readGrafana = (path: string) => readFileSync(new URL(path, grafana), 'utf8')

interface GrafanaPanel {
  id: number
  type: string
  /** Of a row: whether it is closed, and with what in it. */
  collapsed?: boolean
  panels?: GrafanaPanel[]
  title: string
  description?: string
  gridPos: { h: number; w: number; x: number; y: number }
  links?: { url: string }[]
  fieldConfig?: {
    defaults: {
      unit?: string
      thresholds: { steps: { value: number | null; color: string }[] }
    }
  }
  options?: object
  targets?: { expr: string; legendFormat: string }[]
}

interface Dashboard {
  graphTooltip: number
  panels: GrafanaPanel[]
  links: { url: string }[]
  templating: {
    list: { name: string; type: string; query: unknown; definition?: string }[]
  }
  annotations: { list: { expr: string }[] }
}

export const dashboard = JSON.parse(readGrafana('dashboards/quotegate.json')) as Dashboard
/** Those that show something, not the titles of the rows. */
export const panels = dashboard.panels.flatMap((panel) =>
  panel.type === 'row' ? (panel.panels ?? []) : [panel],
)

export interface AlertRule {
  alert: string
  expr: string
  for?: string
  labels: { severity?: string; window?: string }
  annotations: {
    summary?: string
    description?: string
    dashboard_url?: string
    runbook_url?: string
  }
}

export interface RecordingRule {
  record: string
  expr: string
}

const rules = (
  parse(readGrafana('alerts.yml')) as {
    groups: { rules: (AlertRule | RecordingRule)[] }[]
  }
).groups.flatMap((group) => group.rules)
export const alertRules = rules.filter((rule) => 'alert' in rule)
export const recordingRules = rules.filter((rule) => 'record' in rule)

export interface AlertTest {
  name: string
  alert_rule_test: {
    alertname: string
    exp_alerts: { exp_labels: Record<string, string> }[]
  }[]
}

export const alertTestFiles = ['alerts.test.yml', 'alerts-days.test.yml']

export const alertTests = alertTestFiles.flatMap(
  (file) => (parse(readGrafana(file)) as { tests: AlertTest[] }).tests,
)

/** Every query there is, with where it stands. */
export const queries = [
  ...panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr, legendFormat }) => ({
      where: `${title}: ${legendFormat}`,
      expr,
    })),
  ),
  ...alertRules.map(({ alert, expr }) => ({ where: alert, expr })),
  ...recordingRules.map(({ record, expr }) => ({ where: record, expr })),
  ...dashboard.annotations.list.map(({ expr }) => ({ where: 'annotation', expr })),
]

export interface Variables {
  job: string
  instance: string
  rateInterval: string
}

/** As Grafana does it before it asks. */
export function substitute(
  query: string,
  { job, instance, rateInterval }: Variables,
): string {
  return query
    .replaceAll('$__rate_interval', rateInterval)
    .replaceAll('$job', job)
    .replaceAll('$instance', instance)
}

export const exampleVariables: Variables = {
  job: 'quotegate',
  instance: 'localhost:8081',
  rateInterval: '1m',
}

/** The anchors that a page's headings have, as GitHub and GitLab make them. */
export function anchorsOf(page: string): Set<string> {
  const headings = [...page.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => heading)
  return new Set(
    headings.map((heading) =>
      heading
        .toLowerCase()
        .replace(/[^\w\- ]/g, '')
        .replaceAll(' ', '-'),
    ),
  )
}
