import { ClientGone, UpstreamFailure, type UpstreamFault } from '../http/failure.ts'
import { Problem } from '../http/problem.ts'

const faultByCode: Record<string, UpstreamFault> = {
  ECONNREFUSED: 'connection_refused',
  UND_ERR_CONNECT_TIMEOUT: 'connection_timeout',
  ETIMEDOUT: 'connection_timeout',
  EHOSTUNREACH: 'destination_unavailable',
  ENETUNREACH: 'destination_unavailable',
  EADDRNOTAVAIL: 'destination_unavailable',
  EMFILE: 'connection_limit_reached',
  ENFILE: 'connection_limit_reached',
  ENOTFOUND: 'dns_error',
  EAI_AGAIN: 'dns_error',
  EAI_FAIL: 'dns_error',
  PROXY_REFUSED: 'destination_unavailable',
  PROXY_TIMEOUT: 'connection_timeout',
  UND_ERR_HEADERS_TIMEOUT: 'http_response_timeout',
  UND_ERR_BODY_TIMEOUT: 'http_response_timeout',
  UND_ERR_HEADERS_OVERFLOW: 'http_protocol_error',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'http_response_incomplete',
  ERR_INVALID_CHAR: 'http_protocol_error',
  ERR_HTTP_INVALID_STATUS_CODE: 'http_protocol_error',
  // undici's code for a status below 100.
  ERR_ASSERTION: 'http_protocol_error',
}

/** OpenSSL's codes, as Node names them. UNSPECIFIED: an error without a name in Node, such as a name constraint. */
const otherCertificateCodes: ReadonlySet<string> = new Set([
  'INVALID_CA',
  'INVALID_PURPOSE',
  'PATH_LENGTH_EXCEEDED',
  'HOSTNAME_MISMATCH',
  'UNSPECIFIED',
])

/** The upstream cannot have seen a request that failed with one of these. */
const beforeConnection: ReadonlySet<UpstreamFault> = new Set([
  'connection_refused',
  'connection_timeout',
  'connection_limit_reached',
  'destination_unavailable',
  'dns_error',
  'tls_certificate_error',
  'tls_protocol_error',
])

/** Faults of connecting that show quickly and may soon be gone. */
export const quickFaults: ReadonlySet<UpstreamFault> = new Set([
  'connection_refused',
  'connection_terminated',
  'destination_unavailable',
  'dns_error',
  'tls_protocol_error',
])
/** Faults that count against the upstream. With `http_protocol_error` it did answer. */
export const countedFaults: ReadonlySet<UpstreamFault> = new Set([
  ...quickFaults,
  'connection_timeout',
  'tls_certificate_error',
  'http_response_timeout',
  'http_response_incomplete',
])

/**
 * Names the fault behind an error of undici, the socket or TLS, by how far the request got. `headReceived`: the
 * answer's body broke.
 */
export function faultOf(
  error: unknown,
  { requestBegan, headReceived }: { requestBegan: boolean; headReceived: boolean },
): UpstreamFault {
  const named = namedFault(error)
  // The kernel also reports ETIMEDOUT or EHOSTUNREACH for a connection that breaks later.
  const fault =
    requestBegan && beforeConnection.has(named) ? 'connection_terminated' : named
  if (headReceived)
    return fault === 'connection_terminated' ? 'http_response_incomplete' : fault
  // undici calls an unreadable head incomplete once it has seen a length.
  return fault === 'http_response_incomplete' ? 'http_protocol_error' : fault
}

const localCodes: ReadonlySet<unknown> = new Set([
  'UND_ERR_INVALID_ARG',
  'UND_ERR_NOT_SUPPORTED',
  'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH',
  'UND_ERR_DESTROYED',
  'UND_ERR_CLOSED',
  'EMFILE',
  'ENFILE',
])

/** Whether the gateway itself failed: an unwritable request, no free descriptor, a shutdown. */
export function isLocalError(error: Error): boolean {
  return localCodes.has((error as { code?: unknown }).code)
}

function namedFault(error: unknown): UpstreamFault {
  const { code, name, message } = (error ?? {}) as {
    code?: unknown
    name?: string
    message?: string
  }
  if (typeof code === 'string') {
    const known = faultByCode[code]
    if (known !== undefined) return known
    if (/CERT|^UNABLE_TO_/.test(code) || otherCertificateCodes.has(code))
      return 'tls_certificate_error'
    if (code === 'EPROTO' || code.startsWith('ERR_SSL_')) return 'tls_protocol_error'
    if (code.startsWith('HPE_')) return 'http_protocol_error'
  }
  if (name === 'HTTPParserError') return 'http_protocol_error'
  // Only their text tells these two from a dead connection.
  if (message === 'bad response' || message === 'bad upgrade')
    return 'http_protocol_error'
  return 'connection_terminated'
}

/** undici has read an answer that Node cannot write: its reason phrase has a control character. */
export function unwritable(upstream: string, cause: unknown): UpstreamFailure {
  return new UpstreamFailure(upstream, {
    fault: 'http_protocol_error',
    maybeSeen: true,
    cause,
  })
}

export type CallOutcome = 'answered' | 'failed-status' | 'given-up' | UpstreamFault

export type CountedFailure = UpstreamFault | number

export function isForCaller(error: Error): boolean {
  return (
    error instanceof UpstreamFailure ||
    error instanceof Problem ||
    error instanceof ClientGone
  )
}

export function isCausedByCaller(error: Error): boolean {
  if (error instanceof ClientGone || error instanceof Problem) return true
  return (error as { code?: unknown }).code === 'UND_ERR_ABORTED'
}
