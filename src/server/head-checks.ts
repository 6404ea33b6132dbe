import { type IncomingMessage, METHODS } from 'node:http'
import { Problem } from '../http/problem.ts'

const maxHeadBytes = 16_384
const maxTargetBytes = 8_192
export const maxHeaders = 200

// Node silently accepts RTSP/1.0 and ICE/1.0, too. Only HTTP's methods are served: SOURCE is ICE's.
const httpMethods = new Set(METHODS.filter((method) => method !== 'SOURCE'))
const invalidValue = /[^\t\x20-\x7e\x80-\xff]/
// RFC 9110 7.2 and RFC 3986 3.2: a name or address, perhaps a port; no user, no path.
const hostForm =
  /^(?:\[[0-9A-Fa-f:.]+\]|(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?$/

/** Nearly all requests name the same host, which needs one check. */
let lastHost = ''

/** Refuses what Node lets pass though the next server might read it differently. */
export function headRefusal(request: IncomingMessage): Problem | undefined {
  const { httpVersion, method = '', rawHeaders, url = '' } = request
  if (httpVersion !== '1.1' && httpVersion !== '1.0')
    return malformed('Only HTTP/1.0 and HTTP/1.1 are spoken here.')
  if (!httpMethods.has(method)) return malformed('This is not a method of HTTP.')
  if (url.length > maxTargetBytes) return targetTooLong()
  if (rawHeaders.length > maxHeaders * 2) return headTooLarge()

  let headBytes = url.length
  let hosts = 0
  let lengths = 0
  let codings = 0
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] as string
    const value = rawHeaders[index + 1] as string
    headBytes += name.length + value.length + 4
    if (invalidValue.test(value))
      return malformed(`The header ${name} holds a control character.`)
    switch (name.length) {
      case 4:
        if (name.toLowerCase() !== 'host') break
        hosts += 1
        if (value !== lastHost && !hostForm.test(value))
          return malformed('The Host header is not a host.')
        lastHost = value
        break
      case 14:
        if (name.toLowerCase() !== 'content-length') break
        lengths += 1
        if (!/^[0-9]{1,15}$/.test(value))
          return malformed('The Content-Length header is not a number.')
        break
      case 17:
        if (name.toLowerCase() !== 'transfer-encoding') break
        codings += 1
        if (value.toLowerCase() !== 'chunked')
          return malformed('The only transfer coding known here is chunked.')
        break
    }
  }
  if (headBytes > maxHeadBytes) return headTooLarge()
  if (hosts > 1) return malformed('There is more than one Host header.')
  if (hosts === 0 && httpVersion === '1.1')
    return malformed('The Host header is missing.')
  // RFC 9112 6.1 to 6.3: servers that disagree about where a body ends allow request smuggling.
  if (lengths > 1 || codings > 1 || (lengths > 0 && codings > 0)) {
    return malformed('The length of the body is stated more than once.')
  }
  if (codings > 0 && httpVersion === '1.0')
    return malformed('HTTP/1.0 has no chunked bodies.')
  return undefined
}

function malformed(detail: string): Problem {
  return new Problem('malformed-request', { detail })
}

function targetTooLong(): Problem {
  const detail = `The request target has more than ${maxTargetBytes} bytes.`
  return new Problem('target-too-long', { detail })
}

function headTooLarge(): Problem {
  const detail = `The request head has more than ${maxHeadBytes} bytes or ${maxHeaders} headers.`
  return new Problem('head-too-large', { detail })
}

/** The problem for what Node's parser could not read, or waited for too long. */
export function problemOfParser(
  error: NodeJS.ErrnoException & { rawPacket?: Buffer },
): Problem {
  if (error.code === 'HPE_HEADER_OVERFLOW') {
    return endsInTarget(error.rawPacket) ? targetTooLong() : headTooLarge()
  }
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new Problem('request-timeout', {
      detail: 'The request head did not arrive in time.',
    })
  }
  return new Problem('malformed-request', {
    detail: 'The bytes received are not a valid HTTP/1.1 request.',
    cause: error,
  })
}

const requestLine = /^[A-Z-]+ \S*/

// Node passes only the piece that overflowed. Without the request line at its beginning, the length of the target is
// unknown, and the head as a whole counts as too large.
function endsInTarget(packet: Buffer | undefined): boolean {
  const line = requestLine.exec(packet?.toString('latin1') ?? '')?.[0]
  return line !== undefined && line.length > maxTargetBytes
}

/** RFC 9112 9.3 and 9.6. Node overlooks a `close` with a tab behind it, and in HTTP/1.0 beside a `keep-alive`. */
export function saysClose({ headers: { connection } }: IncomingMessage): boolean {
  // Nearly every request has one of these values.
  if (connection === undefined || connection === 'keep-alive') return false
  return connection.split(',').some((option) => option.trim().toLowerCase() === 'close')
}
