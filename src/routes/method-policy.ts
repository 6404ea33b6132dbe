import { headerValues } from '../http/headers.ts'
import { Problem } from '../http/problem.ts'
import { destroyUnlessRead } from '../http/problem-response.ts'
import type { Exchange } from './exchange.ts'

const everyMethod = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'

/**
 * What is decided before any route: targets that nobody may be given, methods that no gateway passes on,
 * and the OPTIONS requests that are meant for us. True when the request has been answered.
 */
export function screen({ request, response, reading }: Exchange): boolean {
  const { method } = request
  if ('problem' in reading) throw new Problem('bad-target', { detail: reading.problem })
  if (method === 'TRACE' || method === 'CONNECT') {
    throw new Problem('method-not-allowed', {
      detail: `${method} is never passed on.`,
      headers: { Allow: everyMethod },
    })
  }
  if ('asterisk' in reading && method !== 'OPTIONS') {
    throw new Problem('bad-target', { detail: 'Only OPTIONS may ask for "*".' })
  }
  // RFC 9110 7.6.2: the last hop that the request may reach is this one.
  const answeredHere =
    'asterisk' in reading ||
    (method === 'OPTIONS' && /^0+$/.test(headerValues(request.rawHeaders, 'max-forwards')[0] ?? ''))
  if (!answeredHere) return false
  response.writeHead(204, ['Allow', everyMethod])
  response.end()
  destroyUnlessRead(request)
  return true
}
