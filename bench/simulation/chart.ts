import { count } from '../shared/generated.ts'
import { type Result, share } from './report.ts'
import { modes } from './run.ts'

const width = 720
const height = 400
const plot = { left: 84, right: 700, top: 96, bottom: 330 }
const barWidth = 56
const barGap = 6

/** The picture has its own background, so it can be read on a page of any colour. */
const style = `
  text { font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; font-size: 13px; fill: #24292f }
  .title { font-size: 17px; font-weight: 600 }
  .quiet { fill: #57606a }
  .ground { fill: #ffffff; stroke: #d0d7de }
  .grid { stroke: #d8dee4 }
  .axis { stroke: #57606a }
  .off { fill: #3f6f9f }
  .on { fill: #d08a3c }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .quiet { fill: #9aa4af }
    .ground { fill: #0d1117; stroke: #30363d }
    .grid { stroke: #262c34 }
    .axis { stroke: #9aa4af }
    .off { fill: #6ea3d8 }
    .on { fill: #e0a458 }
  }
`

/** Upstream calls by partition mode, a bar for each setting of refresh-ahead. */
export function drawChart(results: readonly Result[]): string {
  const refreshAheads = [...new Set(results.map(({ refreshAheadMs }) => refreshAheadMs))]
  const requests = results[0]?.totals.requests ?? 0
  const step = gridStep(Math.max(...results.map(({ totals }) => totals.upstreamCalls)))
  const most = step * Math.ceil(Math.max(...results.map(({ totals }) => totals.upstreamCalls)) / step)
  const scale = (value: number) => rounded(plot.bottom - (value / most) * (plot.bottom - plot.top))

  const bars = modes.flatMap((mode, group) => {
    const ofMode = results.filter((result) => result.mode === mode)
    const middle = plot.left + ((group + 0.5) * (plot.right - plot.left)) / modes.length
    const left = middle - (ofMode.length * (barWidth + barGap) - barGap) / 2
    return [
      text(middle, plot.bottom + 22, mode),
      ...ofMode.flatMap(({ totals, refreshAheadMs }, index) => {
        const barLeft = rounded(left + index * (barWidth + barGap))
        const top = scale(totals.upstreamCalls)
        return [
          `<rect class="${className(refreshAheadMs)}" x="${barLeft}" y="${top}" width="${barWidth}" height="${rounded(plot.bottom - top)}" rx="2"/>`,
          text(barLeft + barWidth / 2, top - 7, count(totals.upstreamCalls)),
        ]
      }),
    ]
  })
  const grid = Array.from({ length: Math.round(most / step) + 1 }, (_line, index) => index * step).flatMap(
    (value) => [
      `<line class="${value === 0 ? 'axis' : 'grid'}" x1="${plot.left}" y1="${scale(value)}" x2="${plot.right}" y2="${scale(value)}"/>`,
      text(plot.left - 10, scale(value) + 4, count(value), 'quiet', 'end'),
    ],
  )
  const legend = refreshAheads.flatMap((refreshAheadMs, index) => {
    const left = plot.left + index * 180
    const label = refreshAheadMs === 0 ? 'refresh-ahead off' : `refresh-ahead ${count(refreshAheadMs)} ms`
    return [
      `<rect class="${className(refreshAheadMs)}" x="${left}" y="66" width="12" height="12" rx="2"/>`,
      text(left + 18, 77, label, '', 'start'),
    ]
  })

  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${describe(results)}">`,
    `<style>${style}</style>`,
    `<rect class="ground" x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="6"/>`,
    text(24, 32, 'Upstream calls by partition mode', 'title', 'start'),
    text(
      24,
      52,
      `One simulated hour, ${count(requests)} client requests (without a cache: as many calls)`,
      'quiet',
      'start',
    ),
    ...legend,
    ...grid,
    ...bars,
    text((plot.left + plot.right) / 2, height - 18, 'QUOTE_PARTITION: who may share a cached quote', 'quiet'),
    `<text class="quiet" text-anchor="middle" transform="translate(22 ${(plot.top + plot.bottom) / 2}) rotate(-90)">upstream calls in the hour</text>`,
    '</svg>',
    '',
  ].join('\n')
}

function describe(results: readonly Result[]): string {
  return results
    .filter(({ refreshAheadMs }) => refreshAheadMs === 0)
    .map(
      ({ mode, totals }) => `${mode}: ${share(totals.upstreamCalls, totals.requests)} calls per 100 requests`,
    )
    .join('; ')
}

function className(refreshAheadMs: number): string {
  return refreshAheadMs === 0 ? 'off' : 'on'
}

/** 1, 2 or 5 times a power of ten, for four to nine lines. */
function gridStep(most: number): number {
  let power = 1
  while (power * 50 < most) power *= 10
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step * 9 >= most) ?? power
}

function text(x: number, y: number, content: string, kind = '', anchor = 'middle'): string {
  const kindAttribute = kind === '' ? '' : ` class="${kind}"`
  return `<text${kindAttribute} x="${rounded(x)}" y="${rounded(y)}" text-anchor="${anchor}">${content}</text>`
}

function rounded(value: number): number {
  return Math.round(value * 10) / 10
}
