import { gatewayName } from '../../shared/contender.ts'
import type { CaseResult, Results } from '../result.ts'
import { spreadOf } from '../rounds.ts'
import { machineAsText } from './text.ts'

const width = 860
const labelWidth = 230
const valueWidth = 90
const barHeight = 18
const barStep = 24
const barsWidth = width - labelWidth - valueWidth - 20
/** The charted figure of each case: requests a second, or the wait that a gateway adds. */
const charted: Record<string, string> = {
  hit: 'requestsPerSecond',
  'pass-get': 'requestsPerSecond',
  'pass-post-1k': 'requestsPerSecond',
  'pass-post-64k': 'requestsPerSecond',
  latency: 'addedMs',
}

/** Bars of the medians, each with a line from the lowest to the highest round. The background fits light and dark pages. */
export function drawChart(run: Results): string {
  const parts: string[] = []
  let y = 30
  for (const result of run.cases) {
    const figure = charted[result.id]
    if (figure === undefined) continue
    const group = drawCase(result, figure, y)
    parts.push(group.svg)
    y = group.nextY
  }
  const source = wrapped(machineAsText(run), 125)
  for (const [index, line] of source.entries()) parts.push(text(10, y + index * 15, line, 'small'))
  const height = y + source.length * 15 + 5
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" role="img">
<title>quotegate beside the other contenders</title>
<style>text { font-size: 13px; fill: #24292f } .title { font-size: 15px; font-weight: 600 } .small { font-size: 11px; fill: #57606a }
.bar { fill: #9aa7b5 } .own { fill: #1f7a5c } .range { stroke: #24292f; stroke-width: 1.5 }</style>
<rect width="${width}" height="${height}" fill="#ffffff"/>
${parts.join('\n')}
</svg>
`
}

function drawCase(result: CaseResult, figure: string, top: number): { svg: string; nextY: number } {
  const isWait = figure === 'addedMs'
  const bars = result.rows
    .map((row) => ({ name: row.name, ...spreadOf(row, figure) }))
    .filter(({ median }) => Number.isFinite(median))
    .sort((left, right) => (isWait ? left.median - right.median : right.median - left.median))
  const highest = Math.max(...bars.map(({ max }) => max), Number.EPSILON)
  const wide = (value: number) => (Math.max(0, value) / highest) * barsWidth
  const unit = isWait ? 'ms, less is better' : 'requests a second, more is better'
  const lines = [text(10, top, `${result.title} (${unit})`, 'title')]
  let y = top + 14
  for (const { name, median, min, max } of bars) {
    const middle = y + barHeight / 2
    const own = name.startsWith(gatewayName) ? 'own' : 'bar'
    const value = isWait ? median.toFixed(3) : Math.round(median).toLocaleString('en')
    lines.push(
      text(10, middle + 4, name),
      `<rect class="${own}" x="${labelWidth}" y="${y}" width="${wide(median).toFixed(1)}" height="${barHeight}"/>`,
      `<path class="range" d="M${(labelWidth + wide(min)).toFixed(1)} ${middle}H${(labelWidth + wide(max)).toFixed(1)}"/>`,
      text(labelWidth + wide(max) + 8, middle + 4, value),
    )
    y += barStep
  }
  return { svg: lines.join('\n'), nextY: y + 28 }
}

function text(x: number, y: number, content: string, kind?: string): string {
  const safe = content.replace(/&/g, '&amp;').replace(/</g, '&lt;')
  return `<text x="${x.toFixed(1)}" y="${y}"${kind === undefined ? '' : ` class="${kind}"`}>${safe}</text>`
}

function wrapped(line: string, maxLength: number): string[] {
  const lines = ['']
  for (const word of line.split(' ')) {
    const last = lines.length - 1
    if (`${lines[last]} ${word}`.length > maxLength) lines.push(word)
    else lines[last] = `${lines[last]} ${word}`.trim()
  }
  return lines
}
