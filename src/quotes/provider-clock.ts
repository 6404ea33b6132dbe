import { type Clock, steadyMsOf } from '../clock.ts'
import type { Logger } from '../process/logger.ts'
import { type ClockOffset, createUpstreamClock, toleranceMs } from './clock-offset.ts'
import { readDateHeaders } from './own-end.ts'
import type { OwnEnd } from './quote.ts'

/** What ends at an instant of the provider's clock. */
export interface Ending {
  readonly expiresAtMs: number
  readonly ownEnd?: OwnEnd | undefined
}

/** One look at our clocks. */
export interface Moment {
  /** What serving a quote assumes: the provider may already be this late. */
  readonly latestMs: number
  readonly steadyMs: number
  /** Whether `latestMs` is exact, because the provider's clock is taken to be ours. */
  readonly isExact: boolean
}

/**
 * The provider's wall clock, as far as its answers tell it. A provider may have several edges whose clocks differ, so that
 * each quote has a second opinion of its own: the interval in which it ends by the `Date` of its own answer (own-end.ts).
 * The learned offset tells an instant. Where that is exact and lies within the quote's interval, it decides, to the
 * millisecond. Else the quote is served until the earlier of the instant and the interval's start, and an order for it is
 * refused after the later of the instant and the interval's end.
 */
export interface ProviderClock {
  /** Both moments are of our wall clock; the headers are those of the answer. */
  observe(answer: { rawHeaders: readonly string[]; sentAtMs: number; receivedAtMs: number }): void
  /** How far the shared store's clock is ahead of ours: a second opinion on ours, until the provider has said its time. */
  compare(storeAheadMs: number): void
  /** How far ahead of our clock the provider is by what another replica told the store: counts until the provider has answered here. */
  hearsay(aheadMs: number): void
  /** How far ahead of our clock the provider was when an earlier process had its last answer: counts until the provider has answered here. */
  assume(aheadMs: number): void
  /** By how much refusing takes the provider to be ahead of our clock: what a later process may assume. */
  readonly aheadMs: number
  /** Whether the provider has said its time. */
  readonly isKnown: boolean
  /** Whether it has answered several times and has never said its time. */
  readonly saysNoTime: boolean
  /** What serving a quote assumes: the provider may already be this late. */
  latestMs(): number
  /** What refusing an order assumes: the provider may still be this early. */
  earliestMs(): number
  moment(): Moment
  /** How long the quote may still be served; 0 or less: not any more. `at`: now, unless the caller has just looked. */
  serveLeftMs(quote: Ending, at?: Moment): number
  /** How long until an order for the quote is refused; 0 or less: now. */
  orderLeftMs(quote: Ending): number
  /** The same for any number of quotes, by one look at the clocks. */
  orderLeftNow(): (quote: Ending) => number
  offset(): ClockOffset
}

const worthAWarningMs = 2_000
const warnEveryMs = 600_000
/** The first answers may come from an edge or a test that says no time. */
const answersBeforeWarning = 3

