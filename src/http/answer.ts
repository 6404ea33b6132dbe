import {
  type IncomingMessage,
  ServerResponse,
  STATUS_CODES,
  validateHeaderName,
  validateHeaderValue,
} from 'node:http'
import type { Duplex } from 'node:stream'
import { PatientTimer } from '../clock.ts'
import { headerLines, headerValues } from './headers.ts'
import { type Problem, problemBody } from './problem.ts'

/**
 * Set by the code that works on an answer, and called if a problem replaces it. A property of the response, because a
 * WeakMap of all responses keeps the garbage collector busy.
 */
export const interrupted = Symbol('interrupted')
export type Interruptible = ServerResponse & { [interrupted]?: (() => void) | undefined }

/**
 * A response that can send its head and body in one write. Node builds the head from lists, joins it with the body and
 * waits for callbacks that both were written: a fifth of all the work of a request, which a small complete answer does
 * not need.
 */
export class TrafficResponse extends ServerResponse<IncomingMessage> {
  /** Header lines of a connection that is kept open. */
  keepAliveLines: string | undefined = undefined
  /** The client sends its body only once it has `100 Continue`. */
  awaitsContinue = false
  /** The progress of `writeWhole`, which `headersSent` and `writableFinished` do not show. */
  whole: 'under-way' | 'sent' | undefined = undefined
  // All responses have these properties from the start, so that V8 uses one hidden class.
  override statusCode = 200;
  [interrupted]: (() => void) | undefined = undefined

  /**
   * Sends `head` (lines end with CRLF), the connection's lines, and the body. Returns false and sends nothing if the
   * answer needs `writeHead` and `end`.
   */
  writeWhole(head: string, body: string): boolean {
    const { socket, req, keepAliveLines } = this
    // Without a socket, earlier answers on the connection are not finished.
    if (!socket?.writable || hasBegun(this)) return false
    if (!this.shouldKeepAlive || req.httpVersionMinor !== 1 || req.method === 'HEAD')
      return false
    // Also undefined on a response of a parent app's server.
    if (keepAliveLines === undefined || (!req.complete && bodyExpected(req))) return false
    this.whole = 'under-way'
    socket.write(`${head}${keepAliveLines}\r\n${body}`, 'latin1')
    if (socket.writableLength === 0) this.#finish()
    else {
      socket.write('', (error) => {
        if (!error) this.#finish()
      })
    }
    return true
  }

  /** Node's server waits for this event before it goes on with the connection. */
  #finish(): void {
    this.whole = 'sent'
    this.emit('finish')
  }
}

export function bodyExpected({ headers }: IncomingMessage): boolean {
  return (
    headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
  )
}

/** Only its framing decides whether a request has a body, not its method (RFC 9112 6.3). */
export function hasBody({ headers, rawHeaders }: IncomingMessage): boolean {
  if (
    headers['transfer-encoding'] !== undefined ||
    Number(headers['content-length'] ?? 0) !== 0
  )
    return true
  // Middleware may have removed fields from `headers`, and a payment would be sent without its body.
  return (
    headerValues(rawHeaders, 'transfer-encoding').length > 0 ||
    headerValues(rawHeaders, 'content-length').some((length) => Number(length) !== 0)
  )
}

/**
 * Whether a request was read completely. Without a body its stream may have ended before anything could wait
 * (optimizeEmptyRequests).
 */
function isAllRead(request: IncomingMessage): boolean {
  return request.complete || !hasBody(request)
}

/** Max body sent in one write with its head. */
export const maxOneWriteBytes = 16_384
export const writableReason = /^[\t\x20-\x7e\x80-\xff]*$/

/**
 * Sends a complete answer in one write, or returns false and sends nothing. The body is a separate parameter: V8 made a
 * hidden class for each head that was copied to add a body.
 */
export function answerInOneWrite(
  response: ServerResponse,
  {
    status,
    reason,
    headers,
  }: { status: number; reason: string; headers: readonly string[] },
  body: Buffer,
): boolean {
  if (!(response instanceof TrafficResponse) || body.length > maxOneWriteBytes)
    return false
  const lines = headLines(headers)
  if (lines === undefined || !writableReason.test(reason)) return false
  response.statusCode = status
  const date = response.sendDate ? dateLine() : ''
  return response.writeWhole(
    `HTTP/1.1 ${status} ${reason}\r\n${lines}${date}`,
    body.toString('latin1'),
  )
}

/**
 * After a Content-Length, Node reads a Content-Disposition as UTF-8 and writes it as latin1: an "ü" becomes one byte
 * instead of two, and a "€", or a name in latin1, cannot be written. So the Content-Length goes last if a
 * Content-Disposition is not ASCII.
 */
export function writeReceivedHead(
  response: ServerResponse,
  { status, reason, headers }: { status: number; reason: string; headers: string[] },
): void {
  const isAscii = !/[\x80-\xff]/.test(headerLines(headers, 'content-disposition') ?? '')
  const isLength = (_: string, at: number) =>
    headers[at - (at % 2)]?.toLowerCase() === 'content-length'
  const lengthsLast = () => [
    ...headers.filter((part, at) => !isLength(part, at)),
    ...headers.filter(isLength),
  ]
  response.writeHead(status, reason, isAscii ? headers : lengthsLast())
}

/** Whether any byte of an answer was sent, so that no other answer can replace it. */
export function hasBegun(response: ServerResponse): boolean {
  return (
    response.headersSent ||
    (response instanceof TrafficResponse && response.whole !== undefined)
  )
}

