import { awaitsContinue } from '../http/answer.ts'
import { Problem } from '../http/problem.ts'
import type { Journal } from '../journal/journal.ts'
import type { Exchange } from '../server/exchange.ts'
import { isSurelyLong, type RequestBodies } from '../upstream/body.ts'
import { RequestBody, type SentBody } from '../upstream/request-body.ts'
import type { Upstream } from '../upstream/upstream.ts'
import type { Ledger } from './ledger.ts'
import { namedByHeader, type OrderTerms, readOrder } from './order-terms.ts'
import { hasCoding, orderFailure, quoteNamedByHeader } from './problems.ts'

interface PlainOrderParts {
  config: { orders: { quoteIdFields: readonly string[] } }
  ledger: Ledger
  journals: Pick<Journal, 'caughtUp'>
  bodies: RequestBodies
  upstream: Upstream
  passThrough: { answer(exchange: Exchange, begun: SentBody): Promise<void> }
}

/** POST /v3/orders: passes, unless it names a quote, which only a float order may use. */
export class PlainOrderRoute {
  readonly #parts: PlainOrderParts

  constructor(parts: PlainOrderParts) {
    this.#parts = parts
  }

  async answer(exchange: Exchange): Promise<void> {
    const { bodies, config, passThrough, upstream } = this.#parts
    const { request, response } = exchange
    const header = quoteNamedByHeader(request.rawHeaders)
    if (awaitsContinue(response)) upstream.mustTake('order', { bodyStreams: isSurelyLong(request) })
    const { whole, body } = await bodies.read(request, response, { isJudged: true })
    let order: OrderTerms | undefined
    try {
      if (whole !== undefined && !hasCoding(request.rawHeaders))
        order = readOrder(whole, { ...config.orders, header }).order
      await this.#refuseQuote(order?.quoteIds ?? namedByHeader(header))
      // The client may have left while the store was asked; relaying would wait forever for the client to read.
      if (!response.destroyed) await passThrough.answer(exchange, body)
    } catch (error) {
      throw orderFailure(error, order)
    } finally {
      if (body instanceof RequestBody) body.destroy()
    }
  }

  async #refuseQuote(quoteIds: OrderTerms['quoteIds']): Promise<void> {
    const { journals, ledger } = this.#parts
    if (quoteIds.length === 0) return
    await journals.caughtUp()
    const named = quoteIds.find(({ id }) => ledger.findById(id) !== undefined)
    if (named === undefined) return
    throw new Problem('float-order-required', {
      detail: 'This order names a quote. Send it to POST /v3/orders/float. Nothing was sent to the provider.',
      members: { quoteId: named.id, use: '/v3/orders/float' },
    })
  }
}
