import { headerValues } from '../http/headers.ts'
import { Problem } from '../http/problem.ts'
import type { NotedQuote } from '../orders/ledger.ts'
import type { OrderTerms } from '../orders/order-terms.ts'
import { isZero } from '../quotes/decimal.ts'

/** An order is read whole before it is judged, so its size has a limit. */
export const maxOrderBytes = 65_536

export function expiredProblem(order: OrderTerms, quote: NotedQuote, expiredForMs: number): Problem {
  const stated = order.fromAmount
  const amount = stated === undefined || isZero(stated.canonical) ? quote.requestedAmount : stated.text
  // JSON can hold half of a surrogate pair, for which encodeURIComponent throws. Its way through bytes replaces it.
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

export function unknownProblem(): Problem {
  return new Problem('quote-unknown', {
    detail:
      'No quote that this gateway has served matches the order by id or by its terms (pairId, fromAmount, ' +
      'toAmount, App-Name). Ask for a quote here, then order.',
  })
}

export function hasCoding(rawHeaders: readonly string[]): boolean {
  return headerValues(rawHeaders, 'content-encoding').some((coding) => !/^\s*(?:identity)?\s*$/i.test(coding))
}

export function refuseCoding(rawHeaders: readonly string[]): void {
  if (!hasCoding(rawHeaders)) return
  throw new Problem('content-coding', {
    detail: 'An order is read before it is sent on, so it must come without a Content-Encoding.',
    headers: { 'Accept-Encoding': 'identity' },
  })
}

export function refuseLength(rawHeaders: readonly string[]): void {
  if (Number(headerValues(rawHeaders, 'content-length')[0] ?? 0) > maxOrderBytes) throw tooLarge()
}

export function tooLarge(): Problem {
  return new Problem('order-too-large', { detail: `An order has at most ${maxOrderBytes} bytes here.` })
}
