import type { ApplicationOf } from '../client/application.ts'
import type { Clock } from '../clock.ts'
import { Problem } from '../http/problem.ts'
import { awaitsContinue } from '../http/whole-response.ts'
import { createOrderJudge, type Judged, type OrderJudgeOptions } from '../orders/judge.ts'
import type { NotedQuote } from '../orders/ledger.ts'
import { isInDoubt, type Verdict } from '../orders/matching.ts'
import { type OrderTerms, readOrder } from '../orders/order-terms.ts'
import type { Orderer } from '../orders/terms-index.ts'
import { briefText } from '../process/brief-text.ts'
import type { ProviderClock } from '../quotes/provider-clock.ts'
import type { Span } from '../tracing/observer.ts'
import { readJudgedBody } from '../upstream/body-start.ts'
import { unwritable } from '../upstream/fault.ts'
import { type AnswerHead, fetchWhole, type Sender } from '../upstream/fetch.ts'
import type { HeldBodies } from '../upstream/held-bodies.ts'
import { ClientGone, RequestBody } from '../upstream/request-body.ts'
import type { Upstream } from '../upstream/types.ts'
import type { Exchange } from './exchange.ts'
import { isAccepted, mayBeAccepted, orderFailure, relayAnswer } from './order-answer.ts'
import { type DecidedOrder, type OrderObserver, traceDecision } from './order-decisions.ts'
import {
  expiredProblem,
  reasonOf,
  refuseCoding,
  refuseLength,
  tooLarge,
  unknownProblem,
} from './order-problems.ts'
import type { PassThroughRoute } from './passthrough.ts'
import { createPlainOrderRoute } from './plain-orders.ts'
import { type RateLimit, wasNeverSent } from './rate-limit.ts'
import { traceOf, withTraceHeaders } from './trace-headers.ts'
import { UpstreamTimes } from './upstream-times.ts'
import { msUntilNextJudgement } from './waiting-order.ts'

export interface OrderRouteOptions extends OrderJudgeOptions {
  upstream: Upstream
  clock: Clock
  providerClock: ProviderClock
  quoteIdFields: readonly string[]
  unknownQuote: 'forward' | 'refuse'
  totalTimeoutMs: number
  bodyIdleTimeoutMs: number
  heldBodies: HeldBodies
  rateLimit: RateLimit | undefined
  applicationOf: ApplicationOf
  /** The digest of the client's partition; undefined: its address is not known. */
  partitionOf(exchange: Exchange): string | undefined
  swapHeaders(exchange: Exchange): string[]
  passThrough: PassThroughRoute
  /** Drops a quote that an order has used, or may have used; undefined: it may be handed out again. */
  useQuote: ((cacheKeys: Iterable<string>, quote: NotedQuote, span?: Span) => void) | undefined
  observer: OrderObserver
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
  const { clock, ledger, providerClock, quoteIdFields, upstream } = options
  const { recall, judge } = createOrderJudge(options)
  let sent = 0

  function noteDecision(order: DecidedOrder, quoteAgeMs: number | undefined): void {
    traceDecision(order)
    options.observer.decided(order, quoteAgeMs)
  }

  function ageOf(quote: NotedQuote): number {
    return Math.max(0, clock.nowMs() - quote.notedAtMs)
  }

  /** What to do with an order now: send it, with the quote that it uses if one is known, or refuse it. */
  function decide(judged: Judged, exchange: Exchange): { verdict: Verdict } | { refusal: Problem } {
    const { order, othersKnown } = judged
    const verdict = judge(judged)
    const refused = { verdict, order, exchange, considered: () => ledger.considered(order, judged) }
    exchange.outcome = { how: 'order-sent', why: reasonOf(verdict, othersKnown) }
    switch (verdict.state) {
      case 'live':
        return { verdict }
      case 'expired':
        noteDecision({ ...refused, decision: 'refused-expired' }, ageOf(verdict.quote))
        return { refusal: expiredProblem(order, verdict.quote, verdict.expiredForMs) }
      case 'unknown':
        // In all these cases a live quote that is not known here may be meant.
        if (options.unknownQuote === 'forward' || !othersKnown || isInDoubt(verdict)) return { verdict }
        noteDecision({ ...refused, decision: 'refused-unknown' }, undefined)
        return { refusal: unknownProblem() }
    }
  }

