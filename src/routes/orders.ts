import type { ApplicationOf } from '../client/partition.ts'
import { awaitsContinue } from '../http/answer.ts'
import { ClientGone, UpstreamFailure } from '../http/failure.ts'
import { Problem } from '../http/problem.ts'
import type { Journal } from '../journal/journal.ts'
import { decide as decideNow, type Verdict } from '../orders/guard.ts'
import { type Orderer, type OrderTerms, readOrder } from '../orders/order-terms.ts'
import { briefText } from '../process/brief-text.ts'
import { type Exchange, UpstreamTimes } from '../server/exchange.ts'
import type { RequestBodies } from '../upstream/body.ts'
import { unwritable } from '../upstream/fault.ts'
import { fetchWhole } from '../upstream/fetch.ts'
import { RequestBody } from '../upstream/request-body.ts'
import type { Upstream } from '../upstream/upstream.ts'
import { relayAnswer } from './order-answer.ts'
import { quoteNamedByHeader, refuseCoding, refuseLength, tooLarge } from './order-problems.ts'
import { createOrderSenders, type Judged, type OrderSenderOptions } from './order-sender.ts'
import type { PassThroughRoute } from './passthrough.ts'
import { createPlainOrderRoute } from './plain-orders.ts'
import type { RateLimit } from './rate-limit.ts'
import { traceOf, withTraceHeaders } from './trace-headers.ts'

interface OrderRouteOptions extends OrderSenderOptions {
  journal: Pick<Journal, 'caughtUp'>
  upstream: Upstream
  quoteIdFields: readonly string[]
  totalTimeoutMs: number
  bodies: RequestBodies
  rateLimit: RateLimit | undefined
  applicationOf: ApplicationOf
  /** Whose quotes are the client's own. */
  partitionOf(exchange: Exchange): Pick<Orderer, 'partition' | 'isAddress'>
  swapHeaders(exchange: Exchange): string[]
  passThrough: PassThroughRoute
}

/** What would become of an order. */
type OrderExplanation =
  | { problem: string }
  | {
      problem?: undefined
      order: OrderTerms
      verdict: Verdict
      /** False: an order is not refused now because its quote is unknown. */
      othersKnown: boolean
    }

export interface OrderRoute {
  /** How many float orders are on their way to the provider, or wait for its answer. Their clients may have left. */
  readonly sent: number
  /** POST /v3/orders/float. */
  floatOrder(exchange: Exchange): Promise<void>
  /** POST /v3/orders: passes, unless it names a quote, which only a float order may use. */
  plainOrder(exchange: Exchange): Promise<void>
  /** Judges a float order as it would be judged now, without counting, sending or remembering anything. */
  explain(body: Buffer, orderer: Orderer): Promise<OrderExplanation>
}

export function createOrderRoute(options: OrderRouteOptions): OrderRoute {
  const { clock, quoteIdFields, upstream } = options
  const { decide, senderOf } = createOrderSenders(options)
  let sent = 0

  /** Once for each order, before it is judged: what other replicas noted is here, or it is known that it is not. */
  async function catchUp(order: OrderTerms, orderer: Orderer): Promise<Judged> {
    const othersKnown = await options.journal.caughtUp()
    return { ...orderer, order, marginMs: options.expiryMarginMs, othersKnown }
  }

  async function floatOrder(exchange: Exchange): Promise<void> {
    const { request, response } = exchange
    const headers = withTraceHeaders(options.swapHeaders(exchange), exchange)
    refuseCoding(request.rawHeaders)
    refuseLength(request.rawHeaders)
    const header = quoteNamedByHeader(request.rawHeaders)
    // Only a client that waits for `100 Continue` is refused without its body: without it no order can be judged, and an
    // order that is too late is refused for that, whether or not the upstream works.
    if (awaitsContinue(response)) upstream.mustTake('float-order')
    const { whole: bytes, body } = await options.bodies.read(request, response, { isJudged: true })
    const readAtMs = performance.now()
    if (bytes === undefined) {
      // Otherwise it would keep the refusal from reading the rest of the request.
      if (body instanceof RequestBody) body.destroy()
      throw tooLarge()
    }
    const { order, problem } = readOrder(bytes, { quoteIdFields, header })
    if (problem !== undefined) throw new Problem('bad-order', { detail: problem })

    // Even if a live quote is known here: that one may expire while the order waits, and another replica may know of a
    // quote that expires later.
    const application = briefText(options.applicationOf(request.rawHeaders) ?? '')
    const judged = await catchUp(order, { application, ...options.partitionOf(exchange) })
    // An order that is too late already is refused without a connection, and whether or not the upstream works.
    const decision = decide(judged, exchange)
    if ('refusal' in decision) throw decision.refusal
    await options.rateLimit?.count(exchange)
    const sender = senderOf(judged, decision.verdict, exchange)
    const times = new UpstreamTimes()
    exchange.times = times
    // The answer is read to its end even if the client leaves: a quote that was used must be forgotten.
    const answer = fetchWhole({
      upstream,
      clock,
      totalTimeoutMs: options.totalTimeoutMs,
      beganAtMs: readAtMs,
      request: {
        kind: 'float-order',
        method: 'POST',
        target: exchange.target,
        headers,
        body,
        trace: traceOf(exchange, true),
        decide: () => sender.decide(),
      },
      sender,
    })
    sent += 1
    const whole = await answer
      .catch((error) => {
        throw wasNeverSent(error) ? error : sender.failed(error)
      })
      .finally(() => {
        times.settled()
        sent -= 1
      })
    if (response.destroyed) return
    try {
      relayAnswer(exchange, whole)
    } catch (error) {
      throw sender.failed(unwritable(upstream.name, error))
    }
  }

  return {
    get sent() {
      return sent
    },
    floatOrder,
    plainOrder: createPlainOrderRoute(options),
    async explain(body, orderer) {
      const { order, problem } = readOrder(body, { quoteIdFields })
      if (problem !== undefined) return { problem }
      const judged = await catchUp(order, orderer)
      return { order, verdict: decideNow(options.ledger, order, judged), othersKnown: judged.othersKnown }
    },
  }
}

/** The order was refused here, could not be sent, or its client left before. */
function wasNeverSent(error: unknown): boolean {
  if (error instanceof Problem) return true
  return (error instanceof UpstreamFailure || error instanceof ClientGone) && !error.maybeSeen
}
