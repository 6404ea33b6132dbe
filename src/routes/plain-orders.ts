import { awaitsContinue } from '../http/answer.ts'
import { Problem } from '../http/problem.ts'
import type { Journal } from '../journal/journal.ts'
import type { Ledger } from '../orders/ledger.ts'
import { namedByHeader, type OrderTerms, readOrder } from '../orders/order-terms.ts'
import type { Exchange } from '../server/exchange.ts'
import { isSurelyLong, type RequestBodies } from '../upstream/body.ts'
import { RequestBody } from '../upstream/request-body.ts'
import type { Upstream } from '../upstream/upstream.ts'
import { orderFailure } from './order-answer.ts'
import { hasCoding, quoteNamedByHeader } from './order-problems.ts'
import type { PassThroughRoute } from './passthrough.ts'

export interface PlainOrderRouteOptions {
  ledger: Pick<Ledger, 'findById'>
  journal: Pick<Journal, 'caughtUp'>
  quoteIdFields: readonly string[]
  upstream: Pick<Upstream, 'mustTake'>
  bodies: RequestBodies
  passThrough: PassThroughRoute
}

/** POST /v3/orders: passes, unless it names a quote, which only a float order may use. */
export function createPlainOrderRoute(
  options: PlainOrderRouteOptions,
): (exchange: Exchange) => Promise<void> {
  const { ledger, journal, quoteIdFields } = options

  async function refuseQuoteId(quoteIds: OrderTerms['quoteIds']): Promise<void> {
    if (quoteIds.length === 0) return
    await journal.caughtUp()
    const named = quoteIds.find(({ id }) => ledger.findById(id) !== undefined)
    if (named === undefined) return
    throw new Problem('float-order-required', {
      detail: 'This order names a quote. Send it to POST /v3/orders/float. Nothing was sent to the provider.',
      members: { quoteId: named.id, use: '/v3/orders/float' },
    })
  }

  return async function plainOrder(exchange) {
    const { request, response } = exchange
    const header = quoteNamedByHeader(request.rawHeaders)
    if (awaitsContinue(response)) options.upstream.mustTake('order', { bodyStreams: isSurelyLong(request) })
    const { whole, body } = await options.bodies.read(request, response, { isJudged: true })
    try {
      const isReadable = whole !== undefined && !hasCoding(request.rawHeaders)
      const { order } = isReadable ? readOrder(whole, { quoteIdFields, header }) : {}
      await refuseQuoteId(order?.quoteIds ?? namedByHeader(header))
      // The client may have left while the store was asked; relaying would wait forever for the client to read.
      if (!response.destroyed)
        await options.passThrough(exchange, body).catch((error) => {
          throw orderFailure(error, order)
        })
    } finally {
      if (body instanceof RequestBody) body.destroy()
    }
  }
}
