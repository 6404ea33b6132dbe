import type { Dashboard, GrafanaPanel } from '../../test/support/observing/grafana.ts'
import { bars, cells, type DrawnSeries, escapeXml, figure, lines, type Range } from './draw-panel.ts'

/** What each panel's queries brought, by the panel's id. */
export type Results = ReadonlyMap<number, readonly DrawnSeries[]>

const columnWidth = 50
const unitHeight = 20
const margin = 20
const headHeight = 64
const gap = 6

const style = `
  text { font: 11px system-ui, sans-serif; fill: #24292f }
  .title { font-size: 20px; font-weight: 600 } .row { font-size: 14px; font-weight: 600 } .name { font-weight: 600 }
  .quiet { fill: #57606a; font-size: 10px } .figure { font-size: 26px; font-weight: 600 }
  .panel { fill: #fff; stroke: #d0d7de } .ground { fill: #f6f8fa } .grid { stroke: #eaeef2 }
  polyline { fill: none; stroke-width: 1.5 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .quiet { fill: #9198a1 } .panel { fill: #161b22; stroke: #30363d } .ground { fill: #0d1117 }
    .grid { stroke: #21262d }
  }`

/** A picture of the dashboard with the results of its own queries, for a reader who has no Grafana at hand. */
export function drawDashboard(
  dashboard: Dashboard,
  { results, range, note }: { results: Results; range: Range; note: string },
): string {
  const bottom = Math.max(...dashboard.panels.map(({ gridPos }) => gridPos.y + gridPos.h))
  const width = 24 * columnWidth + 2 * margin
  const height = headHeight + bottom * unitHeight + margin
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="Preview of the Grafana dashboard">`,
    `<style>${style}</style>`,
    `<rect class="ground" width="${width}" height="${height}"/>`,
    `<text class="title" x="${margin}" y="30">quotegate: a preview of the dashboard</text>`,
    `<text class="quiet" x="${margin}" y="48">${escapeXml(note)}</text>`,
    ...dashboard.panels.map((panel) => drawPanel(panel, results.get(panel.id) ?? [], range)),
    '</svg>',
    '',
  ].join('\n')
}

function drawPanel(panel: GrafanaPanel, series: readonly DrawnSeries[], range: Range): string {
  const { gridPos, title, type } = panel
  const left = margin + gridPos.x * columnWidth
  const top = headHeight + gridPos.y * unitHeight
  if (type === 'row') {
    return `<text class="row" x="${left}" y="${top + 16}">${escapeXml(title)}</text>`
  }
  const box = { width: gridPos.w * columnWidth - gap, height: gridPos.h * unitHeight - gap }
  const inside = { left: 56, top: 26, width: box.width - 72, height: box.height - 26 - 34 }
  const place = { ...inside, ...range, boxHeight: box.height, boxWidth: box.width }
  const draw = { stat: figure, timeseries: lines, heatmap: cells, 'state-timeline': bars }[type] ?? lines
  return [
    `<g transform="translate(${left} ${top})">`,
    `<rect class="panel" width="${box.width}" height="${box.height}" rx="4"/>`,
    `<text class="name" x="10" y="16">${escapeXml(title)}</text>`,
    ...draw(panel, series, place),
    '</g>',
  ].join('')
}
