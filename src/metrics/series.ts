import { Counter, Gauge, Histogram, type Registry } from 'prom-client'

/** One series of a counter. */
export interface Tally {
  inc(times?: number): void
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

  inc(times = 1): void {
    this.value += times
  }
}

/** As prom-client writes it: labels that keep their object are written out once and not at every scrape. */
interface Line {
  metricName?: string
  sharedLabels: Labels
  labels?: Labels
  value: number
}

// prom-client's own children build and look up a hash of their labels at every count, and a histogram of its own
// cannot be handed whole buckets. So counting is an addition here, and these two say the totals when asked.
class CountedCounter extends Counter {
  readonly #page: () => object

  constructor(metric: MetricName, labelNames: string[], lines: () => Line[]) {
    const { registry, name, help } = metric
    super({ name, help, labelNames, registers: [registry] })
    this.#page = () => ({ name, help, type: 'counter', values: lines() })
  }

  /** What a registry asks for when it writes its page. */
  async getForPromString() {
    return this.#page()
  }
}

class CountedHistogram extends Histogram {
  readonly #page: () => object

  constructor(metric: MetricName, labelNames: string[], lines: () => Line[]) {
    const { registry, name, help } = metric
    super({ name, help, labelNames, registers: [registry] })
    this.#page = () => ({ name, help, type: 'histogram', values: lines() })
  }

  async getForPromString() {
    return this.#page()
  }
}

/** A counter with one series for each set of labels, all of them there from the start. */
export function createTallies(metric: MetricName, labelSets: readonly Labels[]): readonly Tally[] {
  const series = labelSets.map((labels) => ({ labels, total: new Total() }))
  new CountedCounter(metric, namesOf(labelSets), () =>
    series.map(({ labels, total }) => ({ sharedLabels: labels, value: total.value })),
  )
  return series.map(({ total }) => total)
}

function namesOf(labelSets: readonly Labels[]): string[] {
  return Object.keys(labelSets[0] ?? {})
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
  readonly #upTo: readonly Labels[]
  #sum = 0

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#counts = new Array<number>(bounds.length + 1).fill(0)
    this.#upTo = [...bounds.map(String), '+Inf'].map((le) => ({ le }))
  }

  observe(value: number): void {
    const bounds = this.#bounds
    let index = 0
    while (index < bounds.length && value > (bounds[index] as number)) index += 1
    this.#counts[index] = (this.#counts[index] as number) + 1
    this.#sum += value
  }

  lines(name: string, labels: Labels): Line[] {
    let count = 0
    const lines: Line[] = this.#counts.map((inBucket, index) => {
      count += inBucket
      const le = this.#upTo[index] as Labels
      return { metricName: `${name}_bucket`, sharedLabels: labels, labels: le, value: count }
    })
    lines.push({ metricName: `${name}_sum`, sharedLabels: labels, value: this.#sum })
    lines.push({ metricName: `${name}_count`, sharedLabels: labels, value: count })
    return lines
  }
}

export function createDistributions(
  metric: MetricName,
  bounds: readonly number[],
  labelSets: readonly Labels[] = [{}],
): readonly Distribution[] {
  const series = labelSets.map((labels) => ({ labels, buckets: new Buckets(bounds) }))
  new CountedHistogram(metric, namesOf(labelSets), () =>
    series.flatMap(({ labels, buckets }) => buckets.lines(metric.name, labels)),
  )
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
