/**
 * Draws docs/dashboard.svg: runs the real Prometheus on a gateway under traffic, as test/prometheus/ does, asks it
 * every panel's queries and draws what they bring. `npm run preview`; needs Debian's `prometheus`.
 */
import { writeFileSync } from 'node:fs'
import { setStage } from '../test/prometheus/stage.ts'
import { dashboard, substitute } from '../test/support/observing/grafana.ts'
import { drawDashboard } from './dashboard/draw.ts'
import type { DrawnSeries } from './dashboard/draw-panel.ts'

const stage = await setStage()
const results = new Map<number, DrawnSeries[]>()
for (const { id, targets = [] } of dashboard.panels) {
  const series: DrawnSeries[] = []
  for (const { expr, legendFormat } of targets) {
    const samples = await stage.prometheus.queryRange(substitute(expr, stage.variables), stage.range)
    for (const { labels, points } of samples) {
      series.push({
        name: legendFormat.replace(/\{\{(\w+)\}\}/g, (_whole, label: string) => labels[label] ?? ''),
        upTo: Number((labels.le ?? '').replace('+Inf', 'Infinity')),
        points,
      })
    }
  }
  results.set(id, series)
}
const { range } = stage
await stage.close()

const note =
  `Drawn by npm run preview from ${Math.round(range.toSeconds - range.fromSeconds)} s of test traffic on the sandbox, ` +
  `scraped by the real Prometheus (${new Date().toISOString().slice(0, 10)}). Not a screenshot of Grafana.`
writeFileSync(
  new URL('../docs/dashboard.svg', import.meta.url),
  drawDashboard(dashboard, { results, range, note }),
)
