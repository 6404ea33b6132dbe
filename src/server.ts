import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Listener } from './fast-lane.ts'
import { headBytesMost, headRefusal, headTooLarge, targetBytesMost, targetTooLong } from './head-checks.ts'
import type { Logger } from './logger.ts'
import type { Metrics } from './metrics.ts'
import { Problem, problemBody } from './problem.ts'
import { answerProblem, isRefused, lingerMs, refuseFurther } from './problem-answer.ts'

export interface TrafficServerOptions {
  listener: Listener
  headTimeoutMs: number
  log: Logger
  metrics: Metrics
}

/** Longer than a load balancer keeps its idle connections, so that the balancer closes first. */
const keepAliveMs = 65_000

/**
 * The HTTP server in front of the gateway: the limits and checks that Node leaves to its user. A refused
 * connection serves nothing more, pipelined or not: whatever follows a malformed request may be smuggled.
 */
export function createTrafficServer(options: TrafficServerOptions): Server {
  const { listener, headTimeoutMs, log, metrics } = options
  /** The requests of a connection that have no complete answer yet, oldest first. */
  const open = new WeakMap<Duplex, { request: IncomingMessage; response: ServerResponse }[]>()

  function report(problem: Problem, requestId: string): void {
    metrics.problems[problem.slug].inc()
    log.info({ requestId, problem: problem.slug, status: problem.status }, problem.message)
  }

  function refuse(request: IncomingMessage, response: ServerResponse, problem: Problem): void {
    const requestId = randomUUID()
    report(problem, requestId)
    answerProblem(request, response, { problem, requestId })
  }

  function onRequest(request: IncomingMessage, response: ServerResponse): void {
    const { socket } = request
    if (isRefused(socket)) return
    const waiting = open.get(socket) ?? []
    const entry = { request, response }
    waiting.push(entry)
    open.set(socket, waiting)
    response.once('close', () => waiting.splice(waiting.indexOf(entry), 1))
    const refusal = headRefusal(request)
    if (refusal) refuse(request, response, refusal)
    else listener(request, response)
  }

  const server = createServer(
    {
      // Node counts the request line into it; our own check of the head is the exact one.
      maxHeaderSize: headBytesMost + targetBytesMost,
      requireHostHeader: false,
      headersTimeout: headTimeoutMs,
      requestTimeout: 0,
      keepAliveTimeout: keepAliveMs,
      connectionsCheckingInterval: Math.min(1_000, Math.ceil(headTimeoutMs / 4)),
    },
    onRequest,
  )
  // Past its limit Node drops headers without a word, a last Authorization among them; head-checks counts.
  server.maxHeadersCount = 0

  server.on('checkExpectation', (request, response) => {
    refuse(
      request,
      response,
      new Problem('expectation-failed', { detail: 'The only expectation that can be met is 100-continue.' }),
    )
  })
  server.on('connect', (_request, socket) => {
    answerSocket(socket, new Problem('method-not-allowed', { detail: 'CONNECT is never passed on.' }))
  })
  server.on('clientError', (error: NodeJS.ErrnoException & { rawPacket?: Buffer }, socket) => {
    if (error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy()
      return
    }
    if (isRefused(socket)) return
    refuseFurther(socket)
    const problem = problemOfParser(error)
    const waiting = open.get(socket) ?? []
    const current = waiting[0]
    if (current === undefined) {
      answerSocket(socket, problem)
    } else if (waiting.length === 1 && !current.request.complete && !current.response.headersSent) {
      // It is this request's own body that is broken.
      const requestId = randomUUID()
      report(problem, requestId)
      answerProblem(current.request, current.response, { problem, requestId })
    } else {
      // An answer written now would be taken for that of an earlier request.
      socket.destroy()
    }
  })

  /** Answers where Node has no response to write to. */
  function answerSocket(socket: Duplex, problem: Problem): void {
    refuseFurther(socket)
    const requestId = randomUUID()
    report(problem, requestId)
    const body = problemBody(problem, requestId)
    socket.end(
      `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}\r\n` +
        'Content-Type: application/problem+json\r\n' +
        `Content-Length: ${Buffer.byteLength(body)}\r\n` +
        `Cache-Control: no-store\r\nX-Request-Id: ${requestId}\r\n` +
        `${problem.slug === 'method-not-allowed' ? 'Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n' : ''}` +
        `Connection: close\r\n\r\n${body}`,
    )
    const timer = setTimeout(() => socket.destroy(), lingerMs)
    socket.once('close', () => clearTimeout(timer))
  }

  return server
}

function problemOfParser(error: NodeJS.ErrnoException & { rawPacket?: Buffer }): Problem {
  if (error.code === 'HPE_HEADER_OVERFLOW') {
    const packet = error.rawPacket
    const lineEnd = packet?.indexOf(0x0a) ?? -1
    const inTarget = packet !== undefined && (lineEnd === -1 || lineEnd > targetBytesMost)
    return inTarget ? targetTooLong() : headTooLarge()
  }
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new Problem('request-timeout', { detail: 'The request head did not arrive in time.' })
  }
  return new Problem('malformed-request', {
    detail: 'The bytes received are not a valid HTTP/1.1 request.',
    cause: error,
  })
}
