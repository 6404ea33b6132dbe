import type { Now } from '../clock.ts'
import { readHttpDate } from '../http/http-date.ts'
import type { Logger } from '../process/logger.ts'

/** From when orders for a quote are refused. This part of an end outlives the quote. */
export interface Ending {
  readonly refusedFromMs: number
  /** Our wall clock minus our steady clock at that time: converts an instant of one to the other. */
  readonly wallAheadMs: number
}

/** When a quote ends: computed once, when its answer comes, and then compared with both of our clocks. */
export interface End extends Ending {
  /** The quote is served until this instant of our wall clock. */
  readonly servedUntilMs: number
}

/**
 * How long the quote may still be served: until either of our clocks is past its end, so that a step of one does no
 * harm.
 */
export function serveLeftMs(
  end: Omit<End, 'refusedFromMs'>,
  { nowMs, steadyMs }: Now,
): number {
  return end.servedUntilMs - Math.max(nowMs, steadyMs + end.wallAheadMs)
}

/** How long until orders for the quote are refused: until both of our clocks are past its end. */
export function orderLeftMs(
  { refusedFromMs, wallAheadMs }: Ending,
  { nowMs, steadyMs }: Now,
): number {
  return refusedFromMs - Math.min(nowMs, steadyMs + wallAheadMs)
}

export function lastToEnd<Item extends Ending>(
  items: readonly Item[],
  now: Now,
): Item | undefined {
  let last: Item | undefined
  for (const item of items) last = later(last, item, now)
  return last
}

/** The first one if both end at the same time. */
export function later<Item extends Ending>(
  one: Item | undefined,
  other: Item,
  now: Now,
): Item {
  if (one === undefined) return other
  return orderLeftMs(other, now) > orderLeftMs(one, now) ? other : one
}

/** What is left of an end, in whole milliseconds, for readers with other clocks. */
export interface Left {
  /** The quote is served for this time. */
  readonly serveMs: number
  /** Orders for the quote are refused after this time. */
  readonly orderMs: number
}

export function leftOf(end: End, now: Now): Left {
  return {
    serveMs: Math.floor(serveLeftMs(end, now)),
    orderMs: untilRefusal(end, now),
  }
}

/** Reads what `leftOf` wrote. `before`: an earlier look at our clocks, from which the time to serve counts. */
export function endIn({ serveMs, orderMs }: Left, now: Now, before = now): End {
  const { refusedFromMs, wallAheadMs } = refusalIn(orderMs, now)
  const beforeMs = Math.min(before.nowMs, before.steadyMs + wallAheadMs)
  return {
    servedUntilMs: Math.floor(beforeMs + serveMs),
    refusedFromMs,
    wallAheadMs,
  }
}

/** In whole milliseconds, for readers with other clocks. */
export function untilRefusal(ending: Ending, now: Now): number {
  return Math.ceil(orderLeftMs(ending, now))
}

/** Reads what `untilRefusal` wrote. */
export function refusalIn(orderMs: number, { nowMs, steadyMs }: Now): Ending {
  return { refusedFromMs: Math.ceil(nowMs + orderMs), wallAheadMs: nowMs - steadyMs }
}

/** What shows the provider's time: two headers, and when our clocks saw the request sent and the head received. */
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

/** A provider's quotes live shorter than this: a clock that disagrees is wrong. */
const maxLifeMs = 86_400_000
/** A slower answer cannot show that the two clocks agree. */
const promptMs = 1_000
/** A contradicting `Date` is remembered for this long, and for this many answers. */
const contradictedForMs = 60_000
const contradictedForAnswers = 50
/** One witness alone may refuse after this time. Otherwise a frozen `Date` would end all refusals. */
const alonePastMs = 60_000

/** When a quote ends by one clock: between these two instants of our wall time. */
interface Witness {
  readonly earliestMs: number
  readonly latestMs: number
}

