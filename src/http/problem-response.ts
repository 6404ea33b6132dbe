import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { type Problem, problemBody } from './problem.ts'

/** A body up to this size is read to its end, so that the connection can be kept. */
const keptBodyBytes = 65_536
/** How long a refused sender may pause and is still listened to: closing at once would reset away the answer. */
const lingerMs = 2_000
/** Many clients read the answer only when all is sent, and a large upload on a slow line takes its time. */
const lingerMostMs = 15_000

const noBytes = Buffer.alloc(0)

const refusedConnections = new WeakSet<Duplex>()

/** Nothing that still comes in on this connection is to be served: it may be smuggled, or is not wanted. */
function refuseFurther(socket: Duplex): void {
  refusedConnections.add(socket)
}

export function isRefused(socket: Duplex): boolean {
  return refusedConnections.has(socket)
}

// On the response itself: a WeakMap of all responses keeps the garbage collector busy.
export const interrupted = Symbol('interrupted')
type Interruptible = ServerResponse & { [interrupted]?: (() => void) | undefined }

/** Has whoever is at work on a response told that a problem was answered in its place. */
export function whenAnsweredInstead(response: ServerResponse, callback: () => void): void {
  ;(response as Interruptible)[interrupted] = callback
}

const nothingLeft = () => {}

/** Whether a problem was answered: whatever fails on the way afterwards is told to nobody and is no further problem. */
export function isAnsweredWithProblem(response: ServerResponse): boolean {
  return (response as Interruptible)[interrupted] === nothingLeft
}

/** Answers a request with a problem. The caller has made sure that nothing of another answer was sent. */
export function answerProblem(
  request: IncomingMessage,
  response: ServerResponse,
  options: { problem: Problem; requestId: string; fields?: readonly string[] },
): void {
  const { problem, requestId, fields = [] } = options
  ;(response as Interruptible)[interrupted]?.()
  whenAnsweredInstead(response, nothingLeft)
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
    refuseFurther(request.socket)
  }
  response.sendDate = true
  // Named, because an upstream's reason phrase that could not be written may still stand in the response.
  response.writeHead(problem.status, STATUS_CODES[problem.status] ?? '', headers)
  // The client may have asked for the end itself, or be told of it by a drain.
  const stays = !closes && response.shouldKeepAlive
  if (stays || request.complete || request.method === 'HEAD') {
    response.end(body)
    destroyUnlessRead(request)
    return
  }
  response.write(body)
  endOnceRead(request, response)
}

/** Answers where Node has no response to write to; nothing more is served on this connection. */
export function answerSocket(
  socket: Duplex,
  { problem, requestId }: { problem: Problem; requestId: string },
): void {
  refuseFurther(socket)
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
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`)
  const timer = setTimeout(() => socket.destroy(), lingerMs)
  socket.once('close', () => clearTimeout(timer))
}

/** Ends an answer that may have come before the whole request did. */
export function endAnswer(request: IncomingMessage, response: ServerResponse, lastBytes?: Buffer): void {
  // Without a length an HTTP/1.0 answer closes its connection, whatever `shouldKeepAlive` says.
  if (request.complete || (response.shouldKeepAlive && request.httpVersionMinor === 1)) {
    // A latin1 string is joined with the head into one write, a Buffer is not.
    response.end(lastBytes?.toString('latin1') ?? '', 'latin1')
    destroyUnlessRead(request)
    return
  }
  // An empty write sends the head of an answer that is empty itself.
  response.write(lastBytes ?? noBytes)
  endOnceRead(request, response)
}

/** Ends an answer that closes its connection: all of it goes out now, its end when the sender has stopped. */
function endOnceRead(request: IncomingMessage, response: ServerResponse): void {
  readOn(request, () => response.end())
}

/** Gives the sender of a body that nobody wants a while to come to its end, then hangs up. */
export function destroyUnlessRead(request: IncomingMessage): void {
  if (request.complete) return
  readOn(request, () => {
    if (!request.complete) request.socket.destroy()
  })
}

/** Reads what nobody wants until its end, a pause in it, or the most that is put up with. */
function readOn(request: IncomingMessage, done: () => void): void {
  const { socket } = request
  const stop = () => {
    clearTimeout(pause)
    clearImmediate(paused)
    clearTimeout(most)
    request.off('data', onData)
    request.off('end', onEnd)
    socket.off('close', stop)
  }
  const onEnd = () => {
    stop()
    done()
  }
  const onData = () => {
    clearImmediate(paused)
    pause.refresh()
  }
  let paused: NodeJS.Immediate | undefined
  const pause = setTimeout(() => {
    // After a pause of this process more may lie in the socket already: that is read before an immediate runs.
    paused = setImmediate(onEnd)
  }, lingerMs)
  const most = setTimeout(onEnd, lingerMostMs)
  request.on('data', onData)
  request.once('end', onEnd)
  socket.once('close', stop)
  request.resume()
}

function bodyIsSmall(request: IncomingMessage): boolean {
  if (request.complete) return true
  if (request.headers['transfer-encoding'] !== undefined) return false
  const length = request.headers['content-length']
  return length === undefined || Number(length) <= keptBodyBytes
}
