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
 * Set on a response by the code that works on its answer, and called if a problem is answered instead. It is a property
 * of the response, because a WeakMap of all responses keeps the garbage collector busy.
 */
export const interrupted = Symbol('interrupted')
export type Interruptible = ServerResponse & { [interrupted]?: (() => void) | undefined }

/**
 * A response of the traffic server that can send its head and body in one write. Node builds the head from lists,
 * joins it with the body and waits for callbacks that both were written. That is a fifth of all the work of a request,
 * and a small answer whose body is complete does not need it.
 */
export class TrafficResponse extends ServerResponse<IncomingMessage> {
  /** The header lines of a connection that is kept open, such as Keep-Alive. */
  keepAliveLines: string | undefined = undefined
  /** Whether the client sends its body only once it has received `100 Continue`. */
  awaitsContinue = false
  /** The progress of an answer sent by `writeWhole`, which `headersSent` and `writableFinished` do not show. */
  whole: 'under-way' | 'sent' | undefined = undefined
  // Properties that some responses get later are set on all from the start, so that V8 uses one hidden class.
  override statusCode = 200;
  [interrupted]: (() => void) | undefined = undefined

  /**
   * Sends `head` (each line ends with CRLF), the lines about the connection, and the body. Returns false and sends
   * nothing if the answer needs `writeHead` and `end`.
   */
  writeWhole(head: string, body: string): boolean {
    const { socket, req, keepAliveLines } = this
    // Without a socket, earlier answers on the same connection are not finished.
    if (!socket?.writable || hasBegun(this)) return false
    if (!this.shouldKeepAlive || req.httpVersionMinor !== 1 || req.method === 'HEAD')
      return false
    // Also undefined on a response of a parent app's server, to which Express has given this prototype.
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

  /** Emits the event that Node's server waits for before it goes on with the connection. */
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

/** Whether a request has a body. Only its framing decides that, not its method (RFC 9112 6.3). */
export function hasBody({ headers, rawHeaders }: IncomingMessage): boolean {
  if (
    headers['transfer-encoding'] !== undefined ||
    Number(headers['content-length'] ?? 0) !== 0
  )
    return true
  // Middleware may have removed fields from `headers`. Without `rawHeaders` a payment would be sent without its body.
  return (
    headerValues(rawHeaders, 'transfer-encoding').length > 0 ||
    headerValues(rawHeaders, 'content-length').some((length) => Number(length) !== 0)
  )
}

/**
 * Whether a request has been read completely. The stream of a request without a body may have ended before anything
 * could wait for its end (optimizeEmptyRequests).
 */
function isAllRead(request: IncomingMessage): boolean {
  return request.complete || !hasBody(request)
}

/** A body up to this size may be sent in one write with its head. */
export const maxOneWriteBytes = 16_384
/** What Node writes as a reason phrase. */
export const writableReason = /^[\t\x20-\x7e\x80-\xff]*$/

/**
 * Sends a complete answer in one write, or returns false and sends nothing. The body is a separate parameter: V8 made a
 * hidden class of its own for each head that was copied to add a body.
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
 * Writes the head of an upstream's answer. After a Content-Length, Node takes a Content-Disposition for UTF-8 and
 * writes it as latin1: an "ü" becomes one byte instead of two, and a "€", or a name in latin1, cannot be written at
 * all. So if a Content-Disposition is not ASCII, the Content-Length goes last.
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

/** The Date line is cached for one second, as Node caches its own. */
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

/** Writes headers as the lines of a head; undefined if Node would refuse to write one of them. */
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

/** An unused request body up to this size is read to its end, so that the connection can be kept. */
const maxDrainedBytes = 65_536
/**
 * How long a refused connection stays open for its client to read the refusal, and how long the sender of an unwanted
 * body may pause. An immediate close would reset the connection, and no answer would arrive.
 */
export const lingerMs = 2_000

/** Marks a connection that serves no further requests after a refusal: its next bytes may be smuggled, or unwanted. */
export const refused = Symbol('refused')
export type Refusable = Duplex & { [refused]?: true }

/** Replaces the callback once a problem was sent. */
const problemWasSent = () => {}

/** Whether a problem was sent. A later failure of the same request is then not sent as another problem. */
export function isAnsweredWithProblem(response: Interruptible): boolean {
  return response[interrupted] === problemWasSent
}

/** Answers a request with a problem. The caller has made sure that no byte of another answer was sent. */
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
  // The reason phrase is given, because the response may still hold an upstream's phrase that Node refused to write.
  response.writeHead(problem.status, STATUS_CODES[problem.status] ?? '', headers)
  // Not at once if the client asked for `Connection: close`, or a drain has set it. A write to HEAD would send nothing.
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

/** Many clients read the answer only after they have sent the whole body, and a large upload may take this long. */
const maxLingerMs = 15_000

const noBytes = Buffer.alloc(0)

/**
 * Ends an answer, even if the request has not been received completely. A connection that does not stay open is closed
 * only once the client has stopped sending.
 */
export function endAnswer(
  request: IncomingMessage,
  response: ServerResponse,
  lastBytes: Buffer = noBytes,
  // An HTTP/1.0 answer without a length closes its connection, whatever `shouldKeepAlive` says.
  endsAtOnce = response.shouldKeepAlive && request.httpVersionMinor === 1,
): void {
  if (isAllRead(request) || endsAtOnce) {
    // Node joins a latin1 string with the head into one write, but not a Buffer.
    response.end(lastBytes.toString('latin1'), 'latin1')
    destroyUnlessRead(request)
    return
  }
  // An empty write sends the head of an answer that has no body.
  response.write(lastBytes)
  readToEnd(request, () => response.end())
}

/** Gives a client time to finish a body that the gateway does not use, then closes its connection. */
export function destroyUnlessRead(request: IncomingMessage): void {
  if (isAllRead(request)) return
  readToEnd(request, () => {
    if (!request.complete) request.socket.destroy()
  })
}

/** Reads and drops a body until it ends, until its sender pauses for `lingerMs`, or until `maxLingerMs` have passed. */
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

/** Breaks an answer off. An HTTP/1.0 answer ends with its connection: only a reset shows that it is incomplete. */
export function cutOff(response: ServerResponse): void {
  try {
    if (response.headersSent && response.req.httpVersionMinor === 0)
      response.req.socket.resetAndDestroy()
  } catch {
    // Neither TLS nor a Unix socket of a parent's server can be reset.
  }
  response.destroy()
}
