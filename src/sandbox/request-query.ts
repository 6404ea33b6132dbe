import type { Request } from 'express'

/** The query of the raw target. URLSearchParams never throws, and does not turn `amount[x]` into an object. */
export function queryOf(request: Request): URLSearchParams {
  const start = request.originalUrl.indexOf('?')
  return new URLSearchParams(start === -1 ? '' : request.originalUrl.slice(start))
}
