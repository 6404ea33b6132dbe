import { Counter, Gauge, Histogram, type Registry } from 'prom-client'

/** One series of a counter. */
export interface Tally {
  inc(): void
}

/** One series of a histogram. */
export interface Distribution {
  observe(value: number): void
}

export type Labels = Readonly<Record<string, string>>

/** What a metric is called, and what it says. */
export interface MetricName {
  registry: Registry
  name: string
  help: string
}

class Total implements Tally {
  value = 0

  inc(): void {
    this.value += 1
  }
}

/**
 * A counter with one series for each set of labels, all of them there from the start. Counting is one addition:
 * prom-client's own children build and look up a hash of their labels each time, and it gets the totals when it
 * is asked for them.
 */
export function createTallies(
  { registry, name, help }: MetricName,
  labelSets: readonly Labels[],
): readonly Tally[] {
  const series = labelSets.map((labels) => ({ labels, total: new Total() }))
  new Counter({
    name,
    help,
    labelNames: Object.keys(labelSets[0] ?? {}),
    registers: [registry],
    collect() {
      this.reset()
      for (const { labels, total } of series) this.inc(labels, total.value)
    },
  })
  return series.map(({ total }) => total)
}

/** A counter with one label: its series by the label's value. */
export function createTalliesBy<Value extends string>(
  metric: MetricName,
  label: string,
  values: readonly Value[],
): Readonly<Record<Value, Tally>> {
  const tallies = createTallies(
    metric,
    values.map((value) => ({ [label]: value })),
  )
  return Object.fromEntries(values.map((value, index) => [value, tallies[index]])) as Record<Value, Tally>
}

class Buckets implements Distribution {
  readonly #bounds: readonly number[]
  /** How many fell into each bucket and none below it; the last is for what is past every bound. */
  readonly #counts: number[]
  #sum = 0

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#counts = new Array<number>(bounds.length + 1).fill(0)
  }

  observe(value: number): void {
    const bounds = this.#bounds
    let index = 0
    while (index < bounds.length && value > (bounds[index] as number)) index += 1
    this.#counts[index] = (this.#counts[index] as number) + 1
    this.#sum += value
  }

  values(name: string, labels: Labels) {
    let count = 0
    const values = this.#counts.map((inBucket, index) => {
      count += inBucket
      const le = String(this.#bounds[index] ?? '+Inf')
      return { metricName: `${name}_bucket`, labels: { ...labels, le }, value: count }
    })
    return [
      ...values,
      { metricName: `${name}_sum`, labels, value: this.#sum },
      { metricName: `${name}_count`, labels, value: count },
    ]
  }
}

/** A histogram that counts as cheaply; prom-client has no way to be handed whole buckets but this. */
class CountedHistogram extends Histogram {
  readonly #metric: MetricName
  readonly #series: readonly { labels: Labels; buckets: Buckets }[]

  constructor(metric: MetricName, series: readonly { labels: Labels; buckets: Buckets }[]) {
    const { registry, name, help } = metric
    super({ name, help, labelNames: Object.keys(series[0]?.labels ?? {}), registers: [registry] })
    this.#metric = metric
    this.#series = series
  }

  /** What a registry asks a histogram for when it writes its page. */
  async getForPromString() {
    const { name, help } = this.#metric
    const values = this.#series.flatMap(({ labels, buckets }) => buckets.values(name, labels))
    return { name, help, type: 'histogram', values }
  }
}

export function createDistributions(
  metric: MetricName,
  bounds: readonly number[],
  labelSets: readonly Labels[] = [{}],
): readonly Distribution[] {
  const series = labelSets.map((labels) => ({ labels, buckets: new Buckets(bounds) }))
  new CountedHistogram(metric, series)
  return series.map(({ buckets }) => buckets)
}

export function createDistribution(metric: MetricName, bounds: readonly number[]): Distribution {
  const [only] = createDistributions(metric, bounds)
  return only as Distribution
}

export function createDistributionsBy<Value extends string>(
  metric: MetricName,
  bounds: readonly number[],
  { label, values }: { label: string; values: readonly Value[] },
): Readonly<Record<Value, Distribution>> {
  const distributions = createDistributions(
    metric,
    bounds,
    values.map((value) => ({ [label]: value })),
  )
  return Object.fromEntries(values.map((value, index) => [value, distributions[index]])) as Record<
    Value,
    Distribution
  >
}

/** A gauge that is read when it is asked for. */
export function createGauge(
  { registry, name, help }: MetricName,
  series: readonly { labels: Labels; read(): number }[],
): void {
  new Gauge({
    name,
    help,
    labelNames: Object.keys(series[0]?.labels ?? {}),
    registers: [registry],
    collect() {
      for (const { labels, read } of series) this.set(labels, read())
    },
  })
}