export function createProviderClock({ clock, log }: { clock: Clock; log: Logger }): ProviderClock {
  const upstreamClock = createUpstreamClock()
  let storeAheadMs = 0
  let hearsayMs = 0
  let assumedMs = 0
  /** Our wall clock less the steady clock, when the provider's time was last read, or at the start. */
  let leadWhenReadMs = leadMs()
  let warnedAtMs = Number.NEGATIVE_INFINITY
  let answersWithoutTime = 0

  function look(): { nowMs: number; steadyMs: number } {
    const nowMs = clock.nowMs()
    return { nowMs, steadyMs: steadyMsOf(clock, nowMs) }
  }

  function leadMs(): number {
    const { nowMs, steadyMs } = look()
    return nowMs - steadyMs
  }

  function saysNoTime(): boolean {
    return !upstreamClock.isKnown && answersWithoutTime >= answersBeforeWarning
  }

  function warn(): void {
    if (clock.nowMs() - warnedAtMs < warnEveryMs) return
    const { estimateMs } = upstreamClock.offset()
    if (saysNoTime()) {
      log.warn(
        {},
        'no answer of the provider has a readable Date, so its clock is not known: quotes are judged by our clock, which must be right',
      )
    } else if (Math.abs(estimateMs) > worthAWarningMs) {
      log.warn(
        { offsetMs: Math.round(estimateMs) },
        "the provider's clock is far from ours: quotes are judged by the provider's clock, within its known bounds",
      )
    } else return
    warnedAtMs = clock.nowMs()
  }

  function latestAt(nowMs: number, steadyMs: number): number {
    // How far our wall clock has been set ahead since then; less than 0: back. A machine that slept is ahead.
    const setByMs = nowMs - steadyMs - leadWhenReadMs
    return upstreamClock.latestMs(nowMs) + (setByMs < -toleranceMs ? Math.ceil(-setByMs) : 0)
  }

  function earliestAt(nowMs: number, steadyMs: number): number {
    const setByMs = nowMs - steadyMs - leadWhenReadMs
    const earliestMs = upstreamClock.earliestMs(nowMs) - Math.max(0, setByMs)
    return upstreamClock.isKnown ? earliestMs : earliestMs + aheadUnheardMs()
  }

  /** What others said of the provider's clock counts only where it makes the clock earlier. */
  function aheadUnheardMs(): number {
    return Math.min(assumedMs, ...[storeAheadMs, hearsayMs].filter((ms) => ms < 0))
  }

  function moment(): Moment {
    const { nowMs, steadyMs } = look()
    return { latestMs: latestAt(nowMs, steadyMs), steadyMs, isExact: upstreamClock.isOurs }
  }

  function orderLeftNow(): (quote: Ending) => number {
    const { nowMs, steadyMs } = look()
    const earliestMs = earliestAt(nowMs, steadyMs)
    const { isOurs } = upstreamClock
    return ({ expiresAtMs, ownEnd }) => {
      const leftMs = expiresAtMs - earliestMs
      if (ownEnd === undefined || (isOurs && leftMs >= ownEnd.fromMs - steadyMs)) return leftMs
      return Math.max(leftMs, ownEnd.untilMs - steadyMs)
    }
  }

  return {
    observe({ rawHeaders, sentAtMs, receivedAtMs }) {
      const nowLeadMs = leadMs()
      const byMs = nowLeadMs - leadWhenReadMs
      // The answer may have been under way when our clock was set: its two moments are then of different clocks.
      const isOfTwoClocks = byMs > toleranceMs && receivedAtMs - sentAtMs >= byMs
      const told = upstreamClock.observe({
        ourClockWasSet: Math.abs(byMs) > toleranceMs && !isOfTwoClocks,
        ...readDateHeaders(rawHeaders),
        sentAtMs,
        receivedAtMs,
      })
      if (!told) answersWithoutTime += 1
      if (told && !isOfTwoClocks) leadWhenReadMs = nowLeadMs
      warn()
    },
    compare(aheadMs) {
      storeAheadMs = aheadMs
    },
    hearsay(aheadMs) {
      hearsayMs = Math.min(hearsayMs, aheadMs)
    },
    assume(aheadMs) {
      assumedMs = aheadMs
    },
    get aheadMs() {
      if (!upstreamClock.isKnown) return assumedMs
      const { lowMs } = upstreamClock.offset()
      return upstreamClock.isOurs || !Number.isFinite(lowMs) ? 0 : Math.floor(lowMs)
    },
    get isKnown() {
      return upstreamClock.isKnown
    },
    get saysNoTime() {
      return saysNoTime()
    },
    latestMs: () => moment().latestMs,
    earliestMs() {
      const { nowMs, steadyMs } = look()
      return earliestAt(nowMs, steadyMs)
    },
    moment,
    serveLeftMs({ expiresAtMs, ownEnd }, { latestMs, steadyMs, isExact } = moment()) {
      const leftMs = expiresAtMs - latestMs
      if (ownEnd === undefined || (isExact && leftMs <= ownEnd.untilMs - steadyMs)) return leftMs
      return Math.min(leftMs, ownEnd.fromMs - steadyMs)
    },
    orderLeftNow,
    orderLeftMs: (quote) => orderLeftNow()(quote),
    offset: () => upstreamClock.offset(),
  }
}
