import type { ProviderClock } from '../quotes/provider-clock.ts'
import type { QuoteLedger, SharedLedger, Verdict } from './ledger.ts'
import type { OrderTerms } from './order-terms.ts'

/** An order with everything that `judge` needs, so that it can be judged again without the shared store. */
export interface Judged {
  order: OrderTerms
  application: string | undefined
  /** Whether the ledger holds every quote of any replica that the order may refer to. */
  othersKnown: boolean
}

export interface OrderJudgeOptions {
  ledger: QuoteLedger
  sharedLedger: Pick<SharedLedger, 'recall'>
  providerClock: Pick<ProviderClock, 'earliestMs' | 'orderLeftMs'>
  expiryMarginMs: number
}

export function createOrderJudge(options: OrderJudgeOptions) {
  const { ledger, providerClock } = options

  return {
    /** Fetches what other replicas have noted. Called once per order, before its first `judge`. */
    async recall(order: OrderTerms, application: string | undefined): Promise<Judged> {
      return { order, application, othersKnown: await options.sharedLedger.recall(order, application) }
    },

    judge({ order, application, othersKnown }: Judged): Verdict {
      const verdict = ledger.verdict(order, {
        application,
        // The earliest time that the provider's clock may show: an uncertain clock must not refuse a live order.
        providerEarliestMs: providerClock.earliestMs(),
        marginMs: options.expiryMarginMs,
      })
      if (verdict.state === 'expired' && providerClock.orderLeftMs(verdict.quote) > options.expiryMarginMs)
        return { state: 'live', quote: verdict.quote, matchedBy: verdict.matchedBy }
      // Later quotes often have the same terms, and another replica may have relayed one that is still live.
      const isInDoubt = !othersKnown && verdict.state === 'expired' && verdict.matchedBy === 'terms'
      return isInDoubt ? { state: 'unknown' } : verdict
    },
  }
}
