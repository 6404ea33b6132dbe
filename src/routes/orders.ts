import { type ApplicationOf, briefApplication } from '../client/application.ts'
import type { Clock } from '../clock.ts'
import { Problem } from '../http/problem.ts'
import { createOrderJudge, type Judged, type OrderJudgeOptions } from '../orders/judge.ts'
import type { NotedQuote, Verdict } from '../orders/ledger.ts'
import { type OrderTerms, readOrder } from '../orders/order-terms.ts'
import type { ProviderClock } from '../quotes/provider-clock.ts'
import { unwritable } from '../upstream/fault.ts'
import { type AnswerHead, fetchWhole, type Sender } from '../upstream/fetch.ts'
import { readUpTo } from '../upstream/read-body.ts'
import { ClientGone } from '../upstream/request-body.ts'
import type { Upstream } from '../upstream/types.ts'
import type { Exchange } from './exchange.ts'
import { relayOrderAnswer } from './order-answer.ts'
import {
  expiredProblem,
  hasCoding,
  maxOrderBytes,
  refuseCoding,
  refuseLength,
  tooLarge,
  unknownProblem,
} from './order-problems.ts'
import type { PassThroughRoute } from './passthrough.ts'
import { type RateLimit, wasNeverSent } from './rate-limit.ts'
import { msUntilNextJudgement } from './waiting-order.ts'

/** What was decided of a float order, and why. */
export const floatOrderDecisions = [
  'forwarded-live',
  'forwarded-unknown',
  'refused-expired',
  'refused-unknown',
] as const
export type FloatOrderDecision = (typeof floatOrderDecisions)[number]

/** A float order that was not sent, with the quote that was too old, if one was known. */
export interface RefusedFloatOrder {
  order: OrderTerms
  exchange: Exchange
  verdict: Verdict
}

/** Receives what is to be counted and shown of float orders. */
export interface OrderObserver {
  decided(decision: FloatOrderDecision, quoteAgeMs: number | undefined): void
  refused(refused: RefusedFloatOrder): void
}

export interface OrderRouteOptions extends OrderJudgeOptions {
  upstream: Upstream
  clock: Clock
  providerClock: ProviderClock
  quoteIdFields: readonly string[]
  unknownQuote: 'forward' | 'refuse'
  totalTimeoutMs: number
  bodyIdleTimeoutMs: number
  rateLimit: RateLimit | undefined
  applicationOf: ApplicationOf
  swapHeaders(exchange: Exchange): string[]
  passThrough: PassThroughRoute
  /** Drops a quote that an accepted order has used; undefined: it may be handed out again. */
  useQuote: ((cacheKeys: Iterable<string>, quote: NotedQuote) => void) | undefined
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
  /** POST /v3/orders/float. */
  floatOrder(exchange: Exchange): Promise<void>
  /** POST /v3/orders: passes, unless it names a quote, which only a float order may use. */
  plainOrder(exchange: Exchange): Promise<void>
  /** Judges a float order as it would be judged now, without counting, sending or remembering anything. */
  explain(body: Buffer, application: string | undefined): Promise<OrderExplanation>
}

