import { headerValues } from '../http/headers.ts'
import { destroyUnlessRead } from '../http/lingering-close.ts'
import { Problem } from '../http/problem.ts'
import type { Exchange } from './exchange.ts'

const everyMethod = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'

/** Requests with these methods need no decision before the route, unless their target is bad or a quote's. */
export const plainMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'])

/**
 * What is decided before any route: targets that are refused, methods that are never passed on, and OPTIONS requests
 * that are meant for the gateway. True if the request has been answered.
 */
export function answeredByPolicy({ request, response, reading, area }: Exchange): boolean {
  const { method } = request
  if ('problem' in reading) throw new Problem('bad-target', { detail: reading.problem })
  if (method === 'TRACE' || method === 'CONNECT') {
    throw new Problem('method-not-allowed', {
      detail: `${method} is not relayed.`,
      headers: { Allow: everyMethod },
    })
  }
  if ('asterisk' in reading && method !== 'OPTIONS') {
    throw new Problem('bad-target', { detail: 'The target "*" is allowed with OPTIONS only.' })
  }
  if (area === 'quote' && method !== 'OPTIONS') {
    throw new Problem('method-not-allowed', {
      detail: 'Request a quote with GET.',
      headers: { Allow: 'GET, HEAD, OPTIONS' },
    })
  }
  // RFC 9110 7.6.2: with Max-Forwards: 0 this is the last recipient that the request may reach.
  const isForUs =
    'asterisk' in reading ||
    (method === 'OPTIONS' && /^0+$/.test(headerValues(request.rawHeaders, 'max-forwards')[0] ?? ''))
  if (!isForUs) return false
  response.writeHead(204, ['Allow', everyMethod])
  response.end()
  destroyUnlessRead(request)
  return true
}
