import type { GrafanaPanel } from '../../test/support/observing/grafana.ts'

export interface DrawnSeries {
  name: string
  /** The `le` of a bucket, for a heatmap. */
  upTo: number
  points: readonly (readonly [seconds: number, value: number])[]
}

export interface Range {
  fromSeconds: number
  toSeconds: number
}

export interface Place extends Range {
  left: number
  top: number
  width: number
  height: number
  boxWidth: number
  boxHeight: number
}

const palette = ['#1f77b4', '#2ca02c', '#ff7f0e', '#d62728', '#9467bd', '#17becf', '#8c564b', '#e377c2']
const colors: Record<string, string> = { green: '#2da44e', yellow: '#bf8700', red: '#cf222e' }
const legendLetters = 6

const unitOf = (panel: GrafanaPanel) => panel.fieldConfig?.defaults.unit ?? 'none'
const rounded = (value: number) => Math.round(value * 10) / 10
const finite = (series: DrawnSeries) => series.points.filter(([, value]) => Number.isFinite(value))

/** A value as Grafana would write it, or nearly. */
export function shown(value: number, unit: string): string {
  const digits = (number: number) => String(Number(number.toPrecision(3)))
  if (unit === 'percentunit') return `${digits(value * 100)} %`
  if (unit === 'bytes') {
    if (Math.abs(value) < 1_024) return `${digits(value)} B`
    return Math.abs(value) < 1_048_576 ? `${digits(value / 1_024)} KiB` : `${digits(value / 1_048_576)} MiB`
  }
  if (unit === 's')
    return Math.abs(value) < 1 && value !== 0 ? `${digits(value * 1_000)} ms` : `${digits(value)} s`
  return digits(value) + (unit === 'reqps' || unit === 'ops' ? '/s' : '')
}

function colorAt(panel: GrafanaPanel, value: number): string {
  const steps = panel.fieldConfig?.defaults.thresholds.steps ?? []
  const reached = steps.filter((step) => step.value === null || value >= step.value)
  return colors[reached.at(-1)?.color ?? 'green'] ?? '#2da44e'
}

export function figure(panel: GrafanaPanel, series: readonly DrawnSeries[], place: Place): string[] {
  const step = (place.boxWidth - 20) / Math.max(1, series.length)
  return series.map((each, index) => {
    const last = finite(each).at(-1)?.[1]
    const text = last === undefined ? 'no data' : shown(last, unitOf(panel))
    const color = last === undefined ? '#57606a' : colorAt(panel, last)
    return (
      `<text class="figure" style="fill:${color}" x="${rounded(10 + index * step)}" y="50">${text}</text>` +
      `<text class="quiet" x="${rounded(10 + index * step)}" y="66">${escapeXml(each.name)}</text>`
    )
  })
}

export function lines(panel: GrafanaPanel, series: readonly DrawnSeries[], place: Place): string[] {
  const values = series.flatMap((each) => finite(each).map(([, value]) => value))
  const most = Math.max(0, ...values) || 1
  const least = Math.min(0, ...values)
  const x = (seconds: number) =>
    place.left + ((seconds - place.fromSeconds) / (place.toSeconds - place.fromSeconds)) * place.width
  const y = (value: number) => place.top + (1 - (value - least) / (most - least)) * place.height
  const grid = [most, (most + least) / 2, least].flatMap((value) => [
    `<line class="grid" x1="${place.left}" x2="${place.left + place.width}" y1="${rounded(y(value))}" y2="${rounded(y(value))}"/>`,
    `<text class="quiet" text-anchor="end" x="${place.left - 4}" y="${rounded(y(value) + 3)}">${shown(value, unitOf(panel))}</text>`,
  ])
  // The most of them, the largest first: more than a handful cannot be told apart here.
  const largest = [...series].sort((one, other) => peak(other) - peak(one)).slice(0, palette.length)
  const curves = largest.map((each, index) => {
    const points = finite(each).map(([seconds, value]) => `${rounded(x(seconds))},${rounded(y(value))}`)
    return `<polyline stroke="${palette[index]}" points="${points.join(' ')}"/>`
  })
  return [...grid, ...curves, ...legend(largest, series.length, place)]
}

function peak(series: DrawnSeries): number {
  return Math.max(0, ...finite(series).map(([, value]) => value))
}

function legend(shownSeries: readonly DrawnSeries[], count: number, place: Place): string[] {
  const parts: string[] = []
  let left = 10
  let listed = 0
  for (const [index, { name }] of shownSeries.entries()) {
    const width = 14 + name.length * legendLetters
    if (left + width > place.boxWidth - 40) break
    parts.push(
      `<rect x="${left}" y="${place.boxHeight - 17}" width="8" height="8" fill="${palette[index]}"/>`,
      `<text class="quiet" x="${left + 11}" y="${place.boxHeight - 9}">${escapeXml(name)}</text>`,
    )
    left += width + 6
    listed += 1
  }
  if (listed < count) {
    parts.push(`<text class="quiet" x="${left}" y="${place.boxHeight - 9}">+${count - listed}</text>`)
  }
  return parts
}

/** Of one second; the last one needs its place too. */
function cellWidth({ width, fromSeconds, toSeconds }: Place): number {
  return width / (toSeconds - fromSeconds + 1)
}

/** Buckets are cumulative; a cell shows what is in its own. */
export function cells(panel: GrafanaPanel, series: readonly DrawnSeries[], place: Place): string[] {
  const buckets = [...series].sort((one, other) => one.upTo - other.upTo)
  const own = buckets.map((bucket, index) => {
    const below = new Map(buckets[index - 1]?.points ?? [])
    return bucket.points.map(([at, value]) => [at, Math.max(0, value - (below.get(at) ?? 0))] as const)
  })
  const most = Math.max(...own.flat().map(([, value]) => value), Number.MIN_VALUE)
  const height = place.height / Math.max(1, buckets.length)
  const width = cellWidth(place)
  return buckets.flatMap((bucket, index) => {
    const top = place.top + place.height - (index + 1) * height
    const label =
      index % 3 === 0
        ? [
            `<text class="quiet" text-anchor="end" x="${place.left - 4}" y="${rounded(top + height)}">${Number.isFinite(bucket.upTo) ? shown(bucket.upTo, unitOf(panel)) : 'more'}</text>`,
          ]
        : []
    const drawn = (own[index] ?? [])
      .filter(([, value]) => value > 0)
      .map(
        ([at, value]) =>
          `<rect x="${rounded(place.left + (at - place.fromSeconds) * width)}" y="${rounded(top)}" width="${rounded(width)}" height="${rounded(height)}" fill="#1f77b4" fill-opacity="${(0.15 + (0.85 * value) / most).toFixed(2)}"/>`,
      )
    return [...label, ...drawn]
  })
}

export function bars(panel: GrafanaPanel, series: readonly DrawnSeries[], place: Place): string[] {
  const height = place.height / Math.max(1, series.length)
  const width = cellWidth(place)
  return series.flatMap((each, index) => {
    const top = rounded(place.top + index * height)
    return [
      ...finite(each).map(
        ([at, value]) =>
          `<rect x="${rounded(place.left + (at - place.fromSeconds) * width)}" y="${top}" width="${rounded(width)}" height="${rounded(height - 4)}" fill="${colorAt(panel, value)}"/>`,
      ),
      `<text x="${place.left + 6}" y="${rounded(top + height / 2 + 2)}" style="fill:#fff">${escapeXml(each.name)}</text>`,
    ]
  })
}

export function escapeXml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
