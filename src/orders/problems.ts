import { answerInOneWrite, writeReceivedHead } from '../http/answer.ts'
import { isZero } from '../http/decimal.ts'
import { ClientGone, UpstreamFailure } from '../http/failure.ts'
import { addLength, answerHeaders, lineBreak, ownRequestId } from '../http/headers.ts'
import { Problem, problemOf } from '../http/problem.ts'
import { briefText } from '../process/text.ts'
import type { Exchange } from '../server/exchange.ts'
import { rateLimitFields } from '../server/rate-limit.ts'
import { quoteHeader } from '../server/swap-headers.ts'
import { unwritable } from '../upstream/fault.ts'
import type { Verdict } from './guard.ts'
import type { OrderTerms } from './order-terms.ts'
import type { KeptAnswer } from './ports.ts'

/** An order is read whole before it is judged, so its size has a limit. */
const maxOrderBytes = 65_536
const maxKeyLength = 255

export function expiredProblem(
  order: OrderTerms,
  { quote, expiredForMs }: Extract<Verdict, { state: 'expired' }>,
): Problem {
  const stated = order.fromAmount
  const amount =
    stated === undefined || isZero(stated.canonical) ? quote.requestedAmount : stated.text
  // The ledger keeps a digest of a very long pair.
  const pairId =
    order.pair !== undefined && briefText(order.pair) === quote.pairId
      ? order.pair
      : quote.pairId
  // JSON can hold half of a surrogate pair, which encodeURIComponent refuses. Encoding to bytes replaces that half.
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

/** The headers of an order that are for the gateway. */
export const orderHeaders = [
  'content-encoding',
  'content-length',
  quoteHeader,
  'idempotency-key',
] as const

/**
 * Undefined: the header names no quote. Proxies join header lines with commas, so a comma may stand between two ids.
 */
export function quoteNamedIn(quoteLines: string | undefined): string | undefined {
  if (quoteLines === undefined) return undefined
  // Node has removed the blanks around the value, and reads each byte as one character.
  const text = Buffer.from(quoteLines, 'latin1').toString('utf8')
  const ids = text.split(lineBreak).filter((id) => id !== '')
  if (ids.length > 1 || ids[0]?.includes(',')) {
    throw new Problem('bad-order', {
      detail:
        'The request has more than one Quotegate-Quote, or one with a comma in it. Nothing was sent to the provider. ' +
        'Send the id of one quote; an id that has a comma goes into the body (ORDER_QUOTE_ID_FIELDS).',
    })
  }
  return ids[0]
}

/** The Idempotency-Key, in quotes as in the IETF draft, or bare. Undefined: the request has none. */
export function keyIn(keyLines: string | undefined): string | undefined {
  if (keyLines === undefined) return undefined
  const quoted = /^"((?:[^"\\]|\\["\\])*)"$/.exec(keyLines)
  const key = quoted === null ? keyLines : (quoted[1] ?? '').replace(/\\(.)/g, '$1')
  const isCut = quoted === null && keyLines.startsWith('"')
  // The line break between two header lines fails this test too.
  if (/^[\x21-\x7e]+$/.test(key) && key.length <= maxKeyLength && !isCut) return key
  throw new Problem('bad-idempotency-key', {
    detail:
      `The request has more than one Idempotency-Key, or one that is not 1 to ${maxKeyLength} visible ASCII ` +
      'characters. Nothing was sent to the provider.',
  })
}

const keyDetails = {
  'idempotency-key-reused':
    'Another order was sent with this Idempotency-Key. This request was not sent. Each order has a key of its own: if ' +
    'both are one click, look the first order up before you use a new key.',
  'order-in-progress':
    'The order with this Idempotency-Key is on its way. Ask again for its answer.',
  'order-outcome-unknown':
    'The order with this Idempotency-Key was sent, and its answer was lost. It is not sent again.',
  'order-answered':
    'The order with this Idempotency-Key was answered, with more than is kept. It is not sent again.',
  saturated:
    'Too many orders with an Idempotency-Key have no known answer, so no more can be kept apart. Nothing was sent to ' +
    'the provider.',
}
const retryAfter: { readonly [slug: string]: string } = {
  'order-in-progress': '1',
  saturated: '60',
}

/** `lookup`: shown unless the order is still on its way. */
export function keyProblem(slug: keyof typeof keyDetails, lookup?: string): Problem {
  const seconds = retryAfter[slug]
  const isShown = lookup !== undefined && seconds === undefined
  return new Problem(slug, {
    detail: isShown ? `${keyDetails[slug]} Look it up at \`lookup\`.` : keyDetails[slug],
    members: isShown ? { lookup } : {},
    headers: seconds === undefined ? {} : { 'Retry-After': seconds },
  })
}

export function hasCoding(codingLines = ''): boolean {
  return codingLines.split(lineBreak).some((line) => !/^\s*(?:identity\s*)?$/i.test(line))
}

/** Refuses an order by its headers alone. */
export function refuseUnread(
  codingLines: string | undefined,
  length: string | undefined,
): void {
  if (hasCoding(codingLines)) {
    throw new Problem('content-coding', {
      detail: 'The gateway reads orders, so send the order without a Content-Encoding.',
      headers: { 'Accept-Encoding': 'identity' },
    })
  }
  if (Number(length ?? 0) > maxOrderBytes) throw tooLarge()
}

export function tooLarge(): Problem {
  return new Problem('order-too-large', {
    detail: `The order has more than ${maxOrderBytes} bytes. Nothing was sent to the provider.`,
  })
}

/** Whether the provider may have an order that failed with this error. An unexpected error counts as yes. */
export function mayBeSent(error: unknown): boolean {
  const cause = error instanceof Problem ? error.cause : error
  if (cause instanceof UpstreamFailure || cause instanceof ClientGone)
    return cause.maybeSeen
  return !(error instanceof Problem)
}

export function relayAnswer(
  exchange: Exchange,
  { status, reason, rawHeaders, body }: KeptAnswer,
  order: OrderTerms | undefined,
): void {
  const { response } = exchange
  if (response.destroyed) return
  const headers = answerHeaders(status, rawHeaders)
  headers.push(...ownRequestId(headers, exchange.id))
  addLength(headers, { status, body })
  if (exchange.rateLimit !== undefined)
    headers.push(...rateLimitFields(exchange, headers))
  response.sendDate = false
  const head = { status, reason, headers }
  if (answerInOneWrite(response, head, body)) return
  try {
    writeReceivedHead(response, head)
  } catch (error) {
    throw orderFailure(unwritable('swap', error), order, status)
  }
  response.end(body)
}

/** The lookup of a real address is shorter. */
const maxLookupLength = 2_048

/** Whether the provider accepted an order, even if the body of its answer is lost. */
function isAccepted(status: number): boolean {
  return status >= 200 && status < 300
}

/** Whether the provider may have accepted the order: with 502 and 504 its edge gave up on what is behind it. */
export function mayBeAccepted(status: number): boolean {
  return isAccepted(status) || status === 502 || status === 504
}

/**
 * The error of an order that the provider may have received, with a way to learn the outcome. `order` undefined: its
 * body was not read. `status` 0: no head came.
 */
export function orderFailure(
  error: unknown,
  order: Pick<OrderTerms, 'toAddress'> | undefined,
  status = 0,
): unknown {
  if (!(error instanceof UpstreamFailure) || !error.maybeSeen) return error
  const lookup = lookupOf(order?.toAddress)
  const problem = problemOf(error, 'POST', lookup)
  if (!isAccepted(status)) return problem
  const { slug, headers, members, retryable } = problem
  const accepted =
    `The swap API accepted this order (${status}), but the rest of its answer was lost or is invalid. Do not send ` +
    'the order again.'
  return new Problem(slug, {
    detail: lookup === undefined ? accepted : `${accepted} Look it up at \`lookup\`.`,
    members: { ...members, accepted: true },
    headers,
    retryable,
    cause: error,
  })
}

/** Half of a surrogate pair cannot be encoded, and is in no address. */
export function lookupOf(toAddress: string | undefined): string | undefined {
  if (toAddress === undefined || /\p{Surrogate}/u.test(toAddress)) return undefined
  const lookup = `/v3/orders?toAddress=${encodeURIComponent(toAddress)}`
  return lookup.length > maxLookupLength ? undefined : lookup
}
