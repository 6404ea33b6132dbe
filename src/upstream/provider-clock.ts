import type { Clock } from '../clock.ts'
import type { Logger } from '../logger.ts'
import { headerValues } from './headers.ts'
import { type ClockOffset, createUpstreamClock } from './upstream-clock.ts'

/** The provider's wall clock, as far as its answers tell it. */
export interface ProviderClock {
  /** Both moments are of our wall clock; the headers are those of the answer. */
  observe(answer: { rawHeaders: readonly string[]; sentAtMs: number; receivedAtMs: number }): void
  /** What serving a quote assumes: the provider may already be this late. */
  latestMs(): number
  /** What refusing an order assumes: the provider may still be this early. */
  earliestMs(): number
  offset(): ClockOffset
}

const worthAWarningMs = 2_000
const warnEveryMs = 600_000

export function createProviderClock({ clock, log }: { clock: Clock; log: Logger }): ProviderClock {
  const upstreamClock = createUpstreamClock()
  let warnedAtMs = Number.NEGATIVE_INFINITY

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
      upstreamClock.observe({
        dateHeader: dates.length === 1 ? dates[0] : undefined,
        hasAge: headerValues(rawHeaders, 'age').length > 0,
        sentAtMs,
        receivedAtMs,
      })
      warnIfFarOff()
    },
    latestMs: () => upstreamClock.latestMs(clock.nowMs()),
    earliestMs: () => upstreamClock.earliestMs(clock.nowMs()),
    offset: () => upstreamClock.offset(),
  }
}
