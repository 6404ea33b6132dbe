import { type Clock, lookAt, orderLeftMs } from '../clock.ts'
import type { Verdict } from '../orders/guard.ts'

/** What is known of the provider's quotes changes while an order waits for a connection. */
const maxMs = 1_000
/** The clock may be read at the very end of a quote, a moment before the guard reads it. */
const atTheEndMs = 1

/** When to judge a waiting order again that may be sent now: at the instant at which its quote is over, or sooner. */
export function msUntilNextJudgement(
  verdict: Verdict,
  { clock, expiryMarginMs }: { clock: Clock; expiryMarginMs: number },
): number {
  if (verdict.state !== 'live') return maxMs
  const leftMs = orderLeftMs(verdict.quote, lookAt(clock)) - expiryMarginMs
  return Math.min(maxMs, Math.max(atTheEndMs, Math.ceil(leftMs)))
}
