import { type Ending, type Now, orderLeftMs } from '../clock.ts'
import type { Logger } from '../process/logger.ts'

/** When a quote is over. Computed once, when its answer arrives, and compared with our two clocks from then on. */
export interface End extends Ending {
  /** The quote is served until this instant of our wall clock, and an order for it is refused from `refusedFromMs` on. */
  readonly servedUntilMs: number
}

/**
 * How long the quote may still be served: until either of our clocks is past its end. A step of one serves nothing late.
 */
export function serveLeftMs(
  end: Omit<End, 'refusedFromMs'>,
  { nowMs, steadyMs }: Now,
): number {
  return end.servedUntilMs - Math.max(nowMs, steadyMs + end.wallAheadMs)
}

/** Of an answer, what tells the provider's time: two headers, and when it was sent for and received by our two clocks. */
interface DatedAnswer {
  readonly date: string | undefined
  readonly age: string | undefined
  readonly receivedAtMs: number
  readonly sentAtMs: number
  readonly sentSteadyMs: number
  readonly receivedSteadyMs: number
}

/** A `Date` is cut to whole seconds, and a server's cached `Date` lags by up to 250 ms (measured). */
const cutMs = 1_000
const lagMs = 250

/** Whether it is over by more than what a `Date` does not say. */
export function isSurelyOver(end: End, now: Now): boolean {
  return orderLeftMs(end, now) <= 0 || serveLeftMs(end, now) <= -cutMs - lagMs
}

/** No provider gives quotes that are over or that live longer: who says so is wrong about the time. */
const maxLifeMs = 86_400_000
/** A slower answer cannot show that the two clocks agree. */
const promptMs = 1_000
/** How long an answer whose `Date` contradicts our clock is remembered, at least: this long, and so many answers. */
const contradictedForMs = 60_000
const contradictedForAnswers = 50
/**
 * A witness that has said for so long that a quote is over is enough to refuse, or a frozen `Date` would end all
 * refusals.
 */
const alonePastMs = 60_000

/**
 * Two witnesses say when a quote is over: our wall clock against its `expiry`, and the life that its answer states,
 * `expiry` less its own `Date`, counted on our steady clock. It is served while both say that it lives, and refused when
 * both say that it is over. While no `Date` contradicts our clock, that decides alone, to the millisecond.
 */
export class Ends {
  readonly #clockDifference: Pick<ClockDifference, 'note'>
  #contradictedSteadyMs = Number.NEGATIVE_INFINITY
  #answersSince = contradictedForAnswers

  constructor(clockDifference: Pick<ClockDifference, 'note'>) {
    this.#clockDifference = clockDifference
  }

  /** Undefined: no witness is left. By each of them the quote was over when it came, or lives for more than a day. */
  endOf(answer: DatedAnswer, expiryMs: number): End | undefined {
    const { receivedAtMs, sentAtMs, sentSteadyMs } = answer
    const wallAheadMs = receivedAtMs - answer.receivedSteadyMs
    const dateMs = readDate(answer)
    const isOursRight = this.#agrees(answer, dateMs)
    const end = (servedUntilMs: number, refusedFromMs: number) => ({
      servedUntilMs: Math.floor(servedUntilMs),
      refusedFromMs: Math.ceil(refusedFromMs),
      wallAheadMs,
    })

    const lifeMs = dateMs === undefined ? 0 : expiryMs - dateMs
    const byWall = isLife(expiryMs - receivedAtMs)
    const byDate = isLife(lifeMs)
    if (!byWall && !byDate) return undefined
    if (isOursRight || !byDate) return end(expiryMs, expiryMs)
    // By the clock that saw more of the call: while the machine sleeps, its steady clock stands.
    const dateServesMs =
      Math.min(sentAtMs, sentSteadyMs + wallAheadMs) + lifeMs - cutMs - lagMs
    const dateRefusesMs = receivedAtMs + lifeMs
    if (!byWall) return end(dateServesMs, dateRefusesMs)
    const firstMs = Math.min(expiryMs, dateRefusesMs)
    const lastMs = Math.max(expiryMs, dateRefusesMs)
    return end(Math.min(expiryMs, dateServesMs), Math.min(lastMs, firstMs + alonePastMs))
  }

