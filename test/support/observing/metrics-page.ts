export interface Series {
  name: string
  labels: Readonly<Record<string, string>>
  value: number
}

export interface PageMetric {
  name: string
  type: string
  /** Label names, less the `le` of a histogram. */
  labels: readonly string[]
  series: readonly Series[]
}

/** A page of Prometheus' text format, by metric. */
export function readPage(page: string): Map<string, PageMetric> {
  const metrics = new Map<string, PageMetric & { series: Series[] }>()
  let current: (PageMetric & { series: Series[] }) | undefined
  for (const line of page.split('\n')) {
    const type = /^# TYPE (\S+) (\S+)$/.exec(line)
    if (type) {
      current = { name: type[1] ?? '', type: type[2] ?? '', labels: [], series: [] }
      metrics.set(current.name, current)
    } else if (line !== '' && !line.startsWith('#')) {
      const found = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line)
      if (!found || !current)
        throw new Error(`this is not a line of a metrics page: ${line}`)
      const labels = Object.fromEntries(
        [...(found[2] ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(
          ([, label, value]) => [label, value],
        ),
      )
      current.series.push({ name: found[1] ?? '', labels, value: Number(found[3]) })
    }
  }
  for (const metric of metrics.values()) {
    const names = new Set(metric.series.flatMap(({ labels }) => Object.keys(labels)))
    if (metric.type === 'histogram') names.delete('le')
    metric.labels = [...names]
  }
  return metrics as Map<string, PageMetric>
}

/** Every series, by its name and labels. */
export function seriesNames(page: string): string[] {
  return page
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => line.slice(0, line.lastIndexOf(' ')))
}
