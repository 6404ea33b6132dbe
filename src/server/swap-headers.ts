import type { Users } from '../client/client-address.ts'
import {
  claimsClientAddress,
  droppingNames,
  endToEndHeaders,
  formatTraceparent,
  headerLines,
  headerValues,
  lineBreak,
  linesOf,
  newSpanId,
  ownRequestId,
  readTraceparent,
  wireName,
} from '../http/headers.ts'
import { formatForwarded } from '../http/ip-address.ts'
import { Problem } from '../http/problem.ts'
import type { Exchange } from './exchange.ts'

/** Names an order's quote, to the gateway alone. */
export const quoteHeader = 'quotegate-quote'

/**
 * Headers that the swap API gets if the caller sends none, by lower-case name. A map, because a header may be called
 * `constructor`.
 */
export function suppliedHeaders(
  swap: Record<'appName' | 'appVersion' | 'authorization', string | undefined>,
): Map<string, string> {
  const { appName, appVersion, authorization } = swap
  const all = { 'app-name': appName, 'app-version': appVersion, authorization }
  return new Map(
    Object.entries(all).flatMap(([name, value]) => (value ? [[name, value]] : [])),
  )
}

/** Given two App-Name headers, limits, ledger and provider might each use a different one. */
export function secondAppName(): Problem {
  return new Problem('malformed-request', {
    detail: 'There is more than one App-Name header.',
  })
}

const ownName = /^\s*(?:[A-Za-z0-9.]+\/)?\S+\s+quotegate(?:\s|$)/i

/** RFC 9110 7.6.3: two gateways in a row are a mistake, and a gateway that calls itself would never end. */
export function refuseLoop(viaLines: string): void {
  if (!viaLines.split(/[,\n]/).some((hop) => ownName.test(hop))) return
  const detail =
    'Via already names quotegate: the SWAP_BASE_URL of a gateway leads back to a gateway. Correct it.'
  const headers = { 'Proxy-Status': 'quotegate; error=proxy_loop_detected' }
  throw new Problem('loop-detected', { detail, headers })
}

// Node answers Expect itself, and the upstream has a Host of its own.
const neverForwarded = ['host', 'expect']
const dropsNeverForwarded = droppingNames(neverForwarded)
const dropsTrace = droppingNames(['traceparent', 'tracestate'])

/** Payments and webhooks: callers sign their exact bytes, so nothing is added or left out. */
export function untouchedHeaders({ request }: Exchange): string[] {
  const headers = endToEndHeaders(request.rawHeaders, dropsNeverForwarded)
  return request.method === 'OPTIONS' ? withFewerForwards(headers) : headers
}

/** Headers for the swap API: our Forwarded replaces the caller's, and what SWAP_… sets is supplied. */
export class SwapHeaders {
  readonly #users: Users
  readonly #supplied: ReadonlyMap<string, string>
  readonly #drops: (lowerCaseName: string) => boolean

  /** `forUsAlone`: lower-case names that trusted proxies send to the gateway alone. */
  constructor(
    supplied: ReadonlyMap<string, string>,
    forUsAlone: ReadonlySet<string>,
    users: Users,
  ) {
    this.#users = users
    this.#supplied = supplied
    this.#drops = droppingNames(
      [...neverForwarded, quoteHeader, ...forUsAlone],
      claimsClientAddress,
    )
  }

  readonly #dropsRequestIdToo = (name: string) =>
    name === 'x-request-id' || this.#drops(name)

  /** `isOrder`: with tracing, the trace context of `traceHeaders` replaces the caller's. */
  of(exchange: Exchange, { isOrder }: { isOrder: boolean }): string[] {
    const { rawHeaders, method } = exchange.request
    const { address } = exchange.identify(this.#users)
    const [appName, via] = linesOf(rawHeaders, ['app-name', 'via'])
    if (appName?.includes(lineBreak)) throw secondAppName()
    if (via !== undefined) refuseLoop(via)
    const headers = endToEndHeaders(
      rawHeaders,
      exchange.hasCallersId ? this.#drops : this.#dropsRequestIdToo,
    )
    for (const [name, value] of this.#supplied)
      if (headerLines(headers, name) === undefined) headers.push(wireName(name), value)
    // `Connection` may have removed the caller's request id.
    headers.push(...ownRequestId(headers, exchange.id))
    headers.push('Forwarded', formatForwarded(address))
    headers.push('Via', '1.1 quotegate')
    if (isOrder && exchange.isTracing)
      return [...endToEndHeaders(headers, dropsTrace), ...traceHeaders(exchange)]
    return method === 'OPTIONS' ? withFewerForwards(headers) : headers
  }
}

// RFC 9110 7.6.2: a gateway that passes an OPTIONS on decrements Max-Forwards.
function withFewerForwards(headers: string[]): string[] {
  return headers.map((part, index) =>
    index % 2 === 1 &&
    headers[index - 1]?.toLowerCase() === 'max-forwards' &&
    /^[1-9]\d{0,8}$/.test(part)
      ? String(Number(part) - 1)
      : part,
  )
}

/**
 * The trace context of a call for a quote or an order. With tracing it names our span, which each try of a sampled call
 * adds for itself. Without tracing it is the caller's, as received.
 */
export function traceHeaders(exchange: Exchange): string[] {
  const { rawHeaders } = exchange.request
  const lines: string[] = []
  if (!exchange.isTracing)
    for (const value of headerValues(rawHeaders, 'traceparent'))
      lines.push('traceparent', value)
  else if (exchange.span === undefined) {
    const traceId = exchange.traceId ?? ''
    lines.push(
      'traceparent',
      formatTraceparent({ traceId, spanId: newSpanId(), sampled: false }),
    )
  }
  // W3C Trace Context 3.3.1.1: a `tracestate` without a valid `traceparent` belongs to no trace.
  if (!exchange.isTracing || readTraceparent(rawHeaders) !== undefined)
    for (const value of headerValues(rawHeaders, 'tracestate'))
      lines.push('tracestate', value)
  return lines
}
