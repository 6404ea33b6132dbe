import { Counter, Gauge, Histogram, type Registry } from 'prom-client'

/** One series of a counter. */
export interface Tally {
  /** How often it was counted. */
  readonly value: number
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

/** Counts in a plain integer: a counter of prom-client hashes its labels at each increment. */
class Total implements Tally {
  value = 0

  inc(times = 1): void {
    this.value += times
  }
}

function namesOf(labelSets: readonly Labels[]): string[] {
  return Object.keys(labelSets[0] ?? {})
}

/** A counter with one series for each set of labels, all of them there from the start. */
export function createTallies(
  { registry, ...metric }: MetricName,
  labelSets: readonly Labels[],
): readonly Tally[] {
  const totals = labelSets.map(() => new Total())
  new Counter({
    ...metric,
    labelNames: namesOf(labelSets),
    registers: [registry],
    collect() {
      this.reset()
      for (const [index, labels] of labelSets.entries()) this.inc(labels, totals[index]?.value)
    },
  })
  return totals
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
  return byValue(values, tallies)
}

/** A histogram with one series for each set of labels, all of them there from the start. */
export function createDistributions(
  { registry, ...metric }: MetricName,
  bounds: readonly number[],
  labelSets: readonly Labels[] = [{}],
): readonly Distribution[] {
  const histogram = new Histogram({
    ...metric,
    labelNames: namesOf(labelSets),
    buckets: [...bounds],
    registers: [registry],
  })
  return labelSets.map((labels) => {
    histogram.zero(labels)
    return histogram.labels(labels)
  })
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
  return byValue(values, distributions)
}

function byValue<Value extends string, Series>(
  values: readonly Value[],
  series: readonly Series[],
): Readonly<Record<Value, Series>> {
  return Object.fromEntries(values.map((value, index) => [value, series[index]])) as Record<Value, Series>
}

/** A gauge that is read when the page is written. */
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
