import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { PatientTimer } from '../process/patient-timer.ts'
import { dateLine } from './date-line.ts'
import { destroyUnlessRead, endOnceRead } from './lingering-close.ts'
import { type Problem, problemBody } from './problem.ts'

/** An unused request body up to this size is read to its end, so that the connection can be kept. */
const maxDrainedBytes = 65_536
/** How long a refused connection stays open for its client to read the refusal. */
const lingerMs = 2_000

/** Marks a connection that serves no further requests after a refusal: its next bytes may be smuggled, or unwanted. */
export const refused = Symbol('refused')
export type Refusable = Duplex & { [refused]?: true }

/**
 * Set on a response by the code that works on its answer, and called if a problem is answered in its place. It is on the
 * response itself because a WeakMap of all responses keeps the garbage collector busy.
 */
export const interrupted = Symbol('interrupted')
export type Interruptible = ServerResponse & { [interrupted]?: (() => void) | undefined }

/** Replaces the callback once a problem was sent. */
const problemWasSent = () => {}

/** Whether a problem was sent. A later failure of the same request is then not sent as another problem. */
export function isAnsweredWithProblem(response: ServerResponse): boolean {
  return (response as Interruptible)[interrupted] === problemWasSent
}

/** Answers a request with a problem. The caller has made sure that no byte of another answer was sent. */
export function answerProblem(
  request: IncomingMessage,
  response: ServerResponse,
  options: { problem: Problem; requestId: string; fields?: readonly string[] },
): void {
  const { problem, requestId, fields = [] } = options
  ;(response as Interruptible)[interrupted]?.()
  ;(response as Interruptible)[interrupted] = problemWasSent
  const body = Buffer.from(problemBody(problem, requestId))
  const closes = problem.closes || !bodyIsSmall(request)
  const headers = [
    'Content-Type',
    'application/problem+json',
    'Content-Length',
    String(body.length),
    'Cache-Control',
    'no-store',
    'X-Request-Id',
    requestId,
  ]
  for (const [name, value] of Object.entries(problem.headers)) headers.push(name, value)
  headers.push(...fields)
  if (closes) {
    headers.push('Connection', 'close')
    ;(request.socket as Refusable)[refused] = true
  }
  response.sendDate = true
  // The reason phrase is given, because the response may still hold an upstream's phrase that Node refused to write.
  response.writeHead(problem.status, STATUS_CODES[problem.status] ?? '', headers)
  // The client may have asked for `Connection: close`, or a drain may have set it.
  const staysOpen = !closes && response.shouldKeepAlive
  if (staysOpen || request.complete || request.method === 'HEAD') {
    response.end(body)
    destroyUnlessRead(request)
    return
  }
  response.write(body)
  endOnceRead(request, response)
}

/** Answers on a socket for which Node has no response object. The connection serves no further requests. */
export function answerSocket(
  socket: Duplex,
  { problem, requestId }: { problem: Problem; requestId: string },
): void {
  ;(socket as Refusable)[refused] = true
  const body = problemBody(problem, requestId)
  const head = [
    `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}`,
    'Content-Type: application/problem+json',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Cache-Control: no-store',
    `X-Request-Id: ${requestId}`,
    ...Object.entries(problem.headers).map(([name, value]) => `${name}: ${value}`),
    'Connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n${dateLine()}\r\n${body}`)
  const timer = new PatientTimer(lingerMs, () => socket.destroy())
  socket.once('close', () => timer.clear())
}

function bodyIsSmall(request: IncomingMessage): boolean {
  if (request.complete) return true
  if (request.headers['transfer-encoding'] !== undefined) return false
  const length = request.headers['content-length']
  return length === undefined || Number(length) <= maxDrainedBytes
}
