import { type Clock, lookAt, orderLeftMs } from '../clock.ts'
import type { Events } from '../events.ts'
import { ClientGone } from '../http/failure.ts'
import type { Problem } from '../http/problem.ts'
import type { NotedQuote } from '../journal/journal.ts'
import {
  type Asked,
  considered,
  type DecidedOrder,
  decide as decideNow,
  type FloatOrderDecision,
  isInDoubt,
  type Verdict,
} from '../orders/guard.ts'
import type { Ledger } from '../orders/ledger.ts'
import type { Notes } from '../orders/notes.ts'
import type { OrderTerms } from '../orders/order-terms.ts'
import { inSpan } from '../process/span.ts'
import type { Exchange } from '../server/exchange.ts'
import type { AnswerHead, Sender } from '../upstream/fetch.ts'
import { mayBeAccepted, orderFailure } from './order-answer.ts'
import { expiredProblem, reasonOf, unknownProblem } from './order-problems.ts'

export interface OrderSenderOptions {
  clock: Clock
  ledger: Ledger
  expiryMarginMs: number
  expiredQuote: 'refuse' | 'report'
  unknownQuote: 'forward' | 'refuse'
  /** Drops a quote that an order has used, or may have used; undefined: it may be handed out again. */
  useQuote: Notes['use'] | undefined
  events: Events
}

/** An order with everything that it is judged by, so that it can be judged again without the shared store. */
export interface Judged extends Asked {
  readonly order: OrderTerms
}

/** How an order is counted that goes out. */
const sentAs = {
  live: 'forwarded-live',
  expired: 'reported-expired',
  unknown: 'forwarded-unknown',
} as const satisfies Record<Verdict['state'], FloatOrderDecision>

/** An order that does not wait for a connection goes out within this time, and mostly within a tenth of it. */
const judgedOnceMs = 20

type Decided = { verdict: Verdict } | { refusal: Problem }

interface OrderSender extends Sender {
  /** Throws why the order is not to be sent any more; else says when to ask again while it waits. */
  decide(): number
  /** The order was sent, and has no answer for its client. Returns the error that the client gets instead. */
  failed(error: unknown): unknown
}

interface OrderSenders {
  /** What to do with an order now: send it, with the quote that it uses if one is known, or refuse it. */
  decide(judged: Judged, exchange: Exchange): Decided
  senderOf(judged: Judged, verdict: Verdict, exchange: Exchange): OrderSender
}

/** Decides whether orders are sent, when they come and again when they go out. */
export function createOrderSenders(options: OrderSenderOptions): OrderSenders {
  const { clock, ledger } = options

  function decided(judged: Judged, verdict: Verdict, why: string): DecidedOrder {
    const quoteAgeMs = 'quote' in verdict ? Math.max(0, clock.nowMs() - verdict.quote.notedAtMs) : undefined
    return {
      order: judged.order,
      verdict,
      why,
      quoteAgeMs,
      considered: () => considered(ledger, judged.order, judged),
    }
  }

  function decide(judged: Judged, exchange: Exchange): Decided {
    const { order, othersKnown } = judged
    const verdict = decideNow(ledger, order, judged)
    const why = reasonOf(verdict, othersKnown)
    exchange.outcome = { how: 'order-sent', why }
    switch (verdict.state) {
      case 'live':
        return { verdict }
      case 'expired':
        if (options.expiredQuote === 'report') return { verdict }
        options.events.orderDecided(exchange, 'refused-expired', decided(judged, verdict, why))
        return { refusal: expiredProblem(order, verdict.quote, verdict.expiredForMs) }
      case 'unknown':
        // In all these cases a live quote that is not known here may be meant.
        if (options.unknownQuote === 'forward' || !othersKnown || isInDoubt(verdict)) return { verdict }
        options.events.orderDecided(exchange, 'refused-unknown', decided(judged, verdict, why))
        return { refusal: unknownProblem() }
    }
  }

  /** Whether it is as it was, if the order did not wait: a live quote may have come to its end. */
  function stands(verdict: Verdict): boolean {
    return verdict.state !== 'live' || orderLeftMs(verdict.quote, lookAt(clock)) > options.expiryMarginMs
  }

  /** Judges an order once more when it has waited, and evicts its quote when it was, or may have been, accepted. */
  class SenderOfOne implements OrderSender {
    readonly #judged: Judged
    readonly #exchange: Exchange
    #verdict: Verdict
    #judgedAtMs = performance.now()
    #used: NotedQuote | undefined
    #status = 0

    constructor(judged: Judged, verdict: Verdict, exchange: Exchange) {
      this.#judged = judged
      this.#verdict = verdict
      this.#exchange = exchange
    }

    /**
     * An order that waited for a connection is judged when it goes out, not only when it came. While it waits it is
     * refused at the instant at which its quote expires, unless it is only reported. One that does not wait is not judged
     * twice.
     */
    decide(): number {
      if (this.#exchange.response.destroyed)
        throw new ClientGone('the client left before its order was sent', { maybeSeen: false })
      if (performance.now() - this.#judgedAtMs >= judgedOnceMs || !stands(this.#verdict)) this.#judge()
      return msUntilNextJudgement(this.#verdict, options)
    }

    #judge(): void {
      this.#judgedAtMs = performance.now()
      const decided = decide(this.#judged, this.#exchange)
      if ('refusal' in decided) throw decided.refusal
      this.#verdict = decided.verdict
    }

    sent(): void {
      const verdict = this.#verdict
      this.#used = verdict.state === 'unknown' ? undefined : verdict.quote
      this.#exchange.times?.sent()
      const why = reasonOf(verdict, this.#judged.othersKnown)
      options.events.orderDecided(this.#exchange, sentAs[verdict.state], decided(this.#judged, verdict, why))
    }

    /** A 2xx head means that the order was accepted, whatever becomes of the rest of the answer. */
    answerBegan(head: AnswerHead): void {
      this.#status = head.status
      this.#exchange.times?.began()
      if (mayBeAccepted(head.status)) this.#useQuote()
    }

    failed(error: unknown): unknown {
      if (this.#status === 0) this.#useQuote()
      return orderFailure(error, this.#judged.order, this.#status)
    }

    #useQuote(): void {
      const used = this.#used
      // undici calls this on behalf of whichever request opened the connection.
      if (used !== undefined) inSpan(this.#exchange.span, () => options.useQuote?.(used))
    }
  }

  return { decide, senderOf: (judged, verdict, exchange) => new SenderOfOne(judged, verdict, exchange) }
}

/** What is known of the provider's quotes changes while an order waits for a connection. */
const maxMs = 1_000
/** The clock may be read at the very end of a quote, a moment before the guard reads it. */
const atTheEndMs = 1

/** When to judge a waiting order again that may be sent now: at the instant at which its quote is over, or sooner. */
export function msUntilNextJudgement(
  verdict: Verdict,
  { clock, expiryMarginMs }: { clock: Clock; expiryMarginMs: number },
): number {
  if (verdict.state !== 'live') return maxMs
  const leftMs = orderLeftMs(verdict.quote, lookAt(clock)) - expiryMarginMs
  return Math.min(maxMs, Math.max(atTheEndMs, Math.ceil(leftMs)))
}
