import { UpstreamFailure, type UpstreamFault } from '../http/problem.ts'

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
  UND_ERR_HEADERS_TIMEOUT: 'http_response_timeout',
  UND_ERR_BODY_TIMEOUT: 'http_response_timeout',
  UND_ERR_HEADERS_OVERFLOW: 'http_protocol_error',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'http_response_incomplete',
  ERR_INVALID_CHAR: 'http_protocol_error',
  ERR_HTTP_INVALID_STATUS_CODE: 'http_protocol_error',
  // undici, of a status below 100.
  ERR_ASSERTION: 'http_protocol_error',
}

/** OpenSSL's, as Node names them; the last is for all that Node has no name for, such as a name constraint. */
const otherCertificateCodes: ReadonlySet<string> = new Set([
  'INVALID_CA',
  'INVALID_PURPOSE',
  'PATH_LENGTH_EXCEEDED',
  'HOSTNAME_MISMATCH',
  'UNSPECIFIED',
])

/** Faults that can only come before a connection was there, when no upstream can have seen the request. */
const beforeConnection: ReadonlySet<UpstreamFault> = new Set([
  'connection_refused',
  'connection_timeout',
  'connection_limit_reached',
  'destination_unavailable',
  'dns_error',
  'tls_certificate_error',
  'tls_protocol_error',
])

export interface HowFar {
  requestBegan: boolean
  /** The head of an answer was there, so that what broke is its body. */
  headCame: boolean
}

/** Names the fault behind an error of undici, the socket or the TLS layer. */
export function faultOf(error: unknown, { requestBegan, headCame }: HowFar): UpstreamFault {
  const named = namedFault(error)
  // The kernel says ETIMEDOUT or EHOSTUNREACH of a connection that broke later, too.
  const fault = requestBegan && beforeConnection.has(named) ? 'connection_terminated' : named
  if (headCame) return fault === 'connection_terminated' ? 'http_response_incomplete' : fault
  // undici calls a head incomplete that it cannot read, once it has seen a length in it.
  return fault === 'http_response_incomplete' ? 'http_protocol_error' : fault
}

const ownCodes: ReadonlySet<unknown> = new Set([
  'UND_ERR_INVALID_ARG',
  'UND_ERR_NOT_SUPPORTED',
  'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH',
  'UND_ERR_DESTROYED',
  'UND_ERR_CLOSED',
  'EMFILE',
  'ENFILE',
])

/** Whether it says nothing of the upstream: a request that cannot be written, no descriptor left, shut down. */
export function isOurOwn(error: Error): boolean {
  return ownCodes.has((error as { code?: unknown }).code)
}

function namedFault(error: unknown): UpstreamFault {
  const { code, name, message } = (error ?? {}) as { code?: unknown; name?: string; message?: string }
  if (typeof code === 'string') {
    const known = faultByCode[code]
    if (known !== undefined) return known
    if (/CERT|^UNABLE_TO_/.test(code) || otherCertificateCodes.has(code)) return 'tls_certificate_error'
    if (code === 'EPROTO' || code.startsWith('ERR_SSL_')) return 'tls_protocol_error'
    if (code.startsWith('HPE_')) return 'http_protocol_error'
  }
  if (name === 'HTTPParserError') return 'http_protocol_error'
  // undici tells these two from a dead connection by their text alone.
  if (message === 'bad response' || message === 'bad upgrade') return 'http_protocol_error'
  return 'connection_terminated'
}

/** undici reads more kinds of head than Node writes, such as a control character in a reason phrase. */
export function unwritable(upstream: string, cause: unknown): UpstreamFailure {
  return new UpstreamFailure(upstream, { fault: 'http_protocol_error', maybeSeen: true, cause })
}
