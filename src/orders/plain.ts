import type { Clock } from '../clock.ts'
import { awaitsContinue } from '../http/answer.ts'
import { ClientGone } from '../http/failure.ts'
import { Problem } from '../http/problem.ts'
import type { Journal } from '../journal/journal.ts'
import { type Exchange, UpstreamTimes } from '../server/exchange.ts'
import type { RateLimit } from '../server/rate-limit.ts'
import { type SwapHeaders, traceOf, withTraceHeaders } from '../server/swap-headers.ts'
import { isSurelyLong, type RequestBodies } from '../upstream/body.ts'
import { unwritable } from '../upstream/fault.ts'
import { fetchWhole, type WholeAnswer } from '../upstream/fetch.ts'
import { RequestBody, type SentBody } from '../upstream/request-body.ts'
import type { Upstream } from '../upstream/upstream.ts'
import type { KeptAnswer } from './kept-order.ts'
import type { OrderKeys } from './keys.ts'
import type { Ledger } from './ledger.ts'
import { namedByHeader, type OrderTerms, readOrder } from './order-terms.ts'
import { hasCoding, namesKey, orderFailure, quoteNamedByHeader, relayAnswer, tooLarge } from './problems.ts'
import type { SentOrder } from './route.ts'

interface PlainOrderParts {
  config: { orders: { quoteIdFields: readonly string[] }; upstream: { totalTimeoutMs: number } }
  ledger: Ledger
  journals: Pick<Journal, 'caughtUp'>
  keys: OrderKeys
  clock: Clock
  rateLimit: RateLimit | undefined
  swapHeaders: SwapHeaders
  bodies: RequestBodies
  upstream: Upstream
  passThrough: { answer(exchange: Exchange, begun: SentBody): Promise<void> }
}

/** POST /v3/orders: passes, unless it names a quote, which only a float order may use. */
export class PlainOrderRoute {
  readonly #parts: PlainOrderParts
  /** Those with a key that are on their way. Their clients may have left. */
  sent = 0

  constructor(parts: PlainOrderParts) {
    this.#parts = parts
  }

  async answer(exchange: Exchange): Promise<void> {
    const { bodies, clock, config, keys, passThrough, swapHeaders, upstream } = this.#parts
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
        return this.#send(exchange, sent)
      })
      if (!response.destroyed) this.#relay(exchange, answer, order)
    } catch (error) {
      throw orderFailure(error, order)
    } finally {
      if (body instanceof RequestBody) body.destroy()
    }
  }

  /** One with a key is read to the end of its answer, whether or not its client waits. */
  async #send(exchange: Exchange, { headers, body, readAtMs }: SentOrder): Promise<WholeAnswer> {
    const { clock, config, rateLimit, upstream } = this.#parts
    await rateLimit?.count(exchange)
    const times = new UpstreamTimes()
    exchange.times = times
    this.sent += 1
    try {
      return await fetchWhole({
        upstream,
        clock,
        totalTimeoutMs: config.upstream.totalTimeoutMs,
        beganAtMs: readAtMs,
        request: {
          kind: 'order',
          method: 'POST',
          target: exchange.target,
          headers,
          body,
          trace: traceOf(exchange, true),
          decide: () => waitsFor(exchange),
        },
        sender: {
          sent: () => {
            times.sentAtMs ??= performance.now()
          },
          answerBegan: () => {
            times.beganAtMs = performance.now()
          },
        },
      })
    } finally {
      times.settledAtMs = performance.now()
      this.sent -= 1
    }
  }

  #relay(exchange: Exchange, answer: KeptAnswer, order: OrderTerms | undefined): void {
    try {
      relayAnswer(exchange, answer)
    } catch (error) {
      throw orderFailure(unwritable(this.#parts.upstream.name, error), order, answer.status)
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

/** An order whose client has left is not sent. Nothing else is asked of one while it waits for a connection. */
function waitsFor({ response }: Exchange): number {
  if (response.destroyed)
    throw new ClientGone('the client left before its order was sent', { maybeSeen: false })
  return Number.POSITIVE_INFINITY
}
