import type { Clock } from '../clock.ts'
import { headerValues } from '../http/headers.ts'
import type { Logger } from '../process/logger.ts'
import { type ClockOffset, createUpstreamClock, toleranceMs } from './clock-offset.ts'
import type { OwnEnd } from './quote.ts'

/** What ends at an instant of the provider's clock. */
export interface Ending {
  readonly expiresAtMs: number
  readonly ownEnd?: OwnEnd | undefined
}

/** The provider's wall clock, as far as its answers tell it. */
export interface ProviderClock {
  /** Both moments are of our wall clock; the headers are those of the answer. */
  observe(answer: { rawHeaders: readonly string[]; sentAtMs: number; receivedAtMs: number }): void
  /** How far the shared store's clock is ahead of ours: a second opinion on ours, until the provider has said its time. */
  compare(storeAheadMs: number): void
  /** How far ahead of our clock the provider is by what another replica told the store: counts until it has been heard here. */
  hearsay(aheadMs: number): void
  /** Whether the provider has said its time. */
  readonly isKnown: boolean
  /** What serving a quote assumes: the provider may already be this late. */
  latestMs(): number
  /** What refusing an order assumes: the provider may still be this early. */
  earliestMs(): number
  /** How long the quote may still be served; 0 or less: not any more. */
  serveLeftMs(quote: Ending): number
  /** How long until an order for the quote is refused; 0 or less: now. */
  orderLeftMs(quote: Ending): number
  offset(): ClockOffset
}

const worthAWarningMs = 2_000
const warnEveryMs = 600_000

export function createProviderClock({ clock, log }: { clock: Clock; log: Logger }): ProviderClock {
  const upstreamClock = createUpstreamClock()
  let storeAheadMs = 0
  let hearsayMs = 0
  /** Our wall clock less the steady clock, when the provider's time was last read, or at the start. */
  let leadWhenReadMs = leadMs()
  let warnedAtMs = Number.NEGATIVE_INFINITY

  function leadMs(): number {
    return clock.steadyMs === undefined ? 0 : clock.nowMs() - clock.steadyMs()
  }

  function warnIfFarOff(): void {
    const { estimateMs } = upstreamClock.offset()
    if (Math.abs(estimateMs) <= worthAWarningMs || clock.nowMs() - warnedAtMs < warnEveryMs) return
    warnedAtMs = clock.nowMs()
    log.warn(
      { offsetMs: Math.round(estimateMs) },
      "the provider's clock is far from ours: quotes are judged by its clock, on the safe side of what is known of it",
    )
  }

  return {
    observe({ rawHeaders, sentAtMs, receivedAtMs }) {
      const dates = headerValues(rawHeaders, 'date')
      const hasAge = headerValues(rawHeaders, 'age').length > 0
      const nowLeadMs = leadMs()
      const byMs = nowLeadMs - leadWhenReadMs
      // The answer may have been under way when our clock was set: its two moments are then of different clocks.
      const isOfTwoClocks = byMs > toleranceMs && receivedAtMs - sentAtMs >= byMs
      const told = upstreamClock.observe({
        ourClockWasSet: Math.abs(byMs) > toleranceMs && !isOfTwoClocks,
        dateHeader: dates.length === 1 ? dates[0] : undefined,
        hasAge,
        sentAtMs,
        receivedAtMs,
      })
      if (told && !isOfTwoClocks) leadWhenReadMs = nowLeadMs
      warnIfFarOff()
    },
    compare(aheadMs) {
      storeAheadMs = aheadMs
    },
    hearsay(aheadMs) {
      hearsayMs = Math.min(hearsayMs, aheadMs)
    },
    get isKnown() {
      return upstreamClock.isKnown
    },
    latestMs,
    earliestMs,
    serveLeftMs: ({ expiresAtMs }) => expiresAtMs - latestMs(),
    orderLeftMs: ({ expiresAtMs }) => expiresAtMs - earliestMs(),
    offset: () => upstreamClock.offset(),
  }

  function latestMs() {
    const nowMs = clock.nowMs()
    // How far our wall clock has been set ahead since then; less than 0: back. A machine that slept is ahead.
    const setByMs = clock.steadyMs === undefined ? 0 : nowMs - clock.steadyMs() - leadWhenReadMs
    return upstreamClock.latestMs(nowMs) + (setByMs < -toleranceMs ? Math.ceil(-setByMs) : 0)
  }
  function earliestMs() {
    const nowMs = clock.nowMs()
    const setByMs = clock.steadyMs === undefined ? 0 : nowMs - clock.steadyMs() - leadWhenReadMs
    const earliestMs = upstreamClock.earliestMs(nowMs) - Math.max(0, setByMs)
    return upstreamClock.isKnown ? earliestMs : earliestMs + Math.min(0, storeAheadMs, hearsayMs)
  }
}
