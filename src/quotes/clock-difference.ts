import type { Difference, Now } from '../clock.ts'
import type { Listener } from '../events.ts'
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

// RFC 9110 5.6.7: three forms of a date, all of which recipients must read. Beyond them, capitals do not matter (RFC 9111
// 4.2), and a numeric zone may stand where GMT belongs. Nothing else is read: `new Date(text)` takes nearly any text.

const time = String.raw`(?<time>\d\d:\d\d:\d\d)`
const zone = String.raw`(?:GMT|(?<sign>[+-])(?<zoneHours>[01]\d|2[0-3])(?<zoneMinutes>[0-5]\d))`
export const dateForms = [
  // Sun, 06 Nov 1994 08:49:37 GMT
  String.raw`(?<weekday>[a-z]{3}), (?<day>\d\d) (?<month>[a-z]{3}) (?<year>\d{4}) ${time} ${zone}`,
  // Sunday, 06-Nov-94 08:49:37 GMT
  String.raw`(?<weekday>sun|mon|tues|wednes|thurs|fri|satur)day, (?<day>\d\d)-(?<month>[a-z]{3})-(?<year>\d\d) ${time} ${zone}`,
  // Sun Nov  6 08:49:37 1994
  String.raw`(?<weekday>[a-z]{3}) (?<month>[a-z]{3}) (?<day>\d\d| \d) ${time} (?<year>\d{4})`,
].map((form) => new RegExp(`^${form}$`, 'i'))

/** Milliseconds since the epoch; undefined: this is not a date, or not one of the calendar. `nowMs` tells the century. */
export function readHttpDate(text: string, nowMs: number): number | undefined {
  for (const form of dateForms) {
    const fields = form.exec(text)?.groups
    if (fields !== undefined) return instantOf(fields, nowMs)
  }
  return undefined
}

function instantOf(fields: Record<string, string>, nowMs: number): number | undefined {
  const { weekday = '', day = '', month = '', year = '', time, sign, zoneHours, zoneMinutes } = fields
  const fullYear = year.length === 2 ? yearOf(Number(year), nowMs) : year
  const date = `${capitalized(weekday)}, ${day.replace(' ', '0')} ${capitalized(month)} ${fullYear} ${time} GMT`
  const local = new Date(date)
  // `Date` makes 2 March of 30 February, and takes any day of the week.
  if (local.toUTCString() !== date) return undefined
  const aheadMs = (Number(zoneHours ?? 0) * 60 + Number(zoneMinutes ?? 0)) * 60_000
  return local.getTime() - (sign === '-' ? -aheadMs : aheadMs)
}

function capitalized(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1, 3).toLowerCase()
}

/** Two digits that seem to be more than 50 years ahead are the most recent past year that ends so. */
function yearOf(digits: number, nowMs: number): number {
  const latest = new Date(nowMs).getUTCFullYear() + 50
  return latest - ((latest - digits) % 100)
}
