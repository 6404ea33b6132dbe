import { hash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import type { RequestHandler, Response } from 'express'

export interface AccessOptions {
  /** ADMIN_TOKEN. */
  token: string | undefined
  /** ADMIN_ALLOWED_HOSTS: names, lower case, without ports. */
  allowedHosts: readonly string[]
  production: boolean
}

/** full: may see request details and act. reading: sees how the gateway is, and no more. */
export type Level = 'full' | 'reading'

export interface Refused {
  status: number
  error: string
}

export interface Access {
  readonly needsToken: boolean
  /** Why nothing is answered at all, if so. */
  refuseHost(request: IncomingMessage): Refused | undefined
  refuseForeignPage(request: IncomingMessage): Refused | undefined
  levelOf(request: IncomingMessage): Level | Refused
  refuseAction(request: IncomingMessage): Refused | undefined
}

/** A page of another origin can send it only after a preflight, which is never answered. */
const consoleHeader = 'x-quotegate-console'

export function createAccess({ token, allowedHosts, production }: AccessOptions): Access {
  const names = new Set(['localhost', ...allowedHosts])
  const expected = token === undefined ? undefined : digest(`Bearer ${token}`)

  function isOurs(host: string): boolean {
    return isIP(host) !== 0 || names.has(host)
  }

  function refuseHost({ rawHeaders, url = '' }: IncomingMessage): Refused | undefined {
    const hosts = rawHeaders.filter((_, index) => isNamed(rawHeaders, index - 1, 'host'))
    // In absolute form the target would name a host of its own.
    if (hosts.length === 1 && url.startsWith('/') && isOurs(hostName(hosts[0] ?? ''))) return undefined
    // DNS rebinding: a page of evil.example whose name now resolves to us is same-origin to its own script. The
    // one thing it cannot change is the name in Host.
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
    // A proxy that ends TLS in front of us changes the scheme, and nothing else.
    const otherOrigin = origin !== undefined && origin.replace(/^https?:\/\//, '') !== host
    if (!foreign && !otherOrigin) return undefined
    return { status: 403, error: 'This is for the console itself, not for a page of another origin.' }
  }

  function levelOf({ headers: { authorization } }: IncomingMessage): Level | Refused {
    if (expected === undefined) return production ? 'reading' : 'full'
    if (authorization === undefined) return 'reading'
    // RFC 9110 11.1: the name of a scheme has no case of its own.
    if (timingSafeEqual(digest(authorization.replace(/^bearer +/i, 'Bearer ')), expected)) return 'full'
    return { status: 401, error: 'This is not the ADMIN_TOKEN.' }
  }

  return {
    needsToken: expected !== undefined,
    refuseHost,
    refuseForeignPage,
    levelOf,
    refuseAction(request) {
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

/** Answers what the check refuses, and lets everything else on. */
export function unlessRefused(check: (request: IncomingMessage) => Refused | undefined): RequestHandler {
  return (request, response, next) => {
    const refused = check(request)
    if (refused === undefined) next()
    else answerRefused(response, refused)
  }
}

export function answerRefused(response: Response, { status, error }: Refused): void {
  // RFC 9110 15.5.2: a 401 says how to do better. No browser asks a person for a Bearer.
  if (status === 401) response.setHeader('WWW-Authenticate', 'Bearer')
  response.status(status).json({ error })
}

/** Hashed, because only texts of one length can be compared in constant time. */
function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}

function isNamed(rawHeaders: readonly string[], index: number, lowerCaseName: string): boolean {
  return index >= 0 && index % 2 === 0 && rawHeaders[index]?.toLowerCase() === lowerCaseName
}

function hostName(host: string): string {
  const bracketed = /^\[([^\]]*)\](?::\d*)?$/.exec(host)
  if (bracketed !== null) return isIP(bracketed[1] ?? '') === 6 ? (bracketed[1] ?? '') : ''
  return host.replace(/:\d*$/, '').replace(/\.$/, '').toLowerCase()
}
