import { droppingNames, endToEndHeaders, headerValues } from '../http/headers.ts'
import { formatTraceparent, newSpanId, traceIdOf } from '../http/ids.ts'
import { shownTarget } from '../http/target.ts'
import type { Exchange } from '../server/exchange.ts'
import type { RequestTrace } from '../upstream/try-trace.ts'

/**
 * The trace context of a call for a quote or an order. With tracing it names our own span, which each try of a sampled
 * call adds for itself. Without tracing it is the client's, as received.
 */
export function traceHeaders(exchange: Exchange): string[] {
  const { rawHeaders } = exchange.request
  const lines: string[] = []
  const copy = (name: string) => {
    for (const value of headerValues(rawHeaders, name)) lines.push(name, value)
  }
  if (!exchange.isTracing) copy('traceparent')
  else if (exchange.span === undefined) {
    const traceId = exchange.traceId ?? ''
    lines.push('traceparent', formatTraceparent({ traceId, spanId: newSpanId(), sampled: false }))
  }
  // W3C Trace Context 3.3.1.1: without a valid `traceparent` it belongs to no trace.
  if (!exchange.isTracing || traceIdOf(rawHeaders) !== undefined) copy('tracestate')
  return lines
}

const drops = droppingNames(['traceparent', 'tracestate'])

/** The headers of an order, with that trace context in place of the client's. */
export function withTraceHeaders(headers: string[], exchange: Exchange): string[] {
  if (!exchange.isTracing) return headers
  return [...endToEndHeaders(headers, drops), ...traceHeaders(exchange)]
}

/** `isCarried`: whether the upstream is to know of the span, as with quotes and orders. */
export function traceOf(exchange: Exchange, isCarried: boolean): RequestTrace | undefined {
  const { span } = exchange
  return span && { span, isCarried, shownTarget: shownTarget(exchange.reading) ?? '' }
}
