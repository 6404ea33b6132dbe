import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { type Problem, problemBody } from './problem.ts'

/** A body up to this size is read to its end, so that the connection can be kept. */
const keptBodyBytes = 65_536
/** How long a refused sender is still listened to: closing at once would reset away the answer. */
export const lingerMs = 2_000

const refusedConnections = new WeakSet<Duplex>()

/** Nothing that still comes in on this connection is to be served: it may be smuggled, or is not wanted. */
export function refuseFurther(socket: Duplex): void {
  refusedConnections.add(socket)
}

export function isRefused(socket: Duplex): boolean {
  return refusedConnections.has(socket)
}

/** Answers a request with a problem. The caller has made sure that nothing of another answer was sent. */
export function answerProblem(
  request: IncomingMessage,
  response: ServerResponse,
  options: { problem: Problem; requestId: string },
): void {
  const { problem, requestId } = options
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
  if (closes) {
    headers.push('Connection', 'close')
    refuseFurther(request.socket)
  }
  response.sendDate = true
  // Named, because an upstream's reason phrase that could not be written may still stand in the response.
  response.writeHead(problem.status, STATUS_CODES[problem.status] ?? '', headers)
  if (!closes || request.complete || request.method === 'HEAD') {
    response.end(body)
    destroyUnlessRead(request)
    return
  }
  // All of the answer goes out, and only its end waits until the sender has stopped or had its time.
  response.write(body)
  const finish = () => {
    clearTimeout(timer)
    response.end()
  }
  const timer = setTimeout(finish, lingerMs)
  request.once('end', finish)
  response.once('close', () => clearTimeout(timer))
  request.resume()
}

/** Gives the sender of a body that nobody wants a moment to come to its end, then hangs up. */
export function destroyUnlessRead(request: IncomingMessage): void {
  if (request.complete) return
  request.resume()
  const timer = setTimeout(() => request.socket.destroy(), lingerMs)
  const done = () => clearTimeout(timer)
  request.once('end', done)
  request.socket.once('close', done)
}

function bodyIsSmall(request: IncomingMessage): boolean {
  if (request.complete) return true
  if (request.headers['transfer-encoding'] !== undefined) return false
  const length = request.headers['content-length']
  return length === undefined || Number(length) <= keptBodyBytes
}