export type Fate =
  | { readonly becomes: 'kept'; readonly end: End }
  /** The quote ended on its way to us, so a further call is made. */
  | { readonly becomes: 'ended'; readonly end: End }
  /** The quote may still live: the requests that wait get it, and it is not cached. */
  | { readonly becomes: 'relayed'; readonly end: End }
  /**
   * Neither clock is plausible. `end`: set if the quote is surely over; orders that name its id are refused by this
   * end.
   */
  | { readonly becomes: 'unreadable'; readonly end: End | undefined }

/**
 * Two witnesses say when a quote ends: its `expiry` on our wall clock, and the life that its answer states (`expiry`
 * minus its own `Date`) on our steady clock. The quote is served while both say that it lives, and its orders are
 * refused once both say that it is over. While no `Date` contradicts our clock, our clock decides alone, to the
 * millisecond.
 */
export class Ends {
  readonly #clockDifference: Pick<ClockDifference, 'note'>
  #contradictedSteadyMs = Number.NEGATIVE_INFINITY
  #answersSince = contradictedForAnswers
  /** `wallAheadMs` at the last prompt answer whose `Date` agreed with our clock. */
  #rightAheadMs = Number.NaN

  constructor(clockDifference: Pick<ClockDifference, 'note'>) {
    this.#clockDifference = clockDifference
  }

  fateOf(answer: DatedAnswer, expiryMs: number): Fate {
    const { receivedAtMs, receivedSteadyMs, sentAtMs, sentSteadyMs } = answer
    // The longer of both measures, because the steady clock stands while the machine sleeps.
    const tookMs = Math.max(receivedAtMs - sentAtMs, receivedSteadyMs - sentSteadyMs)
    const call = { sentMs: receivedAtMs - tookMs, receivedMs: receivedAtMs }
    const wallAheadMs = receivedAtMs - receivedSteadyMs
    const dateMs = readDate(answer)
    const ourClock = this.#judgeOurClock(call, dateMs, receivedSteadyMs)

    const ours: Witness = { earliestMs: expiryMs, latestMs: expiryMs }
    const both = dateMs === undefined ? [ours] : [ours, byDate(expiryMs - dateMs, call)]
    const heard = ourClock === 'right' ? [ours] : both
    const isFar = ({ latestMs }: Witness) => latestMs - call.receivedMs > maxLifeMs
    // A provider's quotes are not over before they are requested: a clock that says so is wrong.
    const isWitness = (one: Witness) => one.latestMs > call.sentMs && !isFar(one)
    const witnesses = heard.filter(isWitness)
    if (witnesses.length === 0) {
      const isSurelyOver =
        (ourClock === 'right' || both.length === 2) && !heard.some(isFar)
      const end = isSurelyOver ? endBy(heard, wallAheadMs) : undefined
      // Our clock alone says that the quote is over; the Date disagrees. The quote is relayed: it is what the provider
      // has.
      if (end !== undefined && both.some(isWitness)) return { becomes: 'relayed', end }
      return { becomes: 'unreadable', end }
    }
    const end = endBy(witnesses, wallAheadMs)
    const leftMs = end.servedUntilMs - call.receivedMs
    if (leftMs > 0) return { becomes: 'kept', end }
    // One clock is enough: an expired quote must not be served because the other clock is slow.
    if (witnesses.some(({ latestMs }) => latestMs <= call.receivedMs))
      return { becomes: 'ended', end }
    // The Date leaves open whether the quote has ended. The quote is relayed if only the rounding of the Date ends it,
    // or if our clock says that it lives and nothing contradicts our clock.
    const mayLive =
      leftMs > -cutMs - lagMs || (ourClock === 'unknown' && witnesses.includes(ours))
    return { becomes: mayLive ? 'relayed' : 'ended', end }
  }

