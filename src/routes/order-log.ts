import type { ApplicationOf } from '../client/application.ts'
import type { Logger } from '../process/logger.ts'
import { loggedText } from './logged-text.ts'
import type { DecidedOrder } from './order-decisions.ts'

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
