import type { ProviderClock } from '../quotes/provider-clock.ts'
import type { QuoteLedger, SharedLedger, Verdict } from './ledger.ts'
import type { OrderTerms } from './order-terms.ts'

/** An order, and what is needed to judge it more than once. */
export interface Judged {
  order: OrderTerms
  application: string | undefined
  /** Whether the ledger knows what every replica gave out. */
  othersKnown: boolean
}

export interface OrderJudgeOptions {
  ledger: QuoteLedger
  sharedLedger: Pick<SharedLedger, 'recall'>
  providerClock: Pick<ProviderClock, 'earliestMs'>
  expiryMarginMs: number
}

export function createOrderJudge(options: OrderJudgeOptions) {
  const { ledger, providerClock } = options

  return {
    /** Once, before the order is judged the first time. */
    async recall(order: OrderTerms, application: string | undefined): Promise<Judged> {
      return { order, application, othersKnown: await options.sharedLedger.recall(order, application) }
    },

    judge({ order, application, othersKnown }: Judged): Verdict {
      const verdict = ledger.verdict(order, {
        application,
        // Uncertainty about the provider's clock never refuses a live order: it may still be this early.
        providerEarliestMs: providerClock.earliestMs(),
        marginMs: options.expiryMarginMs,
      })
      // Equal terms come again, and another replica may have given out a quote with them that is live.
      const isInDoubt = !othersKnown && verdict.state === 'expired' && verdict.matchedBy === 'terms'
      return isInDoubt ? { state: 'unknown' } : verdict
    },
  }
}