/** The Date line is cached for a second, as Node caches its own. */
let dateOfSecond = ''
let dateUntilMs = 0

export function dateLine(): string {
  const nowMs = Date.now()
  if (nowMs >= dateUntilMs || nowMs < dateUntilMs - 1_000) {
    dateOfSecond = `Date: ${new Date(nowMs).toUTCString()}\r\n`
    dateUntilMs = nowMs - (nowMs % 1_000) + 1_000
  }
  return dateOfSecond
}

/** Headers as lines of a head; undefined if Node would refuse one of them. */
export function headLines(headers: readonly string[]): string | undefined {
  let lines = ''
  for (let index = 0; index < headers.length; index += 2) {
    const name = headers[index] as string
    const value = headers[index + 1] as string
    try {
      validateHeaderName(name)
      validateHeaderValue(name, value)
    } catch {
      return undefined
    }
    lines += `${name}: ${value}\r\n`
  }
  return lines
}

/** An unused request body up to this size is read, so that the connection can be kept. */
const maxDrainedBytes = 65_536
/**
 * How long a refused client may read the refusal, and the sender of an unwanted body may pause. An immediate close
 * would reset the connection, and no answer would arrive.
 */
export const lingerMs = 2_000

/** Marks a connection that serves nothing after a refusal: its next bytes may be smuggled, or unwanted. */
export const refused = Symbol('refused')
export type Refusable = Duplex & { [refused]?: true }

const problemWasSent = () => {}

/** A later failure of the same request is then not sent as another problem. */
export function isAnsweredWithProblem(response: Interruptible): boolean {
  return response[interrupted] === problemWasSent
}

/** Answers with a problem. No byte of another answer may have been sent. */
export function answerProblem(
  request: IncomingMessage,
  response: Interruptible,
  options: { problem: Problem; requestId: string; fields?: readonly string[] },
): void {
  const { problem, requestId, fields = [] } = options
  response[interrupted]?.()
  response[interrupted] = problemWasSent
  const body = Buffer.from(problemBody(problem, requestId))
  const closes = problem.closes || !bodyIsSmall(request)
  const headers = problemHeaders(problem, requestId, body.length)
  headers.push(...fields)
  if (closes) {
    headers.push('Connection', 'close')
    ;(request.socket as Refusable)[refused] = true
  }
  response.sendDate = true
  // The response may still hold an upstream's phrase that Node refused to write.
  response.writeHead(problem.status, STATUS_CODES[problem.status] ?? '', headers)
  // Not at once if the client or a drain asked for `Connection: close`. A write to HEAD would send nothing.
  const endsAtOnce = (!closes && response.shouldKeepAlive) || request.method === 'HEAD'
  endAnswer(request, response, body, endsAtOnce)
}

export function problemHeaders(
  { headers }: Problem,
  requestId: string,
  length: number,
): string[] {
  const own = [
    'Content-Type',
    'application/problem+json',
    'Content-Length',
    String(length),
  ]
  own.push(
    'Cache-Control',
    'no-store',
    'X-Request-Id',
    requestId,
    ...Object.entries(headers).flat(),
  )
  return own
}

function bodyIsSmall(request: IncomingMessage): boolean {
  if (request.complete) return true
  if (request.headers['transfer-encoding'] !== undefined) return false
  const length = request.headers['content-length']
  return length === undefined || Number(length) <= maxDrainedBytes
}

/** Many clients read the answer only after they have sent the whole body. */
const maxLingerMs = 15_000

const noBytes = Buffer.alloc(0)

/**
 * Ends an answer, even before its request is complete. A connection that does not stay open is closed only once the
 * client has stopped sending.
 */
export function endAnswer(
  request: IncomingMessage,
  response: ServerResponse,
  lastBytes: Buffer = noBytes,
  // An HTTP/1.0 answer without a length closes its connection, whatever `shouldKeepAlive` says.
  endsAtOnce = response.shouldKeepAlive && request.httpVersionMinor === 1,
): void {
  if (isAllRead(request) || endsAtOnce) {
    // Node joins only a latin1 string with the head into one write.
    response.end(lastBytes.toString('latin1'), 'latin1')
    destroyUnlessRead(request)
    return
  }
  // An empty write sends the head.
  response.write(lastBytes)
  readToEnd(request, () => response.end())
}

/** Lets a client finish an unused body, then closes its connection. */
export function destroyUnlessRead(request: IncomingMessage): void {
  if (isAllRead(request)) return
  readToEnd(request, () => {
    if (!request.complete) request.socket.destroy()
  })
}

/** Drops a body until it ends, pauses for `lingerMs`, or `maxLingerMs` have passed. */
function readToEnd(request: IncomingMessage, done: () => void): void {
  const { socket } = request
  const stop = () => {
    pause.clear()
    clearTimeout(limit)
    request.off('data', onData)
    request.off('end', onEnd)
    socket.off('close', stop)
  }
  const onEnd = () => {
    stop()
    done()
  }
  const onData = () => pause.refresh()
  const pause = new PatientTimer(lingerMs, onEnd)
  const limit = setTimeout(onEnd, maxLingerMs)
  request.on('data', onData)
  request.once('end', onEnd)
  socket.once('close', stop)
  request.resume()
}

/** An HTTP/1.0 answer ends with its connection: only a reset shows that it is incomplete. */
export function cutOff(response: ServerResponse): void {
  try {
    if (response.headersSent && response.req.httpVersionMinor === 0)
      response.req.socket.resetAndDestroy()
  } catch {
    // Neither TLS nor a Unix socket of a parent's server can be reset.
  }
  response.destroy()
}
