import type { Verdict } from '../orders/matching.ts'
import type { ProviderClock } from '../quotes/provider-clock.ts'

/** What is known of the provider's clock, and of its quotes, changes while an order waits for a connection. */
const maxMs = 1_000
/** The clock may be read at the very end of a quote, a moment before the judge reads it. */
const atTheEndMs = 1

/** When to judge a waiting order again that may be sent now: at the instant at which its quote expires, or sooner. */
export function msUntilNextJudgement(
  verdict: Verdict,
  options: { providerClock: Pick<ProviderClock, 'orderLeftMs'>; expiryMarginMs: number },
): number {
  if (verdict.state !== 'live') return maxMs
  const leftMs = options.providerClock.orderLeftMs(verdict.quote) - options.expiryMarginMs
  return Math.min(maxMs, Math.max(atTheEndMs, Math.ceil(leftMs)))
}
