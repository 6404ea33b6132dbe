import type { Clock } from '../clock.ts'
import { addLength, answerHeaders, headerValues } from '../http/headers.ts'
import { Problem } from '../http/problem.ts'
import { writeReceivedHead } from '../http/whole-response.ts'
import type { FloatOrderDecision } from '../metrics/metrics.ts'
import { createOrderJudge, type Judged, type OrderJudgeOptions } from '../orders/judge.ts'
import type { NotedQuote, Verdict } from '../orders/ledger.ts'
import { type OrderTerms, readOrder } from '../orders/order-terms.ts'
import { isZero } from '../quotes/decimal.ts'
import type { ProviderClock } from '../quotes/provider-clock.ts'
import { unwritable } from '../upstream/fault.ts'
import { fetchWhole, type WholeAnswer } from '../upstream/fetch.ts'
import { readUpTo } from '../upstream/read-body.ts'
import { ClientGone, type RequestBody } from '../upstream/request-body.ts'
import type { Upstream } from '../upstream/upstream.ts'
import type { Exchange } from './exchange.ts'
import { type RateLimit, rateLimitFields, wasNeverSent } from './rate-limit.ts'

export interface OrderRouteOptions extends OrderJudgeOptions {
  upstream: Upstream
  clock: Clock
  providerClock: ProviderClock
  quoteIdFields: readonly string[]
  unknownQuote: 'forward' | 'refuse'
  totalTimeoutMs: number
  bodyIdleTimeoutMs: number
  rateLimit: RateLimit | undefined
  /** App-Name as the upstream sees it. */
  applicationOf(exchange: Exchange): string | undefined
  swapHeaders(exchange: Exchange): string[]
  passThrough(exchange: Exchange, body: Buffer | RequestBody): void
  /** An order that the upstream accepted has used this quote. */
  onUsed(quote: NotedQuote): void
  onDecision(decision: FloatOrderDecision, quoteAgeMs: number | undefined): void
  /** Told of an order that nothing was sent for, with the quote that was too old, if one was known. */
  onRefused(order: OrderTerms, exchange: Exchange, verdict: Verdict): void
}

