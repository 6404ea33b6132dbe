/** The parts of a Grafana dashboard that ours is made of. */

export interface Query {
  expr: string
  legend: string
}

export type PanelKind = 'stat' | 'timeseries' | 'heatmap' | 'state-timeline'

export interface Panel {
  title: string
  /** What good looks like. */
  description: string
  kind: PanelKind
  unit: string
  queries: readonly Query[]
  /** From where on it is bad, in colours; those of an alert are the alert's. */
  steps?: readonly Step[]
  stacked?: boolean
  least?: number
  most?: number
  /** The section of docs/operations.md to read when it looks bad. */
  runbook?: string
  width?: number
}

export interface Step {
  from: number | null
  color: 'green' | 'yellow' | 'red'
}

export interface Row {
  title: string
  panels: readonly Panel[]
}

/** Good below, bad from `from` on. */
export const redFrom = (from: number): readonly Step[] => [
  { from: null, color: 'green' },
  { from, color: 'red' },
]

/** A metric of the gateways that are looked at. */
export function of(metric: string, matchers = ''): string {
  return `${metric}{job=~"$job",instance=~"$instance"${matchers === '' ? '' : `,${matchers}`}}`
}

export const interval = '$__rate_interval'

export function rate(metric: string, matchers = '', over = interval): string {
  return `rate(${of(metric, matchers)}[${over}])`
}

export function quantile(share: number, histogram: string, by = 'le', matchers = ''): string {
  return `histogram_quantile(${share}, sum by (${by}) (${rate(`${histogram}_bucket`, matchers)}))`
}

const columns = 24
const panelHeight = 8
const statHeight = 4

export function runbookUrl(section: string): string {
  return `$runbook#${section}`
}

/** Every row under its title, its panels side by side. All but the first `open` rows are collapsed. */
export function layOut(rows: readonly Row[], { open }: { open: number }): object[] {
  const laidOut: object[] = []
  let top = 0
  let id = 1
  for (const [place, { title, panels }] of rows.entries()) {
    const collapsed = place >= open
    const within: object[] = []
    const gridPos = { h: 1, w: columns, x: 0, y: top }
    laidOut.push({ id: id++, type: 'row', title, collapsed, gridPos, panels: collapsed ? within : [] })
    top += 1
    let left = 0
    let height = 0
    for (const panel of panels) {
      const width = panel.width ?? (panel.kind === 'stat' ? 4 : 8)
      if (left + width > columns) {
        left = 0
        top += height
      }
      height = panel.kind === 'stat' ? statHeight : panelHeight
      within.push(toGrafana(panel, id++, { h: height, w: width, x: left, y: top }))
      left += width
    }
    if (collapsed) continue
    laidOut.push(...within)
    top += height
  }
  return laidOut
}

function toGrafana(panel: Panel, id: number, gridPos: object): object {
  const { title, description, kind, unit, queries, steps, runbook } = panel
  const steps_ = steps ?? [{ from: null, color: 'green' }]
  return {
    id,
    type: kind,
    title,
    description,
    gridPos,
    datasource: { type: 'prometheus', uid: '$datasource' },
    ...(runbook ? { links: [{ title: 'Runbook', url: runbookUrl(runbook), targetBlank: true }] } : {}),
    fieldConfig: {
      defaults: {
        unit,
        ...(panel.least === undefined ? {} : { min: panel.least }),
        ...(panel.most === undefined ? {} : { max: panel.most }),
        color: { mode: kind === 'timeseries' ? 'palette-classic' : 'thresholds' },
        thresholds: {
          mode: 'absolute',
          steps: steps_.map(({ from, color }) => ({ value: from, color })),
        },
        custom: customOf(panel),
      },
      overrides: [],
    },
    options: optionsOf(panel),
    targets: queries.map(({ expr, legend }, index) => ({
      refId: String.fromCharCode(65 + index),
      expr,
      legendFormat: legend,
      ...(kind === 'heatmap' ? { format: 'heatmap' } : {}),
      ...(kind === 'stat' ? { instant: true } : {}),
    })),
  }
}

function customOf({ kind, stacked, steps }: Panel): object {
  if (kind !== 'timeseries') return {}
  return {
    drawStyle: 'line',
    lineWidth: 1,
    fillOpacity: stacked ? 40 : 8,
    showPoints: 'never',
    stacking: { mode: stacked ? 'normal' : 'none' },
    thresholdsStyle: { mode: steps ? 'line' : 'off' },
  }
}

function optionsOf({ kind, unit }: Panel): object {
  switch (kind) {
    case 'stat':
      return {
        colorMode: 'value',
        graphMode: 'none',
        reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
      }
    case 'heatmap':
      return {
        calculate: false,
        yAxis: { unit },
        cellGap: 1,
        color: { mode: 'scheme', scheme: 'Blues', steps: 32 },
        legend: { show: true },
        tooltip: { mode: 'single', yHistogram: true },
      }
    case 'state-timeline':
      return {
        showValue: 'never',
        mergeValues: true,
        legend: { displayMode: 'list', placement: 'bottom', showLegend: true },
      }
    case 'timeseries':
      return {
        legend: { displayMode: 'list', placement: 'bottom', showLegend: true },
        tooltip: { mode: 'multi', sort: 'desc' },
      }
  }
}
