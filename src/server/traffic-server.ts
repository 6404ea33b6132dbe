import { createServer, IncomingMessage, type RequestListener, Server } from 'node:http'
import { Server as ConnectionServer, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Timers } from '../clock.ts'
import type { Events } from '../events.ts'
import {
  answerProblem,
  bodyExpected,
  hasBegun,
  type Refusable,
  refused,
  TrafficResponse,
} from '../http/answer.ts'
import { Problem } from '../http/problem.ts'
import { awaitsContinue } from '../upstream/body.ts'
import { hasLeft } from './exchange.ts'
import { headRefusal, maxHeaders, problemOfParser } from './head-checks.ts'
import { Pipeline } from './pipeline.ts'
import { Refusals } from './refusals.ts'
import { errorsGoUnreported, lookForErrors } from './upgrades.ts'

export interface MessageClasses {
  IncomingMessage: typeof IncomingMessage
  ServerResponse: typeof TrafficResponse
}

interface TrafficServerOptions {
  listener: RequestListener
  messages?: MessageClasses
  headTimeoutMs: number
  /** How long a connection may be idle between two requests. */
  keepAliveMs?: number
  maxConnections?: number
  events: Events
  /** Default: Node's. */
  timers?: Timers
}

/** Longer than load balancers keep idle connections, so that the balancer closes first. */
const defaultKeepAliveMs = 65_000
/** Above the limits of head-checks.ts, which answers most heads that are too large with 431 or 414. */
const maxParserHeadBytes = 24_576
/**
 * Node keeps this many headers and up to 32 more. Without a bound, an unfinished head of tiny headers takes 300 KB.
 * Node drops further headers silently, perhaps an Authorization: the bound is one above the limit of head-checks.ts,
 * which has to see that.
 */
const maxKeptHeaders = maxHeaders + 1
/**
 * With this option Node ends the stream of a request without a body at once, without an event, which saves a tenth of a
 * hit. Node 24.12 and later read it; earlier types lack it.
 */
const emptyRequests = { optimizeEmptyRequests: true }
export type TrafficServer = Server & Pipeline['end']

/**
 * Gives every socket the same hidden class. Node notes address and timeout on a socket in the order in which requests
 * need them. With several hidden classes, V8 looks up each field that Node reads of a socket.
 */
function shapeAlike(socket: Socket): void {
  void socket.remoteAddress
  socket.setTimeout(0)
}

/** The checks that are left to Node. */
const limitsOf = (headTimeoutMs: number) => ({
  ...emptyRequests,
  maxHeaderSize: maxParserHeadBytes,
  requireHostHeader: false,
  headersTimeout: headTimeoutMs,
  requestTimeout: 0,
  connectionsCheckingInterval: Math.min(1_000, Math.ceil(headTimeoutMs / 4)),
})

function endIdle(socket: Socket, pipeline: Pipeline): void {
  // A client that has stopped taking its answer would hold an upstream's connection forever. For a client that waits,
  // the upstream's deadlines apply.
  if (pipeline.connectionOf(socket).queue.length === 0 || socket.writableLength > 0)
    socket.destroy()
  else socket.setTimeout(0)
}

interface Listening {
  readonly pipeline: Pipeline
  readonly refusals: Refusals
  /** Serves a request if its head may be served. */
  checked(serve: RequestListener): RequestListener
}

