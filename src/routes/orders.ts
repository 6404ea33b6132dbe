import type { ApplicationOf } from '../client/application.ts'
import { Problem } from '../http/problem.ts'
import { awaitsContinue } from '../http/whole-response.ts'
import { createOrderJudge, type OrderJudgeOptions } from '../orders/judge.ts'
import type { Verdict } from '../orders/matching.ts'
import { type OrderTerms, readOrder } from '../orders/order-terms.ts'
import type { Orderer } from '../orders/terms-index.ts'
import { briefText } from '../process/brief-text.ts'
import { readJudgedBody } from '../upstream/body-start.ts'
import { unwritable } from '../upstream/fault.ts'
import { fetchWhole } from '../upstream/fetch.ts'
import type { HeldBodies } from '../upstream/held-bodies.ts'
import { RequestBody } from '../upstream/request-body.ts'
import type { Upstream } from '../upstream/types.ts'
import type { Exchange } from './exchange.ts'
import { relayAnswer } from './order-answer.ts'
import { quoteNamedByHeader, refuseCoding, refuseLength, tooLarge } from './order-problems.ts'
import { createOrderSenders, type OrderSenderOptions } from './order-sender.ts'
import type { PassThroughRoute } from './passthrough.ts'
import { createPlainOrderRoute } from './plain-orders.ts'
import { type RateLimit, wasNeverSent } from './rate-limit.ts'
import { traceOf, withTraceHeaders } from './trace-headers.ts'
import { UpstreamTimes } from './upstream-times.ts'

export interface OrderRouteOptions extends OrderJudgeOptions, Omit<OrderSenderOptions, 'judge'> {
  upstream: Upstream
  quoteIdFields: readonly string[]
  totalTimeoutMs: number
  bodyIdleTimeoutMs: number
  heldBodies: HeldBodies
  rateLimit: RateLimit | undefined
  applicationOf: ApplicationOf
  /** The digest of the client's partition; undefined: its address is not known. */
  partitionOf(exchange: Exchange): string | undefined
  swapHeaders(exchange: Exchange): string[]
  passThrough: PassThroughRoute
}

/** What would become of an order. */
export type OrderExplanation =
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
  const { recall, judge } = createOrderJudge(options)
  const { decide, senderOf } = createOrderSenders({ ...options, judge })
  let sent = 0

  async function floatOrder(exchange: Exchange): Promise<void> {
    const { request, response } = exchange
    const headers = withTraceHeaders(options.swapHeaders(exchange), exchange)
    refuseCoding(request.rawHeaders)
    refuseLength(request.rawHeaders)
    const header = quoteNamedByHeader(request.rawHeaders)
    // Only a client that waits for `100 Continue` is refused without its body: without it no order can be judged, and an
    // order that is too late is refused for that, whether or not the upstream works.
    const refusal = awaitsContinue(response) ? upstream.refusal('float-order') : undefined
    if (refusal !== undefined) throw refusal
    const { whole: bytes, body } = await readJudgedBody(request, {
      response,
      idleTimeoutMs: options.bodyIdleTimeoutMs,
      held: options.heldBodies,
    })
    const readAtMs = performance.now()
    if (bytes === undefined) {
      // Otherwise it would keep the refusal from reading the rest of the request.
      if (body instanceof RequestBody) body.destroy()
      throw tooLarge()
    }
    const { order, problem } = readOrder(bytes, { quoteIdFields, header })
    if (problem !== undefined) throw new Problem('bad-order', { detail: problem })

    // The store is asked even if a live quote is known here: that one may expire while the order waits, and another
    // replica may know of a quote that expires later.
    const application = briefText(options.applicationOf(request.rawHeaders) ?? '')
    const orderer = { application, partition: options.partitionOf(exchange) }
    const judged = await recall(order, orderer, exchange.span)
    // An order that is too late already is refused without a connection, and whether or not the upstream works.
    const decision = decide(judged, exchange)
    if ('refusal' in decision) throw decision.refusal
    await options.rateLimit?.count(exchange)
    const sender = senderOf(judged, exchange)
    const times = new UpstreamTimes()
    exchange.upstreamTimes = times
    // The answer is read to its end even if the client leaves: a quote that was used must be forgotten.
    const { answer } = fetchWhole({
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
      },
      sender,
    })
    sent += 1
    const whole = await answer
      .catch((error) => {
        const isUnsent = error instanceof Problem || wasNeverSent(error)
        if (isUnsent) options.rateLimit?.giveBack(exchange)
        throw isUnsent ? error : sender.failed(error)
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
      const judged = await recall(order, orderer)
      return { order, verdict: judge(judged), othersKnown: judged.othersKnown }
    },
  }
}
