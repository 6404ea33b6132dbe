import type { Span } from '../tracing/observer.ts'
import type { QuoteLedger, SharedLedger } from './ledger.ts'
import type { Judgement, Verdict } from './matching.ts'
import type { OrderTerms } from './order-terms.ts'
import type { Orderer } from './terms-index.ts'

/** An order with everything that `judge` needs, so that it can be judged again without the shared store. */
export interface Judged extends Judgement {
  order: OrderTerms
  /** Whether the ledger holds every quote of any replica that the order may refer to. */
  othersKnown: boolean
}

export interface OrderJudgeOptions {
  ledger: QuoteLedger
  sharedLedger: Pick<SharedLedger, 'recall'>
  expiryMarginMs: number
}

export function createOrderJudge({ ledger, sharedLedger, expiryMarginMs }: OrderJudgeOptions) {
  return {
    /** Fetches what other replicas have noted. Called once per order, before its first `judge`. */
    async recall(order: OrderTerms, orderer: Orderer, span?: Span): Promise<Judged> {
      const othersKnown = await sharedLedger.recall(order, orderer, span)
      return { ...orderer, order, marginMs: expiryMarginMs, othersKnown }
    },

    judge(judged: Judged): Verdict {
      const verdict = ledger.verdict(judged.order, judged)
      // Later quotes often have the same terms, and another replica may have relayed one that is still live.
      const isInDoubt = !judged.othersKnown && verdict.state === 'expired' && verdict.rule !== 'id'
      return isInDoubt ? { state: 'unknown', rule: 'store-away' } : verdict
    },
  }
}
