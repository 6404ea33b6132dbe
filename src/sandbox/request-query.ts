import type { Request } from 'express'

/** Read from the raw target: URLSearchParams never throws and makes no objects out of `amount[x]`. */
export function queryOf(request: Request): URLSearchParams {
  const start = request.originalUrl.indexOf('?')
  return new URLSearchParams(start === -1 ? '' : request.originalUrl.slice(start))
}
