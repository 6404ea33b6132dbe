import { hash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import type { RequestHandler } from 'express'
import { headerValues } from '../http/headers.ts'
import type { OperationsParts } from './parts.ts'

/** full: sees request details and may run actions. reading: sees only the gateway's state. */
export type Level = 'full' | 'reading'

/** Thrown if a request may not go on. The message is the answer. */
export class Refused extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

export interface Access
  extends Record<'refuseHost' | 'refuseForeignPage' | 'refuseAction', RequestHandler> {
  levelOf(request: IncomingMessage): Level
}

/** A page of another origin needs a CORS preflight for this header, which is never granted. */
const consoleHeader = 'x-quotegate-console'

/** Each `refuse…` throws `Refused`, or lets the request go on. */
export function createAccess(
  config: {
    readonly production: boolean
    readonly admin: Pick<OperationsParts['config']['admin'], 'allowedHosts'>
  },
  /** ADMIN_TOKEN, which may be read again. */
  secrets: Pick<OperationsParts['secrets'], 'adminToken'>,
): Access {
  const { production } = config
  const names = new Set(['localhost', ...config.admin.allowedHosts])

  const refuseHost: RequestHandler = ({ rawHeaders, url }, _response, next) => {
    const [host = '', ...others] = headerValues(rawHeaders, 'host')
    const name = hostName(host)
    const isAllowed = isIP(name) !== 0 || names.has(name)
    // A target in absolute form names a second host.
    if (others.length === 0 && url.startsWith('/') && isAllowed) return next()
    // DNS rebinding: once evil.example resolves to our address, its page is same-origin here, but cannot change the
    // name in Host.
    throw new Refused(
      421,
      'This answers to an IP address, to localhost, or to a name in ADMIN_ALLOWED_HOSTS, and to no other Host.',
    )
  }

  const refuseForeignPage: RequestHandler = ({ headers }, _response, next) => {
    const site = headers['sec-fetch-site']
    const foreign = site !== undefined && site !== 'same-origin' && site !== 'none'
    const { origin, host = '' } = headers
    // Schemes may differ: a proxy in front may terminate TLS.
    const otherOrigin =
      origin !== undefined && origin.replace(/^https?:\/\//, '') !== host
    if (foreign || otherOrigin)
      throw new Refused(
        403,
        'This is for the console itself, not for a page of another origin.',
      )
    next()
  }

  function levelOf({ headers: { authorization } }: IncomingMessage): Level {
    const { adminToken } = secrets
    if (adminToken === undefined) return production ? 'reading' : 'full'
    if (authorization === undefined) return 'reading'
    const expected = digest(`Bearer ${adminToken}`)
    // RFC 9110 11.1: a scheme's name is case-insensitive.
    if (timingSafeEqual(digest(authorization.replace(/^bearer +/i, 'Bearer ')), expected))
      return 'full'
    throw new Refused(401, 'This is not the ADMIN_TOKEN.')
  }

  const refuseAction: RequestHandler = (request, _response, next) => {
    if (request.headers[consoleHeader] === undefined)
      throw new Refused(403, `An action needs the header ${consoleHeader}: 1.`)
    if (levelOf(request) === 'full') return next()
    throw secrets.adminToken === undefined
      ? new Refused(403, 'In production without ADMIN_TOKEN the console is read-only.')
      : new Refused(401, 'An action needs the ADMIN_TOKEN: Authorization: Bearer …')
  }

  return { refuseHost, refuseForeignPage, levelOf, refuseAction }
}

/** Texts are hashed, because timingSafeEqual compares only buffers of equal length. */
function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}

function hostName(host: string): string {
  const bracketed = /^\[([^\]]*)\](?::\d*)?$/.exec(host)
  if (bracketed !== null)
    return isIP(bracketed[1] ?? '') === 6 ? (bracketed[1] ?? '') : ''
  return host.replace(/:\d*$/, '').replace(/\.$/, '').toLowerCase()
}
