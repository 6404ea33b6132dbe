import type { Listener } from '../events.ts'
import { hasBegun } from '../http/answer.ts'
import { shownTarget } from '../http/target.ts'

// https://opentelemetry.io/docs/specs/semconv/http/http-spans/#http-server-span
const knownMethods: ReadonlySet<string> = new Set(
  'CONNECT DELETE GET HEAD OPTIONS PATCH POST PUT QUERY TRACE'.split(' '),
)

/** Says in the span what became of a request, by OpenTelemetry's names for HTTP servers. */
export const serverSpans: Listener = {
  requestEnded(exchange, status) {
    const { span, reading, request, response, cache, missed, problem } = exchange
    if (span === undefined) return
    const { method = '' } = request
    const isKnown = knownMethods.has(method)
    const read = 'target' in reading ? reading : undefined
    span.rename(
      `${isKnown ? method : 'HTTP'}${read?.route === undefined ? '' : ` ${read.route}`}`,
    )
    span.set('http.request.method', isKnown ? method : '_OTHER')
    if (!isKnown) span.set('http.request.method_original', method)
    span.set('http.route', read?.route)
    span.set('url.scheme', 'encrypted' in request.socket ? 'https' : 'http')
    span.set('url.path', read?.path)
    const shown = shownTarget(reading)
    if (read !== undefined && shown !== undefined && shown.length > read.path.length)
      span.set('url.query', shown.slice(read.path.length + 1))
    span.set('network.protocol.version', request.httpVersion)
    if (hasBegun(response)) span.set('http.response.status_code', response.statusCode)
    span.set('quotegate.request_id', exchange.id)
    span.set('quotegate.cache', cache ?? (missed ? 'miss' : undefined))
    span.end(errorOf(status, problem))
  },
  orderDecided({ span }, decision, { verdict }) {
    span?.set('quotegate.order.decision', decision)
    span?.set('quotegate.order.rule', verdict.rule)
  },
}

/** Undefined for 4xx, because those errors are the caller's. */
function errorOf(status: number, problem: string | undefined): string | undefined {
  if (status === 0) return problem ?? 'broken_off'
  return status < 500 ? undefined : (problem ?? String(status))
}