  /** Whether the `Date` agrees with our clock, and every one has for a while. */
  #agrees(
    { sentAtMs, receivedAtMs, sentSteadyMs, receivedSteadyMs }: DatedAnswer,
    dateMs: number | undefined,
  ): boolean {
    const tookMs = Math.max(receivedAtMs - sentAtMs, receivedSteadyMs - sentSteadyMs)
    // It was written at some moment between our sending and our receiving.
    const difference =
      dateMs === undefined
        ? undefined
        : {
            lowMs: dateMs - lagMs - receivedAtMs,
            highMs: dateMs + cutMs + lagMs - (receivedAtMs - tookMs),
          }
    this.#clockDifference.note(difference, receivedSteadyMs)
    const contradicts =
      difference !== undefined && (difference.lowMs > 0 || difference.highMs < 0)
    this.#answersSince = contradicts ? 0 : this.#answersSince + 1
    if (contradicts) this.#contradictedSteadyMs = receivedSteadyMs
    if (difference === undefined || tookMs > promptMs) return false
    const isLongAgo = receivedSteadyMs - this.#contradictedSteadyMs > contradictedForMs
    return isLongAgo && this.#answersSince > contradictedForAnswers
  }
}

function isLife(ms: number): boolean {
  return ms > 0 && ms <= maxLifeMs
}

/** Undefined: the answer has no readable `Date`, or it is out of a cache, its `Date` with it (RFC 9111 5.1). */
function readDate({ date, age = '0', receivedAtMs }: DatedAnswer): number | undefined {
  // An Age that is not a number still says that the answer has an age. A value ends before the blanks behind it.
  return date !== undefined && /^[ \t]*0+[ \t]*(?:\n[ \t]*0+[ \t]*)*$/.test(age)
    ? readHttpDate(date.trim(), receivedAtMs)
    : undefined
}

const minuteMs = 60_000
const worthAWarningMs = 2_000
const warnEveryMs = 600_000
/** The first answers may come from an edge or a test that says no time. */
const answersBeforeWarning = 3

/** The provider's clock less ours, as the `Date` of one answer bounds it. */
interface Difference {
  readonly lowMs: number
  readonly highMs: number
}

/** How far the provider's clock is from ours, for people and metrics: nothing is decided by it. */
export class ClockDifference {
  /** The newest answer's bounds; undefined: no answer has said a time. */
  bounds: Difference | undefined
  readonly #log: Pick<Logger, 'warn'>
  /** Those of the last minute that no later one is less than, oldest and least first. */
  #least: { readonly steadyMs: number; readonly ms: number }[] = []
  #answersWithoutTime = 0
  #warnedSteadyMs = Number.NEGATIVE_INFINITY

  constructor(log: Pick<Logger, 'warn'>) {
    this.#log = log
  }

  /** By the newest answer; 0 where the two clocks may agree. */
  get newestMs(): number {
    const { lowMs, highMs } = this.bounds ?? { lowMs: 0, highMs: 0 }
    return lowMs <= 0 && highMs >= 0 ? 0 : (lowMs + highMs) / 2
  }

  /** The least of a minute: one edge of the provider's, or one cached `Date`, does not tell that our clock is wrong. */
  get leastMs(): number {
    return this.#least[0]?.ms ?? 0
  }

  /** Whether the provider has answered several times and has never said its time. */
  get saysNoTime(): boolean {
    return this.bounds === undefined && this.#answersWithoutTime >= answersBeforeWarning
  }

  /** Of an answer; undefined: it does not say the time. */
  note(bounds: Difference | undefined, steadyMs: number): void {
    if (bounds === undefined) this.#answersWithoutTime += 1
    else {
      this.bounds = bounds
      const ms = this.newestMs
      const size = Math.abs(ms)
      this.#least = this.#least.filter(
        (one) => Math.abs(one.ms) < size && steadyMs - one.steadyMs <= minuteMs,
      )
      this.#least.push({ steadyMs, ms })
    }
    if (steadyMs - this.#warnedSteadyMs < warnEveryMs) return
    if (this.saysNoTime)
      this.#log.warn(
        {},
        'no answer of the provider has a readable Date: quotes are judged by our clock alone, which must be right',
      )
    else if (Math.abs(this.leastMs) > worthAWarningMs)
      this.#log.warn(
        { offsetMs: Math.round(this.leastMs) },
        "the provider's clock is far from ours: quotes are served until the earlier of the two ends that they say, " +
          'and orders for them refused from the later one. Check the clock of this machine',
      )
    else return
    this.#warnedSteadyMs = steadyMs
  }
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
  const {
    weekday = '',
    day = '',
    month = '',
    year = '',
    time,
    sign,
    zoneHours,
    zoneMinutes,
  } = fields
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
