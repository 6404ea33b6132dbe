import { isZero } from '../http/decimal.ts'
import { headerValues } from '../http/headers.ts'
import { Problem } from '../http/problem.ts'
import type { NotedQuote } from '../journal/journal.ts'
import type { GuardRule, Verdict } from '../orders/guard.ts'
import type { OrderTerms } from '../orders/order-terms.ts'
import { briefText } from '../process/brief-text.ts'
import { quoteHeader } from './swap-headers.ts'

/** An order is read whole before it is judged, so its size has a limit. */
export const maxOrderBytes = 65_536

export function expiredProblem(order: OrderTerms, quote: NotedQuote, expiredForMs: number): Problem {
  const stated = order.fromAmount
  const amount = stated === undefined || isZero(stated.canonical) ? quote.requestedAmount : stated.text
  // The ledger keeps a digest of a very long pair.
  const pairId =
    order.pair !== undefined && briefText(order.pair) === quote.pairId ? order.pair : quote.pairId
  // JSON can hold half of a surrogate pair, for which encodeURIComponent throws. Its way through bytes replaces it.
  const pair = encodeURIComponent(Buffer.from(pairId).toString())
  return new Problem('quote-expired', {
    detail:
      'The quote of this order is too old. Nothing was sent to the provider. Request a new quote at ' +
      '`requote`, show it, and order again.',
    members: {
      quoteId: quote.id,
      pairId,
      expiry: quote.expiresAtMs,
      expiredForMs: Math.round(expiredForMs),
      requote: `/v3/pairs/${pair}/quotes?amount=${encodeURIComponent(amount)}`,
    },
  })
}

export function unknownProblem(): Problem {
  return new Problem('quote-unknown', {
    detail:
      'No quote of this gateway matches the order by id or by its terms (pairId, fromAmount, toAmount, App-Name). ' +
      'Nothing was sent to the provider. Request a quote here, then order.',
  })
}

/**
 * The id of the quote that the order's header names; undefined: it names none. Proxies join the lines of a header with
 * commas, so that a comma may stand between two ids.
 */
export function quoteNamedByHeader(rawHeaders: readonly string[]): string | undefined {
  const ids = headerValues(rawHeaders, quoteHeader)
    // Node has removed the blanks around the value, and reads each byte as one character.
    .map((line) => Buffer.from(line, 'latin1').toString('utf8'))
    .filter((id) => id !== '')
  if (ids.length > 1 || ids[0]?.includes(',')) {
    throw new Problem('bad-order', {
      detail:
        'The request has more than one Quotegate-Quote, or one with a comma in it. Nothing was sent to the provider. ' +
        'Send the id of one quote; an id that has a comma goes into the body (ORDER_QUOTE_ID_FIELDS).',
    })
  }
  return ids[0]
}

export function hasCoding(rawHeaders: readonly string[]): boolean {
  return headerValues(rawHeaders, 'content-encoding').some((line) => {
    const coding = line.trim().toLowerCase()
    return coding !== '' && coding !== 'identity'
  })
}

export function refuseCoding(rawHeaders: readonly string[]): void {
  if (!hasCoding(rawHeaders)) return
  throw new Problem('content-coding', {
    detail: 'The gateway reads orders, so send the order without a Content-Encoding.',
    headers: { 'Accept-Encoding': 'identity' },
  })
}

export function refuseLength(rawHeaders: readonly string[]): void {
  if (Number(headerValues(rawHeaders, 'content-length')[0] ?? 0) > maxOrderBytes) throw tooLarge()
}

export function tooLarge(): Problem {
  return new Problem('order-too-large', {
    detail: `The order has more than ${maxOrderBytes} bytes. Nothing was sent to the provider.`,
  })
}

/** What the console says of an order that was judged. */
export function reasonOf(verdict: Verdict, othersKnown: boolean): string {
  if (verdict.state !== 'unknown') return `${how[verdict.rule]} The quote is ${verdict.state}.`
  if (!othersKnown && verdict.rule !== 'id') return how['store-away']
  return verdict.rule === 'id' ? 'The order names a quote that this gateway has not seen.' : how[verdict.rule]
}

const how: Readonly<Record<GuardRule, string>> = {
  id: 'The order names a quote.',
  exact: 'The order states the toAmount of a quote.',
  pays: 'A live quote gives at least what the order states.',
  fallen: 'No live quote gives what the order states, and one that is over gave just that.',
  any: 'The order has the pair and fromAmount of a live quote.',
  none: 'No live quote has the pair and fromAmount of the order.',
  'store-away': 'The shared store is down, and no quote of this replica decides.',
  unreadable:
    'The client received a quote that the gateway could not read, and the order may be for that quote.',
  restored: 'Only quotes from before the restart match: some may be missing, or the clock may be wrong.',
}
