import { Problem } from '../http/problem.ts'
import type { QuoteLedger, SharedLedger } from '../orders/ledger.ts'
import { type OrderTerms, readOrder } from '../orders/order-terms.ts'
import type { Orderer } from '../orders/terms-index.ts'
import { readUpTo } from '../upstream/read-body.ts'
import type { Exchange } from './exchange.ts'
import { orderFailure } from './order-answer.ts'
import { hasCoding, maxOrderBytes } from './order-problems.ts'
import type { PassThroughRoute } from './passthrough.ts'

export interface PlainOrderRouteOptions {
  ledger: Pick<QuoteLedger, 'findById'>
  sharedLedger: Pick<SharedLedger, 'recall'>
  quoteIdFields: readonly string[]
  bodyIdleTimeoutMs: number
  passThrough: PassThroughRoute
}

/** POST /v3/orders: passes, unless it names a quote, which only a float order may use. */
export function createPlainOrderRoute(
  options: PlainOrderRouteOptions,
): (exchange: Exchange) => Promise<void> {
  const { ledger, sharedLedger, quoteIdFields } = options

  async function refuseQuoteId(order: OrderTerms): Promise<void> {
    if (order.quoteIds.length === 0) return
    await sharedLedger.recall({ ...order, fromAmount: undefined }, noOrderer)
    const named = order.quoteIds.find(({ id }) => ledger.findById(id) !== undefined)
    if (named === undefined) return
    throw new Problem('float-order-required', {
      detail: 'This order names a quote. An order for a quote goes to POST /v3/orders/float.',
      members: { quoteId: named.id, use: '/v3/orders/float' },
    })
  }

  return async function plainOrder(exchange) {
    const { bytes, rest } = await readUpTo(exchange.request, {
      maxBytes: maxOrderBytes,
      idleTimeoutMs: options.bodyIdleTimeoutMs,
    })
    const isReadable = rest === undefined && !hasCoding(exchange.request.rawHeaders)
    const { order } = isReadable ? readOrder(bytes, { quoteIdFields }) : {}
    if (order !== undefined) await refuseQuoteId(order)
    // The client may have left while the store was asked; relaying would wait for ever for the client to read.
    if (exchange.response.destroyed) return
    try {
      options.passThrough(exchange, rest ?? bytes, (error) => orderFailure(error, order))
    } catch (error) {
      rest?.destroy()
      throw error
    }
  }
}

/** For an order that is judged by ids alone. */
const noOrderer: Orderer = { application: undefined, partition: undefined }
