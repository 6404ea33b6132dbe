import { Counter, Gauge, type Histogram, Registry } from 'prom-client'

/** A plain integer: prom-client's counters hash their labels at each increment. */
export interface Tally {
  value: number
}

/** Plain numbers for the same reason. */
class Distribution {
  readonly #bounds: readonly number[]
  /** How many values each bound has beyond the bound before; the last count is past all bounds. */
  readonly #counts: number[]
  #sum = 0

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#counts = [...bounds, Number.POSITIVE_INFINITY].map(() => 0)
  }

  observe(value: number): void {
    let at = 0
    while (value > (this.#bounds[at] ?? Number.POSITIVE_INFINITY)) at += 1
    this.#counts[at] = (this.#counts[at] ?? 0) + 1
    this.#sum += value
  }

  /** As Prometheus reads them: values up to each bound, their sum, and their number. */
  lines(name: string, labels: Labels) {
    let count = 0
    const buckets = this.#counts.map((own, at) => {
      count += own
      const le = String(this.#bounds[at] ?? '+Inf')
      return { metricName: `${name}_bucket`, labels: { le, ...labels }, value: count }
    })
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels, value: this.#sum },
      { metricName: `${name}_count`, labels, value: count },
    ]
  }
}

export type Labels = Readonly<Record<string, string>>

/** The labels of each series, by its key. */
export type Series<Key extends string> = { readonly [Each in Key]: Labels }

/** One series for each value of a label. */
export function by<const Value extends string>(
  label: string,
  values: readonly Value[],
): Series<Value> {
  const entries: [string, Labels][] = values.map((value) => [value, { [label]: value }])
  return Object.fromEntries(entries) as Series<Value>
}

/** One series for each pair of the two, with both labels. */
export function cross<First extends string, Second extends string>(
  first: Series<First>,
  second: Series<Second>,
): Series<`${First} ${Second}`> {
  const pairs = Object.entries<Labels>(first).flatMap(([key, labels]) =>
    Object.entries<Labels>(second).map(([other, more]) => [
      `${key} ${other}`,
      { ...labels, ...more },
    ]),
  )
  return Object.fromEntries(pairs) as Series<`${First} ${Second}`>
}

type ReadSeries = readonly (readonly [labels: Labels, read: () => number])[]

/** The metrics of one gateway. Each has all its series from the start, so no caller can add one. */
export class MetricSet {
  readonly registry = new Registry()

  counters<Key extends string>(
    name: string,
    help: string,
    series: Series<Key>,
  ): Readonly<Record<Key, Tally>> {
    const tallies = mapped(series, () => ({ value: 0 }))
    const keys = Object.keys(series) as Key[]
    this.countersRead(
      name,
      help,
      keys.map((key) => [series[key], () => tallies[key].value]),
    )
    return tallies
  }

  counter(name: string, help: string): Tally {
    return this.counters(name, help, { only: {} }).only
  }

  countersRead(name: string, help: string, series: ReadSeries): void {
    new Counter({
      ...this.#options(name, help, series[0]?.[0]),
      collect() {
        this.reset()
        for (const [labels, read] of series) this.inc(labels, read())
      },
    })
  }

  histograms<Key extends string>(
    name: string,
    help: string,
    bounds: readonly number[],
    series: Series<Key>,
  ): Readonly<Record<Key, Distribution>> {
    const distributions = mapped(series, () => new Distribution(bounds))
    const keys = Object.keys(series) as Key[]
    const { name: fullName } = this.#options(name, help)
    const get = async () => ({
      name: fullName,
      help,
      type: 'histogram',
      values: keys.flatMap((key) => distributions[key].lines(fullName, series[key])),
    })
    // All that prom-client asks of a metric.
    this.registry.registerMetric({ name: fullName, get } as unknown as Histogram)
    return distributions
  }

  histogram(name: string, help: string, bounds: readonly number[]): Distribution {
    return this.histograms(name, help, bounds, { only: {} }).only
  }

  gauges(name: string, help: string, series: ReadSeries): void {
    new Gauge({
      ...this.#options(name, help, series[0]?.[0]),
      collect() {
        for (const [labels, read] of series) this.set(labels, read())
      },
    })
  }

  gauge(name: string, help: string, read: () => number, labels: Labels = {}): void {
    this.gauges(name, help, [[labels, read]])
  }

  #options(name: string, help: string, labels: Labels = {}) {
    return {
      name: `quotegate_${name}`,
      help,
      labelNames: Object.keys(labels),
      registers: [this.registry],
    }
  }
}

function mapped<Key extends string, Value>(
  series: Series<Key>,
  make: (labels: Labels) => Value,
): Record<Key, Value> {
  const made = Object.entries<Labels>(series).map(([key, labels]) => [key, make(labels)])
  return Object.fromEntries(made) as Record<Key, Value>
}
