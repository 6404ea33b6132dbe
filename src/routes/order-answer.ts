import { writeReceivedHead } from '../http/answer.ts'
import { UpstreamFailure } from '../http/failure.ts'
import { addLength, answerHeaders } from '../http/headers.ts'
import { ownRequestId } from '../http/ids.ts'
import { Problem, problemOf } from '../http/problem.ts'
import type { OrderTerms } from '../orders/order-terms.ts'
import type { Exchange } from '../server/exchange.ts'
import type { WholeAnswer } from '../upstream/fetch.ts'
import { rateLimitFields } from './rate-limit.ts'

/** Longer than the lookup of any address. Only the caller's own mistake is longer, and a target has a limit here. */
const maxLookupLength = 2_048

/** Whether the provider accepted an order, whatever becomes of the body of its answer. */
export function isAccepted(status: number): boolean {
  return status >= 200 && status < 300
}

/** Whether it may have: with 502 and 504 an edge of the provider gave up on what is behind it. */
export function mayBeAccepted(status: number): boolean {
  return isAccepted(status) || status === 502 || status === 504
}

/** The provider's answer to an order, untouched. */
export function relayAnswer(exchange: Exchange, answer: WholeAnswer): void {
  const { status, reason, rawHeaders, body } = answer
  const { response } = exchange
  const headers = answerHeaders(status, rawHeaders)
  headers.push(...ownRequestId(headers, exchange.id))
  addLength(headers, { status, body })
  if (exchange.rateLimit !== undefined) headers.push(...rateLimitFields(exchange, headers))
  response.sendDate = false
  writeReceivedHead(response, { status, reason, headers })
  response.end(body)
}

/**
 * The error of an order that the provider may have received, with what its client can do to learn the outcome. `order`
 * is undefined if its body was not read, and `status` 0 if no head of an answer was received.
 */
export function orderFailure(
  error: unknown,
  order: Pick<OrderTerms, 'toAddress'> | undefined,
  status = 0,
): unknown {
  if (!(error instanceof UpstreamFailure) || !error.maybeSeen) return error
  const { slug, detail, headers, members, retryable } = problemOf(error, 'POST')
  const accepted = isAccepted(status)
  const lookup = lookupOf(order?.toAddress)
  const what = accepted
    ? `The swap API accepted this order (${status}), but the rest of its answer was lost or is invalid. Do not send the order again.`
    : detail
  return new Problem(slug, {
    detail: lookup === undefined ? what : `${what} Look it up at \`lookup\`.`,
    members: { ...members, ...(accepted && { accepted }), ...(lookup !== undefined && { lookup }) },
    headers,
    retryable,
    cause: error,
  })
}

/** The path that lists the orders to an address. Half of a surrogate pair is in no address, and cannot be encoded. */
function lookupOf(toAddress: string | undefined): string | undefined {
  if (toAddress === undefined || /\p{Surrogate}/u.test(toAddress)) return undefined
  const lookup = `/v3/orders?toAddress=${encodeURIComponent(toAddress)}`
  return lookup.length > maxLookupLength ? undefined : lookup
}
