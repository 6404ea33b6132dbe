import { LatencyHistogram } from './latency-histogram.ts'

/** Sums over a slot. */
export const sums = [
  'requests',
  'quotes',
  'hits',
  'saved',
  'errors',
  'refused',
  'expired',
  'orders',
  'matched',
  'unknown',
] as const
export type Sum = (typeof sums)[number]
export type Sums = Readonly<Record<Sum, number>>

/** What happened within one second, or within a part of one. */
export interface Passed {
  readonly sums: Sums
  readonly inFlight: number
  /** Of answers to clients. */
  readonly answers: LatencyHistogram
  /** Of calls to the swap upstream. */
  readonly calls: LatencyHistogram
}

const columns = [...sums, 'inFlight', 'p95Ms', 'callP95Ms'] as const
type Column = (typeof columns)[number]

/** The slots as the page draws them: for each column a value a slot, the oldest first; null: nothing is known of it. */
export interface ShownSlots {
  readonly slotMs: number
  readonly slots: number
  /** The number of the last slot. Numbers go up by one a slot. */
  readonly last: number
  readonly values: Readonly<Record<Column, readonly (number | null)[]>>
}

/** A fixed number of slots of equal length; each new slot takes the place of the oldest. It never grows. */
export class Ring {
  readonly slotMs: number
  readonly slots: number
  readonly #columns: Readonly<Record<Column, Float32Array>>
  /** Which slot is in each place; -1: none yet. */
  readonly #numbers: Int32Array
  readonly #answers = new LatencyHistogram()
  readonly #calls = new LatencyHistogram()
  #first = -1
  #last = -1

  constructor({ slotMs, slots }: { slotMs: number; slots: number }) {
    this.slotMs = slotMs
    this.slots = slots
    const made = columns.map((column) => [column, new Float32Array(slots)])
    this.#columns = Object.fromEntries(made) as Record<Column, Float32Array>
    this.#numbers = new Int32Array(slots).fill(-1)
  }

  /** Of the slots. Two histograms of 672 bytes come on top. */
  get bytes(): number {
    const ofColumns = Object.values(this.#columns).reduce((total, { byteLength }) => total + byteLength, 0)
    return ofColumns + this.#numbers.byteLength
  }

  /** `steadyMs` never goes back. */
  add(steadyMs: number, passed: Passed): void {
    const number = Math.floor(steadyMs / this.slotMs)
    const place = number % this.slots
    const values = this.#columns
    if (this.#numbers[place] !== number) {
      this.#numbers[place] = number
      for (const column of columns) values[column][place] = 0
      this.#answers.clear()
      this.#calls.clear()
    }
    if (this.#first === -1) this.#first = number
    this.#last = number
    for (const sum of sums) values[sum][place] = (values[sum][place] ?? 0) + passed.sums[sum]
    values.inFlight[place] = Math.max(values.inFlight[place] ?? 0, passed.inFlight)
    this.#answers.merge(passed.answers)
    this.#calls.merge(passed.calls)
    values.p95Ms[place] = this.#answers.quantile(0.95) ?? Number.NaN
    values.callP95Ms[place] = this.#calls.quantile(0.95) ?? Number.NaN
  }

  /** Over the last slots. */
  total(sum: Sum, slots = this.slots): number {
    let total = 0
    for (let number = this.#last; number > this.#last - slots; number -= 1)
      total += this.#valueOf(sum, number) ?? 0
    return total
  }

  shown(slots = this.slots): ShownSlots {
    const from = Math.max(this.#first, this.#last - Math.min(slots, this.slots) + 1)
    const length = this.#last === -1 ? 0 : this.#last - from + 1
    const valuesOf = (column: Column) =>
      Array.from({ length }, (_, index) => rounded(this.#valueOf(column, from + index)))
    return {
      slotMs: this.slotMs,
      slots: this.slots,
      last: this.#last,
      values: Object.fromEntries(columns.map((column) => [column, valuesOf(column)])) as Record<
        Column,
        (number | null)[]
      >,
    }
  }

  #valueOf(column: Column, number: number): number | null {
    const place = number % this.slots
    if (number < 0 || this.#numbers[place] !== number) return null
    const value = this.#columns[column][place] ?? Number.NaN
    return Number.isNaN(value) ? null : value
  }
}

/** Three digits are all that a drawing or a quantile of these histograms has; counts stay whole. */
function rounded(value: number | null): number | null {
  return value === null || Number.isInteger(value) ? value : Number(value.toPrecision(3))
}