  /**
   * Judges by the `Date` of this answer and of earlier ones. A slow answer shows little, so it relies on prompt ones.
   */
  #judgeOurClock(
    { sentMs, receivedMs }: Call,
    dateMs: number | undefined,
    steadyMs: number,
  ): 'right' | 'wrong' | 'unknown' {
    // The Date was written between our sending and our receiving.
    const difference =
      dateMs === undefined
        ? undefined
        : { lowMs: dateMs - lagMs - receivedMs, highMs: dateMs + cutMs + lagMs - sentMs }
    this.#clockDifference.note(difference, steadyMs)
    const wallAheadMs = receivedMs - steadyMs
    this.#answersSince += 1
    if (difference !== undefined) {
      const { lowMs, highMs } = difference
      if (lowMs > 0 || highMs < 0) {
        this.#answersSince = 0
        this.#contradictedSteadyMs = steadyMs
        this.#rightAheadMs = Number.NaN
      } else if (receivedMs - sentMs <= promptMs) this.#rightAheadMs = wallAheadMs
    }
    const isLongAgo = steadyMs - this.#contradictedSteadyMs > contradictedForMs
    if (!isLongAgo || this.#answersSince <= contradictedForAnswers) return 'wrong'
    // Since then, our clock may have been set, or the machine may have slept.
    const isKnown = Math.abs(wallAheadMs - this.#rightAheadMs) <= lagMs
    return isKnown ? 'right' : 'unknown'
  }
}

/** In our wall time. */
interface Call {
  readonly sentMs: number
  readonly receivedMs: number
}

/** The life that an answer states began at some moment of its call. */
function byDate(lifeMs: number, { sentMs, receivedMs }: Call): Witness {
  return { earliestMs: sentMs + lifeMs - cutMs - lagMs, latestMs: receivedMs + lifeMs }
}

/**
 * Served while all witnesses say that the quote lives. Refused once all say that it is over, or one has said so for a
 * minute.
 */
function endBy(witnesses: readonly Witness[], wallAheadMs: number): End {
  const latest = witnesses.map(({ latestMs }) => latestMs)
  return {
    servedUntilMs: Math.floor(Math.min(...witnesses.map(({ earliestMs }) => earliestMs))),
    refusedFromMs: Math.ceil(
      Math.min(Math.max(...latest), Math.min(...latest) + alonePastMs),
    ),
    wallAheadMs,
  }
}

/** Undefined: the answer has no readable `Date`, or a cache repeated an old one (RFC 9111 section 5.1). */
function readDate({ date, age = '0', receivedAtMs }: DatedAnswer): number | undefined {
  // An Age that is not a number still shows a cache. Blanks may surround the number.
  return date !== undefined && /^[ \t]*0+[ \t]*(?:\n[ \t]*0+[ \t]*)*$/.test(age)
    ? readHttpDate(date.trim(), receivedAtMs)
    : undefined
}

const minuteMs = 60_000
const worthAWarningMs = 2_000
const warnEveryMs = 600_000
/** The first answers may come from an edge or a test without a Date. */
const answersBeforeWarning = 3

/** The provider's clock minus ours lies between these, by the `Date` of one answer. */
interface Difference {
  readonly lowMs: number
  readonly highMs: number
}

/** How far the provider's clock is from ours, for operators and metrics. Nothing is decided by it. */
export class ClockDifference {
  /** By the newest answer with a readable `Date`. Undefined: none has come. */
  bounds: Difference | undefined
  readonly #log: Pick<Logger, 'warn'>
  /** The sliding minimum of a minute: sizes ascend, oldest first. */
  #least: { readonly steadyMs: number; readonly ms: number }[] = []
  #answersWithoutTime = 0
  #warnedSteadyMs = Number.NEGATIVE_INFINITY

  constructor(log: Pick<Logger, 'warn'>) {
    this.#log = log
  }

  /** By the newest answer. 0: the two clocks may agree. */
  get newestMs(): number {
    const { lowMs, highMs } = this.bounds ?? { lowMs: 0, highMs: 0 }
    return lowMs <= 0 && highMs >= 0 ? 0 : (lowMs + highMs) / 2
  }

  /** The smallest difference of a minute: one edge of the provider, or one cached `Date`, does not blame our clock. */
  get leastMs(): number {
    return this.#least[0]?.ms ?? 0
  }

  get saysNoTime(): boolean {
    return this.bounds === undefined && this.#answersWithoutTime >= answersBeforeWarning
  }

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
