import type { Difference, Now } from '../clock.ts'
import type { Listener } from '../events.ts'
import { readHttpDate } from '../http/date.ts'
import { headerValues } from '../http/headers.ts'
import type { Logger } from '../process/logger.ts'

const minuteMs = 60_000
const worthAWarningMs = 2_000
const warnEveryMs = 600_000
/** The first answers may come from an edge or a test that says no time. */
const answersBeforeWarning = 3

/** How far the provider's clock is from ours, for people and metrics: nothing is decided by it. */
export class ClockDifference implements Listener {
  /** By the newest answer; 0 where the two clocks may agree. */
  newestMs = 0
  /** The newest answer's bounds; undefined: no answer has said a time. */
  bounds: Difference | undefined
  readonly #log: Logger
  /** Those of the last minute that no later one is less than, oldest and least first. */
  #least: { readonly steadyMs: number; readonly ms: number }[] = []
  #answersWithoutTime = 0
  #warnedSteadyMs = Number.NEGATIVE_INFINITY

  constructor(log: Logger) {
    this.#log = log
  }

  /** The least of a minute: one edge of the provider's, or one cached `Date`, does not tell that our clock is wrong. */
  get leastMs(): number {
    return this.#least[0]?.ms ?? 0
  }

  /** Whether the provider has answered several times and has never said its time. */
  get saysNoTime(): boolean {
    return this.bounds === undefined && this.#answersWithoutTime >= answersBeforeWarning
  }

  providerDated(bounds: Difference | undefined, { steadyMs }: Now): void {
    if (bounds === undefined) this.#answersWithoutTime += 1
    else this.#note(bounds, steadyMs)
    if (steadyMs - this.#warnedSteadyMs >= warnEveryMs && this.#warns()) this.#warnedSteadyMs = steadyMs
  }

  #note(bounds: Difference, steadyMs: number): void {
    const { lowMs, highMs } = bounds
    this.bounds = bounds
    this.newestMs = lowMs <= 0 && highMs >= 0 ? 0 : (lowMs + highMs) / 2
    const size = Math.abs(this.newestMs)
    this.#least = this.#least.filter((one) => Math.abs(one.ms) < size && steadyMs - one.steadyMs <= minuteMs)
    this.#least.push({ steadyMs, ms: this.newestMs })
  }

  #warns(): boolean {
    if (this.saysNoTime) {
      this.#log.warn(
        {},
        'no answer of the provider has a readable Date: quotes are judged by our clock alone, which must be right',
      )
      return true
    }
    if (Math.abs(this.leastMs) <= worthAWarningMs) return false
    this.#log.warn(
      { offsetMs: Math.round(this.leastMs) },
      "the provider's clock is far from ours: quotes are served until the earlier of the two ends that they say, " +
        'and orders for them refused from the later one. Check the clock of this machine',
    )
    return true
  }
}

/** Of an answer, what tells the provider's time: its `Date`, and when it was sent for and received by our two clocks. */
export interface DatedAnswer {
  readonly rawHeaders: readonly string[]
  readonly receivedAtMs: number
  readonly sentSteadyMs: number
  readonly receivedSteadyMs: number
}

/** A `Date` is cut to whole seconds, and a server's cached `Date` lags by up to 250 ms (measured). */
export const cutMs = 1_000
export const lagMs = 250

/** Undefined: the answer has no readable `Date`, or it is out of a cache, its `Date` with it (RFC 9111 5.1). */
export function readDate({ rawHeaders, receivedAtMs }: DatedAnswer): number | undefined {
  const [date, ...further] = headerValues(rawHeaders, 'date')
  // An Age that is not a number still says that the answer has an age.
  const hasAge = headerValues(rawHeaders, 'age').some((age) => !/^0+$/.test(age))
  return date === undefined || further.length > 0 || hasAge ? undefined : readHttpDate(date, receivedAtMs)
}

/** It was written at some moment between our sending and our receiving. */
export function differenceOf(
  dateMs: number,
  { receivedAtMs, sentSteadyMs, receivedSteadyMs }: DatedAnswer,
): Difference {
  const sentAtMs = receivedAtMs - (receivedSteadyMs - sentSteadyMs)
  return { lowMs: dateMs - lagMs - receivedAtMs, highMs: dateMs + cutMs + lagMs - sentAtMs }
}
