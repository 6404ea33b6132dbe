import type { Clock } from '../clock.ts'
import { awaitsContinue } from '../http/answer.ts'
import { Problem } from '../http/problem.ts'
import type { Journal } from '../journal/journal.ts'
import type { Exchange } from '../server/exchange.ts'
import type { RateLimit } from '../server/rate-limit.ts'
import { type SwapHeaders, withTraceHeaders } from '../server/swap-headers.ts'
import { isSurelyLong, type RequestBodies } from '../upstream/body.ts'
import { RequestBody, type SentBody } from '../upstream/request-body.ts'
import type { Upstream } from '../upstream/upstream.ts'
import type { OrderKeys } from './keys.ts'
import type { Ledger } from './ledger.ts'
import { namedByHeader, type OrderTerms, readOrder } from './order-terms.ts'
import { hasCoding, namesKey, orderFailure, quoteNamedByHeader, relayAnswer, tooLarge } from './problems.ts'
import type { OrderSender } from './send.ts'

interface PlainOrderParts {
  config: { orders: { quoteIdFields: readonly string[] } }
  ledger: Ledger
  journals: { readonly stream: Pick<Journal, 'caughtUp'> | undefined }
  keys: OrderKeys
  clock: Clock
  rateLimit: RateLimit | undefined
  swapHeaders: SwapHeaders
  bodies: RequestBodies
  upstream: Upstream
  orderSender: OrderSender
  passThrough: { answer(exchange: Exchange, begun: SentBody): Promise<void> }
}

/** POST /v3/orders: passes, unless it names a quote, which only a float order may use. */
export class PlainOrderRoute {
  readonly #parts: PlainOrderParts

  constructor(parts: PlainOrderParts) {
    this.#parts = parts
  }

  async answer(exchange: Exchange): Promise<void> {
    const { bodies, clock, config, keys, orderSender, passThrough, rateLimit, swapHeaders, upstream } =
      this.#parts
    const { request, response } = exchange
    const header = quoteNamedByHeader(request.rawHeaders)
    const isKeyed = namesKey(request.rawHeaders)
    const sentHeaders = isKeyed ? withTraceHeaders(swapHeaders.of(exchange), exchange) : []
    const key = keys.idIn(sentHeaders)
    // A longer body streams, so that it cannot be compared with that of an order sent before.
    if (key !== undefined && isSurelyLong(request)) throw tooLarge()
    // With a key it may need no upstream.
    if (key === undefined && awaitsContinue(response))
      upstream.mustTake('order', { bodyStreams: isSurelyLong(request) })
    const { whole, body } = await bodies.read(request, response, { isJudged: true })
    const readAtMs = clock.timers.steadyMs()
    let order: OrderTerms | undefined
    try {
      if (key !== undefined && whole === undefined) throw tooLarge()
      if (whole !== undefined && !hasCoding(request.rawHeaders))
        order = readOrder(whole, { ...config.orders, header }).order
      const quoteIds = order?.quoteIds ?? namedByHeader(header)
      if (key === undefined || whole === undefined) {
        await this.#refuseQuote(quoteIds)
        // The client may have left while the store was asked; relaying would wait forever for the client to read.
        if (!response.destroyed) await passThrough.answer(exchange, body)
        return
      }
      const sent = { headers: sentHeaders, body, readAtMs }
      const answer = await keys.once(exchange, { id: key, bytes: whole, terms: order }, async () => {
        await this.#refuseQuote(quoteIds)
        await rateLimit?.count(exchange)
        return orderSender.send(exchange, sent, { kind: 'order' })
      })
      relayAnswer(exchange, answer, order)
    } catch (error) {
      throw orderFailure(error, order)
    } finally {
      if (body instanceof RequestBody) body.destroy()
    }
  }

  async #refuseQuote(quoteIds: OrderTerms['quoteIds']): Promise<void> {
    const { journals, ledger } = this.#parts
    if (quoteIds.length === 0) return
    await journals.stream?.caughtUp()
    const named = quoteIds.find(({ id }) => ledger.findById(id) !== undefined)
    if (named === undefined) return
    throw new Problem('float-order-required', {
      detail: 'This order names a quote. Send it to POST /v3/orders/float. Nothing was sent to the provider.',
      members: { quoteId: named.id, use: '/v3/orders/float' },
    })
  }
}
