import { hash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import type { RequestHandler, Response } from 'express'
import { headerValues } from '../http/headers.ts'

export interface AccessOptions {
  /** ADMIN_TOKEN. */
  token: string | undefined
  /** ADMIN_ALLOWED_HOSTS: names, lower case, without ports. */
  allowedHosts: readonly string[]
  production: boolean
}

/** full: sees request details and may run actions. reading: sees only the gateway's state. */
export type Level = 'full' | 'reading'

export interface Refused {
  status: number
  error: string
}

/** Of an action that passed the checks below. */
export class ActionRefused extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

export type Access = ReturnType<typeof createAccess>

/** A page of another origin can send this header only after a CORS preflight, which is never granted. */
const consoleHeader = 'x-quotegate-console'

/** What each `refuse…` returns says why; undefined: the request may go on. */
export function createAccess({ token, allowedHosts, production }: AccessOptions) {
  const names = new Set(['localhost', ...allowedHosts])
  const expected = token === undefined ? undefined : digest(`Bearer ${token}`)

  const isAllowed = (host: string) => isIP(host) !== 0 || names.has(host)

  /** Refuses a Host that is not a name of this listener. */
  function refuseHost({ rawHeaders, url = '' }: IncomingMessage): Refused | undefined {
    const hosts = headerValues(rawHeaders, 'host')
    // A target in absolute form would name a second host.
    if (hosts.length === 1 && url.startsWith('/') && isAllowed(hostName(hosts[0] ?? ''))) return undefined
    // DNS rebinding: once evil.example resolves to our address, its page is same-origin with this listener. But the
    // page cannot change the name in Host.
    return {
      status: 421,
      error:
        'This answers to an IP address, to localhost, or to a name in ADMIN_ALLOWED_HOSTS, and to no other Host.',
    }
  }

  function refuseForeignPage({ headers }: IncomingMessage): Refused | undefined {
    const site = headers['sec-fetch-site']
    const foreign = site !== undefined && site !== 'same-origin' && site !== 'none'
    const { origin, host = '' } = headers
    // Only the schemes may differ: a proxy in front of us may terminate TLS.
    const otherOrigin = origin !== undefined && origin.replace(/^https?:\/\//, '') !== host
    if (!foreign && !otherOrigin) return undefined
    return { status: 403, error: 'This is for the console itself, not for a page of another origin.' }
  }

  function levelOf({ headers: { authorization } }: IncomingMessage): Level | Refused {
    if (expected === undefined) return production ? 'reading' : 'full'
    if (authorization === undefined) return 'reading'
    // RFC 9110 11.1: the name of an authentication scheme is case-insensitive.
    if (timingSafeEqual(digest(authorization.replace(/^bearer +/i, 'Bearer ')), expected)) return 'full'
    return { status: 401, error: 'This is not the ADMIN_TOKEN.' }
  }

  return {
    needsToken: expected !== undefined,
    refuseHost,
    refuseForeignPage,
    levelOf,
    refuseAction(request: IncomingMessage): Refused | undefined {
      if (request.headers[consoleHeader] === undefined) {
        return { status: 403, error: `An action needs the header ${consoleHeader}: 1.` }
      }
      const foreign = refuseForeignPage(request)
      if (foreign !== undefined) return foreign
      const level = levelOf(request)
      if (level === 'full') return undefined
      if (level !== 'reading') return level
      return expected === undefined
        ? { status: 403, error: 'In production without ADMIN_TOKEN the console is read-only.' }
        : { status: 401, error: 'An action needs the ADMIN_TOKEN: Authorization: Bearer …' }
    },
  }
}

/** Answers requests that `check` refuses, and passes all others on. */
export function unlessRefused(check: (request: IncomingMessage) => Refused | undefined): RequestHandler {
  return (request, response, next) => {
    const refused = check(request)
    if (refused === undefined) next()
    else answerRefused(response, refused)
  }
}

export function answerRefused(response: Response, { status, error }: Refused): void {
  // RFC 9110 15.5.2: a 401 must name a scheme. For Bearer, browsers show no login dialog.
  if (status === 401) response.setHeader('WWW-Authenticate', 'Bearer')
  response.status(status).json({ error })
}

/** Hashed, because timingSafeEqual compares only buffers of equal length. */
function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}

function hostName(host: string): string {
  const bracketed = /^\[([^\]]*)\](?::\d*)?$/.exec(host)
  if (bracketed !== null) return isIP(bracketed[1] ?? '') === 6 ? (bracketed[1] ?? '') : ''
  return host.replace(/:\d*$/, '').replace(/\.$/, '').toLowerCase()
}
