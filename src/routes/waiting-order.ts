import type { NotedQuote } from '../orders/ledger.ts'
import type { ProviderClock } from '../quotes/provider-clock.ts'

/** What is known of the provider's clock, and of its quotes, changes while an order waits for a connection. */
const maxMs = 1_000
/** A quote that is past its expiry and counts as live is judged with a margin that is known to the judge alone. */
const pastExpiryMs = 50

/** When to judge a waiting order again that may be sent now: at the instant at which its quote expires, or sooner. */
export function msUntilNextJudgement(
  quote: Pick<NotedQuote, 'expiresAtMs'> | undefined,
  options: { providerClock: Pick<ProviderClock, 'earliestMs'>; expiryMarginMs: number },
): number {
  if (quote === undefined) return maxMs
  const leftMs = quote.expiresAtMs - options.expiryMarginMs - options.providerClock.earliestMs()
  return leftMs > 0 ? Math.min(maxMs, Math.ceil(leftMs)) : pastExpiryMs
}