function refuseConnect(
  request: IncomingMessage,
  socket: Duplex & Refusable,
  { pipeline, refusals }: Pick<Listening, 'pipeline' | 'refusals'>,
): void {
  // Node removes its own listeners from this socket, and a reset without a listener would end the process.
  socket.on('error', () => socket.destroy())
  socket.resume()
  const connection = pipeline.connectionOf(socket)
  if (socket[refused] || connection.takesNoMore) return
  connection.takesNoMore = true
  const headers = { Allow: 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS' }
  const problem = new Problem('method-not-allowed', {
    detail: 'CONNECT is not relayed.',
    headers,
  })
  if (connection.queue.length === 0) refusals.refuseSocket(socket, problem, request)
  // Node no longer sends the answers in front, and this refusal must not be mistaken for one of them.
  else socket.destroy()
}

function answerUnreadable(
  error: NodeJS.ErrnoException & { rawPacket?: Buffer },
  socket: Duplex & Refusable,
  { pipeline, refusals, checked }: Listening,
): void {
  if (error.code === 'ECONNRESET') {
    socket.destroy()
    return
  }
  // Node calls this for each further piece that it cannot read: closing now would take the answer back.
  if (socket[refused]) return
  const connection = pipeline.connectionOf(socket)
  const { queue } = connection
  const last = queue.at(-1)
  // A client that closes its side within a body has left: nothing is malformed, and no answer would be read. This comes
  // before the check of takesNoMore, which a drain sets: the connection would stay open until DRAIN_TIMEOUT_MS.
  const begun = last?.request ?? connection.answeredEarly
  if (error.code === 'HPE_INVALID_EOF_STATE' && begun?.complete === false) {
    socket.destroy()
    return
  }
  // What follows the last request is ignored, but an error in that request's body is answered.
  if (connection.takesNoMore && last?.request.complete !== false) return
  if (!socket.writable) {
    socket.destroy()
    return
  }
  connection.takesNoMore = true
  // Bytes after a `Connection: close` request are ignored.
  if (error.code === 'HPE_CLOSED_CONNECTION') return
  const problem = problemOfParser(error)
  // The requests in front are answered first: this refusal would be mistaken for one of their answers.
  if (last === undefined) refusals.refuseSocket(socket, problem)
  else if (last.request.complete)
    connection.atEnd = () => refusals.refuseSocket(socket, problem)
  else if (queue.length > 1)
    last.serve = checked((request, response) =>
      refusals.refuse(request, response, problem),
    )
  else if (hasBegun(last.response)) socket.destroy()
  // The request's route sees this answer end, and so does the access log.
  else
    answerProblem(last.request, last.response, {
      problem,
      requestId: refusals.report(problem),
    })
}

/**
 * The traffic's HTTP server, with the checks that Node leaves to its user. A refused connection serves nothing more,
 * pipelined or not: what follows a malformed request may be smuggled.
 */
export function createTrafficServer(options: TrafficServerOptions): TrafficServer {
  const { listener, headTimeoutMs, keepAliveMs = defaultKeepAliveMs, events } = options
  const { messages = { IncomingMessage, ServerResponse: TrafficResponse } } = options
  /** Max time of an idle connection and the next head together. */
  const idleMs = keepAliveMs + headTimeoutMs
  const keepAliveLines = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveMs / 1_000)}\r\n`
  const { maxConnections = Number.POSITIVE_INFINITY, timers } = options
  const pipeline = new Pipeline({ maxConnections, idleMs, timers })
  const refusals = new Refusals(events)

  function checked(serve: RequestListener): RequestListener {
    return (request, response) => {
      const refusal = headRefusal(request)
      if (refusal) {
        refusals.refuse(request, response, refusal)
        return
      }
      if (errorsGoUnreported(request)) {
        lookForErrors(request, response, (error) => {
          server.emit('clientError', error, request.socket)
        })
      }
      serve(request, response)
    }
  }

  const serve = checked(listener)
  const serveAndContinue = checked((request, response) => {
    // Otherwise the reader of the body sends `100 Continue`, once the upstream takes requests.
    if (!awaitsContinue(response)) response.writeContinue()
    listener(request, response)
  })
  const refuseExpectation = checked((request, response) => {
    const detail = 'The only Expect value that this gateway supports is 100-continue.'
    refusals.refuse(request, response, new Problem('expectation-failed', { detail }))
  })

  const server = createServer(
    { ...messages, ...limitsOf(headTimeoutMs), keepAliveTimeout: keepAliveMs },
    (request, response) => {
      response.keepAliveLines = keepAliveLines
      pipeline.take(request, response, serve)
    },
  )
  server.maxHeadersCount = maxKeptHeaders
  // Undocumented in Node: a client that has ended its own side still gets its answer.
  Object.assign(server, { httpAllowHalfOpen: true })

  server.on('timeout', (socket) => endIdle(socket, pipeline))
  server.on('connection', (socket) => {
    shapeAlike(socket)
    if (hasLeft(socket)) socket.destroy()
    else if (!pipeline.accept(socket)) refusals.turnAway(socket)
  })
  server.on('checkContinue', (request, response) => {
    response.awaitsContinue = bodyExpected(request)
    pipeline.take(request, response, serveAndContinue)
  })
  server.on('checkExpectation', (request, response) =>
    pipeline.take(request, response, refuseExpectation),
  )
  server.on('connect', (request, socket) =>
    refuseConnect(request, socket, { pipeline, refusals }),
  )
  server.on('clientError', (error, socket) =>
    answerUnreadable(error, socket, { pipeline, refusals, checked }),
  )
  return closingInOrder(server, pipeline)
}

/** Closes the server after its answers, and keeps its deadlines until then. */
function closingInOrder(
  server: Server<typeof IncomingMessage, typeof TrafficResponse>,
  pipeline: Pipeline,
): TrafficServer {
  /**
   * Node counts a connection as idle once its answer is handed over, and would cut off a slow client. Node closes all
   * idle connections together, so the others wait.
   */
  function closeIdleConnections(): void {
    if (!pipeline.someAreSlow) Server.prototype.closeIdleConnections.call(server)
  }

  /** Node's `close` stops checking the deadlines of heads: an unfinished head would hold up the shutdown. */
  function close(onClosed?: (error?: Error) => void): TrafficServer {
    ConnectionServer.prototype.close.call(server, onClosed)
    server.once('close', () => Server.prototype.close.call(server))
    closeIdleConnections()
    return trafficServer
  }

  const trafficServer: TrafficServer = Object.assign(server, pipeline.end, {
    close,
    closeIdleConnections,
  })
  return trafficServer
}
