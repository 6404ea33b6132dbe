import { hasBegun } from '../http/answer.ts'
import type { Span } from '../process/span.ts'
import { cacheOf } from './access-log.ts'
import type { Ended, Exchange } from './exchange.ts'
import { shownTarget } from './exchange-log.ts'

// https://opentelemetry.io/docs/specs/semconv/http/http-spans/#http-server-span
const knownMethods: ReadonlySet<string> = new Set(
  'CONNECT DELETE GET HEAD OPTIONS PATCH POST PUT QUERY TRACE'.split(' '),
)

/** Says what became of the request, by OpenTelemetry's names for HTTP servers. */
export function endServerSpan(span: Span, exchange: Exchange, { status }: Ended): void {
  const { reading, request, response, outcome, missed } = exchange
  const { method = '' } = request
  const isKnown = knownMethods.has(method)
  const read = 'target' in reading ? reading : undefined
  span.name = `${isKnown ? method : 'HTTP'}${read?.route === undefined ? '' : ` ${read.route}`}`
  span.set('http.request.method', isKnown ? method : '_OTHER')
  if (!isKnown) span.set('http.request.method_original', method)
  span.set('http.route', read?.route)
  span.set('url.scheme', 'encrypted' in request.socket ? 'https' : 'http')
  span.set('url.path', read?.path)
  const shown = shownTarget(exchange)
  if (read !== undefined && shown !== undefined && shown.length > read.path.length)
    span.set('url.query', shown.slice(read.path.length + 1))
  span.set('network.protocol.version', request.httpVersion)
  if (hasBegun(response)) span.set('http.response.status_code', response.statusCode)
  span.set('quotegate.request_id', exchange.id)
  span.set('quotegate.cache', cacheOf(outcome) ?? (missed ? 'miss' : undefined))
  span.end(errorOf(exchange, status))
}

/** Undefined for 4xx, because those errors are the client's. */
function errorOf({ outcome }: Exchange, status: number): string | undefined {
  if (status === 0) return outcome?.how === 'problem' ? outcome.problem : 'broken_off'
  if (status < 500) return undefined
  return outcome?.how === 'problem' ? outcome.problem : String(status)
}