export function createOrderRoute(options: OrderRouteOptions): OrderRoute {
  const { clock, ledger, observer, providerClock, upstream } = options
  const { recall, judge } = createOrderJudge(options)

  function ageOf(quote: NotedQuote): number {
    return Math.max(0, clock.nowMs() - quote.notedAtMs)
  }

  /** What to do with an order now: send it, with the quote that it uses if one is known, or refuse it. */
  function decide(
    judged: Judged,
    exchange: Exchange,
  ): { quote: NotedQuote | undefined } | { refusal: Problem } {
    const { order, othersKnown } = judged
    const verdict = judge(judged)
    exchange.outcome = { how: 'order-sent', why: reasonOf(verdict, othersKnown) }
    switch (verdict.state) {
      case 'live':
        return { quote: verdict.quote }
      case 'expired':
        observer.decided('refused-expired', ageOf(verdict.quote))
        observer.refused({ order, exchange, verdict })
        return { refusal: expiredProblem(order, verdict.quote, verdict.expiredForMs) }
      case 'unknown':
        if (options.unknownQuote === 'forward' || !othersKnown) return { quote: undefined }
        observer.decided('refused-unknown', undefined)
        observer.refused({ order, exchange, verdict })
        return { refusal: unknownProblem() }
    }
  }

  /** Judges an order once more when it goes out, and lets go of its quote when it was accepted. */
  class OrderSender implements Sender {
    readonly #judged: Judged
    readonly #exchange: Exchange
    #used: NotedQuote | undefined

    constructor(judged: Judged, exchange: Exchange) {
      this.#judged = judged
      this.#exchange = exchange
    }

    /** An order that waited for a connection is judged when it goes out, not only when it came. */
    objection(): Error | undefined {
      const decision = this.#decideNow()
      if ('refusal' in decision) return decision.refusal
      this.#used = decision.quote
      observer.decided(this.#used ? 'forwarded-live' : 'forwarded-unknown', this.#used && ageOf(this.#used))
      return undefined
    }

    /** An order that waits is refused at the instant at which its quote expires. */
    whileWaiting(): { objection: Error } | { askAgainInMs: number } {
      const decision = this.#decideNow()
      if ('refusal' in decision) return { objection: decision.refusal }
      return { askAgainInMs: msUntilNextJudgement(decision.quote, options) }
    }

    #decideNow(): { quote: NotedQuote | undefined } | { refusal: Error } {
      if (!this.#exchange.response.destroyed) return decide(this.#judged, this.#exchange)
      return { refusal: new ClientGone('the client left before its order was sent', { maybeSeen: false }) }
    }

    /** A 2xx head means that the order was accepted, whatever becomes of the rest of the answer. */
    answerBegan(head: AnswerHead): void {
      // A refusal may come from an edge server with another clock.
      if (head.status < 200 || head.status >= 300) return
      providerClock.observe(head)
      if (this.#used !== undefined) options.useQuote?.(ledger.cacheKeysOf(this.#used), this.#used)
    }
  }

  async function floatOrder(exchange: Exchange): Promise<void> {
    const { request, response } = exchange
    const headers = options.swapHeaders(exchange)
    refuseCoding(request.rawHeaders)
    refuseLength(request.rawHeaders)
    const { bytes, rest } = await readUpTo(request, {
      maxBytes: maxOrderBytes,
      idleTimeoutMs: options.bodyIdleTimeoutMs,
    })
    if (rest !== undefined) {
      // Otherwise it would keep the refusal from reading the rest of the request.
      rest.destroy()
      throw tooLarge()
    }
    const { order, problem } = readOrder(bytes, { quoteIdFields: options.quoteIdFields })
    if (problem !== undefined) throw new Problem('bad-order', { detail: problem })

    // The store is asked even if a live quote is known here: that one may expire while the order waits, and another
    // replica may know of a quote that expires later.
    const judged = await recall(order, briefApplication(options.applicationOf(request.rawHeaders)))
    // An order that is too late already is refused without a connection, and whether or not the upstream works.
    const decision = decide(judged, exchange)
    if ('refusal' in decision) throw decision.refusal
    await options.rateLimit?.count(exchange)
    const { answer } = fetchWhole({
      upstream,
      clock,
      totalTimeoutMs: options.totalTimeoutMs,
      request: { kind: 'float-order', method: 'POST', target: exchange.target, headers, body: bytes },
      sender: new OrderSender(judged, exchange),
    })
    answer.catch((error) => {
      if (error instanceof Problem || wasNeverSent(error)) options.rateLimit?.giveBack(exchange)
    })
    // The answer is read to its end even if the client leaves: a quote that was used must be forgotten.
    const whole = await answer
    exchange.upstreamMs = whole.receivedAtMs - whole.sentAtMs
    if (response.destroyed) return
    try {
      relayOrderAnswer(exchange, whole)
    } catch (error) {
      throw unwritable(upstream.name, error)
    }
  }

  async function plainOrder(exchange: Exchange): Promise<void> {
    const { bytes, rest } = await readUpTo(exchange.request, {
      maxBytes: maxOrderBytes,
      idleTimeoutMs: options.bodyIdleTimeoutMs,
    })
    if (rest === undefined && !hasCoding(exchange.request.rawHeaders)) await refuseQuoteId(bytes)
    // The client may have left while the store was asked; relaying would wait for ever for the client to read.
    if (exchange.response.destroyed) return
    try {
      options.passThrough(exchange, rest ?? bytes)
    } catch (error) {
      rest?.destroy()
      throw error
    }
  }

  async function refuseQuoteId(bytes: Buffer): Promise<void> {
    const { order } = readOrder(bytes, { quoteIdFields: options.quoteIdFields })
    if (order === undefined || order.quoteIds.length === 0) return
    await options.sharedLedger.recall({ ...order, fromAmount: undefined }, undefined)
    const id = order.quoteIds.find((quoteId) => ledger.findById(quoteId) !== undefined)
    if (id === undefined) return
    throw new Problem('float-order-required', {
      detail: 'This order names a quote. An order for a quote goes to POST /v3/orders/float.',
      members: { quoteId: id, use: '/v3/orders/float' },
    })
  }

  return {
    floatOrder,
    plainOrder,
    async explain(body, application) {
      const { order, problem } = readOrder(body, { quoteIdFields: options.quoteIdFields })
      if (problem !== undefined) return { problem }
      const judged = await recall(order, application)
      return { order, verdict: judge(judged), othersKnown: judged.othersKnown }
    },
  }
}

function reasonOf(verdict: Verdict, othersKnown: boolean): string {
  if (verdict.state === 'unknown' && !othersKnown)
    return 'What other replicas know of the order could not be asked, and no quote seen here decides.'
  if (verdict.state === 'unknown') return 'The order matches no quote that was seen here.'
  return `The order matches a quote by its ${verdict.matchedBy}; the quote is ${verdict.state}.`
}
