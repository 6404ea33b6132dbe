import { sectionOf } from '../../src/operations/trouble-table.ts'
import { runbookPage } from '../links.ts'
import { errorBudget, type Panel, rows } from './panels.ts'

const prometheus = { type: 'prometheus', uid: '$datasource' }
const legend = { displayMode: 'list', placement: 'bottom', showLegend: true }

const columns = 24
const panelWidth = 8
const panelHeight = 8
const budgetHeight = 4

/** Every row under its title, its panels side by side; the error budget above all. */
function layOut(): object[] {
  let id = 1
  const laidOut = [
    toGrafana(errorBudget, id++, { h: budgetHeight, w: columns, x: 0, y: 0 }),
  ]
  let top = budgetHeight
  for (const [title, panels] of Object.entries(rows)) {
    laidOut.push({
      id: id++,
      type: 'row',
      title,
      gridPos: { h: 1, w: columns, x: 0, y: top },
      panels: [],
    })
    top += 1
    for (const [index, panel] of panels.entries()) {
      const x = (index * panelWidth) % columns
      const y = top + Math.floor((index * panelWidth) / columns) * panelHeight
      laidOut.push(toGrafana(panel, id++, { h: panelHeight, w: panelWidth, x, y }))
    }
    top += Math.ceil((panels.length * panelWidth) / columns) * panelHeight
  }
  return laidOut
}

/** The budget is shown as figures, all else over time. */
function toGrafana(panel: Panel, id: number, gridPos: object): object {
  const {
    title,
    description,
    unit,
    queries,
    steps = [{ from: null, color: 'green' }],
  } = panel
  const isFigure = panel === errorBudget
  const kind = isFigure ? figures() : overTime(panel)
  return {
    id,
    type: kind.type,
    title,
    description,
    gridPos,
    datasource: prometheus,
    links: [{ title: 'Runbook', url: `$runbook#${sectionOf(panel)}`, targetBlank: true }],
    fieldConfig: {
      defaults: {
        unit,
        color: { mode: kind.color },
        thresholds: {
          mode: 'absolute',
          steps: steps.map(({ from, color }) => ({ value: from, color })),
        },
        custom: kind.custom,
      },
      overrides: [],
    },
    options: kind.options,
    targets: queries.map(({ expr, legend: legendFormat }, index) => ({
      refId: String.fromCharCode(65 + index),
      expr,
      legendFormat,
      ...(isFigure ? { instant: true } : {}),
    })),
  }
}

function figures() {
  const reduceOptions = { calcs: ['lastNotNull'], fields: '', values: false }
  const options = { colorMode: 'value', graphMode: 'none', reduceOptions }
  return { type: 'stat', color: 'thresholds', custom: {}, options }
}

function overTime({ stacked, steps }: Panel) {
  const custom = {
    drawStyle: 'line',
    lineWidth: 1,
    fillOpacity: stacked ? 40 : 8,
    showPoints: 'never',
    axisSoftMin: 0,
    stacking: { mode: stacked ? 'normal' : 'none' },
    thresholdsStyle: { mode: steps ? 'line' : 'off' },
  }
  const options = { legend, tooltip: { mode: 'multi', sort: 'desc' } }
  return { type: 'timeseries', color: 'palette-classic', custom, options }
}

function choice(name: string, label: string, values: string): object {
  return {
    name,
    label,
    type: 'query',
    datasource: prometheus,
    query: { query: values, refId: name },
    definition: values,
    refresh: 2,
    sort: 1,
    multi: true,
    includeAll: true,
    current: { text: ['All'], value: ['$__all'] },
  }
}

/** grafana/dashboards/quotegate.json as text; `npm run docs` writes it. */
export function dashboardJson(): string {
  const dashboard = {
    uid: 'quotegate',
    title: 'quotegate',
    description:
      'The gateway between our services, a swap API and a payments API. Written by npm run docs: change scripts/dashboard/.',
    tags: ['quotegate'],
    schemaVersion: 38,
    version: 1,
    editable: true,
    // Shared crosshair.
    graphTooltip: 1,
    refresh: '30s',
    time: { from: 'now-3h', to: 'now' },
    timezone: 'browser',
    links: [
      {
        title: 'Runbook',
        type: 'link',
        icon: 'doc',
        url: '$runbook',
        targetBlank: true,
        tooltip: 'What to do when something here looks bad',
      },
    ],
    templating: {
      list: [
        {
          name: 'datasource',
          label: 'Data source',
          type: 'datasource',
          query: 'prometheus',
          current: {},
        },
        choice('job', 'Job', 'label_values(quotegate_build_info, job)'),
        choice(
          'instance',
          'Instance',
          'label_values(quotegate_build_info{job=~"$job"}, instance)',
        ),
        {
          name: 'runbook',
          label: 'Runbook',
          type: 'constant',
          hide: 2,
          query: runbookPage,
        },
      ],
    },
    annotations: {
      list: [
        {
          name: 'Restarts',
          datasource: prometheus,
          enable: true,
          iconColor: 'purple',
          expr: 'changes(process_start_time_seconds{job=~"$job",instance=~"$instance"}[$__rate_interval]) > 0',
          titleFormat: 'restart of {{instance}}',
        },
      ],
    },
    panels: layOut(),
  }
  return `${JSON.stringify(dashboard, null, 2)}\n`
}

/** For the Grafana of a cluster, whose sidecar finds dashboards by the label. `json`: the dashboard. */
export function dashboardConfigMap(json: string): string {
  return `${configMapHead}${json.replace(/^(?=.)/gm, '    ')}`
}

const configMapHead = `# Made of grafana/dashboards/quotegate.json by \`npm run docs\`. Not in kustomization.yaml, because the sidecar of Grafana
# may look in another namespace.
apiVersion: v1
kind: ConfigMap
metadata:
  name: quotegate-dashboard
  namespace: quotegate
  labels:
    app.kubernetes.io/name: quotegate
    grafana_dashboard: "1"
data:
  quotegate.json: |
`
