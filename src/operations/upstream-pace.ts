import { LatencyHistogram } from './latency-histogram.ts'

/** An upstream takes much longer than it usually does. */
export interface Slowness {
  /** Of the last ten minutes. */
  readonly p95Ms: number
  /** The median of that figure over the last day. */
  readonly usualP95Ms: number
}

const minuteMs = 60_000
const recentMinutes = 10
const dayMinutes = 1_440
/** As in the alert QuotegateProviderSlow. */
const rule = {
  timesUsual: 2,
  moreMs: 500,
  /** Among fewer calls, one slow answer would be the p95. */
  callsAbove: 20,
  /** With a shorter past, what is slow now would soon be what is usual. */
  minHistoryMinutes: 60,
}

/**
 * The p95 of ten minutes, noted for each minute of the last day. What is usual is the median of these: a p95 of the day
 * itself would contain the slow calls, and hide them once they are a twentieth of the day's.
 */
export class UpstreamPace {
  readonly #minutes = Array.from({ length: recentMinutes }, () => new LatencyHistogram())
  /** NaN: too few calls. */
  readonly #p95s = new Float32Array(dayMinutes).fill(Number.NaN)
  /** Calls that ended since the last tick. */
  readonly #passed = new LatencyHistogram()
  #minute = 0
  #slowness: Slowness | undefined

  /** Renewed when a minute ends. */
  get slowness(): Slowness | undefined {
    return this.#slowness
  }

  callEnded(durationMs: number): void {
    this.#passed.add(durationMs)
  }

  /** Called once a second. `steadyMs` never goes back. */
  tick(steadyMs: number): void {
    this.#calls(this.#minute).merge(this.#passed)
    this.#passed.clear()
    const minute = Math.floor(steadyMs / minuteMs)
    if (minute === this.#minute) return
    this.#endMinute()
    // The process may have been paused for longer than a minute.
    const passed = Math.min(minute - this.#minute, dayMinutes)
    for (let skipped = minute - passed + 1; skipped <= minute; skipped += 1) {
      this.#p95s[skipped % dayMinutes] = Number.NaN
      this.#calls(skipped).clear()
    }
    this.#minute = minute
  }

  #calls(minute: number): LatencyHistogram {
    return this.#minutes[minute % recentMinutes] as LatencyHistogram
  }

  #endMinute(): void {
    const recent = new LatencyHistogram()
    for (const calls of this.#minutes) recent.merge(calls)
    const p95Ms = recent.count > rule.callsAbove ? recent.quantile(0.95) : null
    this.#p95s[this.#minute % dayMinutes] = p95Ms ?? Number.NaN
    this.#slowness = p95Ms === null ? undefined : this.#compared(p95Ms)
  }

  #compared(p95Ms: number): Slowness | undefined {
    if (p95Ms < rule.moreMs || !this.#isOldEnough()) return undefined
    const usualP95Ms = median(this.#p95s.filter((p95) => !Number.isNaN(p95)))
    const isSlow = p95Ms >= rule.timesUsual * usualP95Ms && p95Ms >= usualP95Ms + rule.moreMs
    return isSlow ? { p95Ms, usualP95Ms } : undefined
  }

  #isOldEnough(): boolean {
    const first = Math.max(0, this.#minute - dayMinutes + 1)
    for (let minute = first; minute <= this.#minute - rule.minHistoryMinutes; minute += 1) {
      if (!Number.isNaN(this.#p95s[minute % dayMinutes])) return true
    }
    return false
  }
}

/** Of at least one number. */
function median(numbers: Float32Array): number {
  numbers.sort()
  const middle = (numbers.length - 1) / 2
  return ((numbers[Math.floor(middle)] ?? 0) + (numbers[Math.ceil(middle)] ?? 0)) / 2
}