/** What would become of an order. */
export type OrderExplanation =
  | { problem: string }
  | {
      problem?: undefined
      order: OrderTerms
      verdict: Verdict
      /** False: an unknown quote refuses nobody now. */
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

const orderBytesMost = 65_536

export function createOrderRoute(options: OrderRouteOptions): OrderRoute {
  const { clock, ledger, providerClock, upstream } = options
  const { recall, judge } = createOrderJudge(options)

  function ageOf(quote: NotedQuote): number {
    return Math.max(0, clock.nowMs() - quote.notedAtMs)
  }

  /** The quote that the order uses, if one is known; throws when the order must not go on. */
  function admit(judged: Judged, exchange: Exchange): NotedQuote | undefined {
    const { order, othersKnown } = judged
    const verdict = judge(judged)
    exchange.why = reasonOf(verdict, othersKnown)
    switch (verdict.state) {
      case 'live':
        return verdict.quote
      case 'expired':
        options.onDecision('refused-expired', ageOf(verdict.quote))
        options.onRefused(order, exchange, verdict)
        throw expiredProblem(order, verdict.quote, verdict.expiredForMs)
      case 'unknown':
        if (options.unknownQuote === 'forward' || !othersKnown) return undefined
        options.onDecision('refused-unknown', undefined)
        options.onRefused(order, exchange, verdict)
        throw new Problem('quote-unknown', {
          detail:
            'No quote that this gateway has served matches the order by id or by its terms (pairId, fromAmount, ' +
            'toAmount, App-Name). Ask for a quote here, then order.',
        })
    }
  }

  function expiredProblem(order: OrderTerms, quote: NotedQuote, expiredForMs: number): Problem {
    const stated = order.fromAmount
    const amount = stated === undefined || isZero(stated.canonical) ? quote.requestedAmount : stated.text
    // By its bytes: half of a surrogate pair, which JSON can spell, would be an error here.
    const pair = encodeURIComponent(Buffer.from(quote.pairId).toString())
    return new Problem('quote-expired', {
      detail:
        'The price of this order is no longer firm. Nothing was sent to the provider. Ask for a new quote at ' +
        '`requote`, show it, and order again.',
      members: {
        quoteId: quote.id,
        pairId: quote.pairId,
        expiry: quote.expiresAtMs,
        expiredForMs: Math.round(expiredForMs),
        requote: `/v3/pairs/${pair}/quotes?amount=${encodeURIComponent(amount)}`,
      },
    })
  }

  async function floatOrder(exchange: Exchange): Promise<void> {
    const { request, response } = exchange
    const headers = options.swapHeaders(exchange)
    refuseCoding(request.rawHeaders)
    refuseLength(request.rawHeaders)
    const { bytes, rest } = await readUpTo(request, {
      bytesMost: orderBytesMost,
      idleTimeoutMs: options.bodyIdleTimeoutMs,
    })
    if (rest !== undefined) {
      // Or it would hold up the reading that a refusal does.
      rest.destroy()
      throw tooLarge()
    }
    const { order, problem } = readOrder(bytes, { quoteIdFields: options.quoteIdFields })
    if (problem !== undefined) throw new Problem('bad-order', { detail: problem })

    // Even if a live quote is known: it may expire while the order waits for a connection, another one later.
    const judged = await recall(order, options.applicationOf(exchange))
    // What is too late by now needs no connection to be told so, nor an upstream that works.
    admit(judged, exchange)
    await options.rateLimit?.count(exchange)
    let used: NotedQuote | undefined
    const { answer } = fetchWhole({
      upstream,
      clock,
      totalTimeoutMs: options.totalTimeoutMs,
      request: { method: 'POST', target: exchange.target, headers, body: bytes },
      // And once more: an order that waited for a connection is judged when it goes out, not when it came.
      beforeSend() {
        if (response.destroyed)
          throw new ClientGone('the client left before its order was sent', { maybeSeen: false })
        used = admit(judged, exchange)
        options.onDecision(used ? 'forwarded-live' : 'forwarded-unknown', used && ageOf(used))
      },
      // Whatever becomes of the rest of the answer: the order was accepted.
      onHead(head) {
        // A refusal may be an edge's, by another clock.
        if (head.status < 200 || head.status >= 300) return
        providerClock.observe(head)
        if (used !== undefined) options.onUsed(used)
      },
    })
    answer.catch((error) => {
      // Refused or left alone when its turn came, or nobody to send it to.
      if (error instanceof Problem || wasNeverSent(error)) options.rateLimit?.giveBack(exchange)
    })
    // Read to its end even if the client leaves: a quote that was used must be forgotten.
    const whole = await answer
    exchange.upstreamMs = whole.receivedAtMs - whole.sentAtMs
    if (response.destroyed) return
    try {
      relay(exchange, whole)
    } catch (error) {
      throw unwritable(upstream.name, error)
    }
  }

  async function plainOrder(exchange: Exchange): Promise<void> {
    const { bytes, rest } = await readUpTo(exchange.request, {
      bytesMost: orderBytesMost,
      idleTimeoutMs: options.bodyIdleTimeoutMs,
    })
    if (rest === undefined && !hasCoding(exchange.request.rawHeaders)) await refuseQuoteId(bytes)
    // Its client may have left while the store was asked, and would be waited for without end to take the answer.
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
    await options.recall({ ...order, fromAmount: undefined }, undefined)
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

/** The upstream's answer, untouched. */
function relay(exchange: Exchange, { status, reason, rawHeaders, body }: WholeAnswer): void {
  const { response } = exchange
  const headers = answerHeaders(status, rawHeaders)
  addLength(headers, { status, body })
  headers.push(...rateLimitFields(exchange, headers))
  response.sendDate = false
  writeReceivedHead(response, { status, reason, headers })
  response.end(body)
}

function hasCoding(rawHeaders: readonly string[]): boolean {
  return headerValues(rawHeaders, 'content-encoding').some((coding) => !/^\s*(?:identity)?\s*$/i.test(coding))
}

function refuseCoding(rawHeaders: readonly string[]): void {
  if (!hasCoding(rawHeaders)) return
  throw new Problem('content-coding', {
    detail: 'An order is read before it is sent on, so it must come without a Content-Encoding.',
    headers: { 'Accept-Encoding': 'identity' },
  })
}

function refuseLength(rawHeaders: readonly string[]): void {
  if (Number(headerValues(rawHeaders, 'content-length')[0] ?? 0) > orderBytesMost) throw tooLarge()
}

function tooLarge(): Problem {
  return new Problem('order-too-large', { detail: `An order has at most ${orderBytesMost} bytes here.` })
}
