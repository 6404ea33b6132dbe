import type { ApplicationOf } from '../client/partition.ts'
import type { Considered, Verdict } from '../orders/guard.ts'
import type { OrderTerms } from '../orders/order-terms.ts'
import type { Logger } from '../process/logger.ts'
import { loggedText } from './access-log.ts'
import type { Exchange } from './exchange.ts'

/** What was decided of a float order, and why. */
const floatOrderDecisions = [
  'forwarded-live',
  'forwarded-unknown',
  // Sent because of ORDER_EXPIRED_QUOTE=report.
  'reported-expired',
  'refused-expired',
  'refused-unknown',
] as const
export type FloatOrderDecision = (typeof floatOrderDecisions)[number]

export interface DecidedOrder {
  decision: FloatOrderDecision
  /** With the quote that is used or was too old, if one was known. */
  verdict: Verdict
  order: OrderTerms
  exchange: Exchange
  /** For an order that is refused or reported: the quotes that it may mean, as of now. */
  considered?: () => readonly Considered[]
}

/** Says it in the trace of the order. */
export function traceDecision({ decision, verdict, exchange: { span } }: DecidedOrder): void {
  span?.set('quotegate.order.decision', decision)
  span?.set('quotegate.order.rule', verdict.rule)
}

/** Receives what is to be counted and shown of float orders. */
export interface OrderObserver {
  decided(decided: DecidedOrder, quoteAgeMs: number | undefined): void
}

/** ORDER_LOG: one line for each decision about a float order. It has no client's address. */
export function createOrderLog(options: {
  log: Logger
  applicationOf: ApplicationOf
}): (decided: DecidedOrder) => void {
  const { log, applicationOf } = options
  return ({ order, exchange, decision, verdict }) => {
    const { quoteIds, pair, fromAmount, toAmount } = order
    const quoteId = 'quote' in verdict ? verdict.quote.id : quoteIds[0]?.id
    log.info(
      {
        log: 'orders',
        requestId: exchange.id,
        application: loggedText(applicationOf(exchange.request.rawHeaders)),
        pairId: loggedText(pair ?? ('quote' in verdict ? verdict.quote.pairId : undefined)),
        fromAmount: loggedText(fromAmount?.text),
        toAmount: toAmount === 'unreadable' ? toAmount : loggedText(toAmount?.text),
        quoteId: loggedText(quoteId),
        decision,
        rule: verdict.rule,
        lateMs: verdict.state === 'expired' ? Math.round(verdict.expiredForMs) : undefined,
      },
      decision,
    )
  }
}