  /** Judges an order once more when it goes out, and lets go of its quote when it was, or may have been, accepted. */
  class OrderSender implements Sender {
    readonly #judged: Judged
    readonly #exchange: Exchange
    #used: NotedQuote | undefined
    #status = 0

    constructor(judged: Judged, exchange: Exchange) {
      this.#judged = judged
      this.#exchange = exchange
    }

    /** An order that waited for a connection is judged when it goes out, not only when it came. */
    objection(): Error | undefined {
      const decided = this.#decideNow()
      if ('refusal' in decided) return decided.refusal
      const { verdict } = decided
      this.#used = verdict.state === 'live' ? verdict.quote : undefined
      const decision = this.#used ? 'forwarded-live' : 'forwarded-unknown'
      const { order } = this.#judged
      const exchange = this.#exchange
      exchange.upstreamTimes?.sent()
      noteDecision({ decision, verdict, order, exchange }, this.#used && ageOf(this.#used))
      return undefined
    }

    /** An order that waits is refused at the instant at which its quote expires. */
    whileWaiting(): { objection: Error } | { askAgainInMs: number } {
      const decision = this.#decideNow()
      if ('refusal' in decision) return { objection: decision.refusal }
      return { askAgainInMs: msUntilNextJudgement(decision.verdict, options) }
    }

    #decideNow(): { verdict: Verdict } | { refusal: Error } {
      if (!this.#exchange.response.destroyed) return decide(this.#judged, this.#exchange)
      return { refusal: new ClientGone('the client left before its order was sent', { maybeSeen: false }) }
    }

    /** A 2xx head means that the order was accepted, whatever becomes of the rest of the answer. */
    answerBegan(head: AnswerHead): void {
      this.#status = head.status
      // A refusal may come from an edge server with another clock.
      if (isAccepted(head.status)) providerClock.observe(head)
      if (mayBeAccepted(head.status)) this.#useQuote()
    }

    /** The order was sent, and has no answer for its client. Returns the error that the client gets instead. */
    failed(error: unknown): unknown {
      if (this.#status === 0) this.#useQuote()
      return orderFailure(error, this.#judged.order, this.#status)
    }

    #useQuote(): void {
      if (this.#used !== undefined)
        options.useQuote?.(ledger.cacheKeysOf(this.#used), this.#used, this.#exchange.span)
    }
  }

  async function floatOrder(exchange: Exchange): Promise<void> {
    const { request, response } = exchange
    const headers = withTraceHeaders(options.swapHeaders(exchange), exchange)
    refuseCoding(request.rawHeaders)
    refuseLength(request.rawHeaders)
    // Only a client that waits for `100 Continue` is refused without its body: without it no order can be judged, and an
    // order that is too late is refused for that, whether or not the upstream works.
    const refusal = awaitsContinue(response) ? upstream.refusal('float-order') : undefined
    if (refusal !== undefined) throw refusal
    const { whole: bytes, body } = await readJudgedBody(request, {
      response,
      idleTimeoutMs: options.bodyIdleTimeoutMs,
      held: options.heldBodies,
    })
    if (bytes === undefined) {
      // Otherwise it would keep the refusal from reading the rest of the request.
      if (body instanceof RequestBody) body.destroy()
      throw tooLarge()
    }
    const { order, problem } = readOrder(bytes, { quoteIdFields })
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
    const sender = new OrderSender(judged, exchange)
    const times = new UpstreamTimes()
    exchange.upstreamTimes = times
    // The answer is read to its end even if the client leaves: a quote that was used must be forgotten.
    const { answer } = fetchWhole({
      upstream,
      clock,
      totalTimeoutMs: options.totalTimeoutMs,
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
