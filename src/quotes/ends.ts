import type { Ending, Now } from '../clock.ts'
import { readHttpDate } from '../http/date.ts'
import { headerValues } from '../http/headers.ts'
import type { Logger } from '../process/logger.ts'

/** When a quote is over. Computed once, when its answer arrives, and compared with our two clocks from then on. */
export interface End extends Ending {
  /** The quote is served until this instant of our wall clock, and an order for it is refused from `refusedFromMs` on. */
  readonly servedUntilMs: number
}

/**
 * How long the quote may still be served: until either of our clocks is past its end. A step of one serves nothing late.
 */
export function serveLeftMs(end: Omit<End, 'refusedFromMs'>, { nowMs, steadyMs }: Now): number {
  return end.servedUntilMs - Math.max(nowMs, steadyMs + end.wallAheadMs)
}

/** Of an answer, what tells the provider's time: its `Date`, and when it was sent for and received by our two clocks. */
interface DatedAnswer {
  readonly rawHeaders: readonly string[]
  readonly receivedAtMs: number
  readonly sentSteadyMs: number
  readonly receivedSteadyMs: number
}

/** A `Date` is cut to whole seconds, and a server's cached `Date` lags by up to 250 ms (measured). */
const cutMs = 1_000
const lagMs = 250

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
    const { receivedAtMs, sentSteadyMs } = answer
    const wallAheadMs = receivedAtMs - answer.receivedSteadyMs
    const dateMs = readDate(answer)
    const isOursRight = this.#agrees(answer, dateMs === undefined ? undefined : differenceOf(dateMs, answer))
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
    const dateServesMs = sentSteadyMs + wallAheadMs + lifeMs - cutMs - lagMs
    const dateRefusesMs = receivedAtMs + lifeMs
    if (!byWall) return end(dateServesMs, dateRefusesMs)
    const firstMs = Math.min(expiryMs, dateRefusesMs)
    const lastMs = Math.max(expiryMs, dateRefusesMs)
    return end(Math.min(expiryMs, dateServesMs), Math.min(lastMs, firstMs + alonePastMs))
  }

  /** Whether the `Date` agrees with our clock, and every one has for a while. */
  #agrees({ sentSteadyMs, receivedSteadyMs }: DatedAnswer, difference: Difference | undefined): boolean {
    this.#clockDifference.note(difference, receivedSteadyMs)
    const contradicts = difference !== undefined && (difference.lowMs > 0 || difference.highMs < 0)
    this.#answersSince = contradicts ? 0 : this.#answersSince + 1
    if (contradicts) this.#contradictedSteadyMs = receivedSteadyMs
    if (difference === undefined || receivedSteadyMs - sentSteadyMs > promptMs) return false
    const isLongAgo = receivedSteadyMs - this.#contradictedSteadyMs > contradictedForMs
    return isLongAgo && this.#answersSince > contradictedForAnswers
  }
}

function isLife(ms: number): boolean {
  return ms > 0 && ms <= maxLifeMs
}

/** Undefined: the answer has no readable `Date`, or it is out of a cache, its `Date` with it (RFC 9111 5.1). */
function readDate({ rawHeaders, receivedAtMs }: DatedAnswer): number | undefined {
  const [date, ...further] = headerValues(rawHeaders, 'date')
  // An Age that is not a number still says that the answer has an age.
  const hasAge = headerValues(rawHeaders, 'age').some((age) => !/^0+$/.test(age))
  return date === undefined || further.length > 0 || hasAge ? undefined : readHttpDate(date, receivedAtMs)
}

/** It was written at some moment between our sending and our receiving. */
function differenceOf(
  dateMs: number,
  { receivedAtMs, sentSteadyMs, receivedSteadyMs }: DatedAnswer,
): Difference {
  const sentAtMs = receivedAtMs - (receivedSteadyMs - sentSteadyMs)
  return { lowMs: dateMs - lagMs - receivedAtMs, highMs: dateMs + cutMs + lagMs - sentAtMs }
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
    if (steadyMs - this.#warnedSteadyMs >= warnEveryMs && this.#warns()) this.#warnedSteadyMs = steadyMs
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
