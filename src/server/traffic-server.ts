import { createServer, IncomingMessage, type RequestListener, Server, type ServerResponse } from 'node:http'
import { Server as ConnectionServer, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { Problem } from '../http/problem.ts'
import { answerProblem, answerSocket, isRefused } from '../http/problem-response.ts'
import { createRequestIds } from '../http/request-ids.ts'
import { hasBegun, TrafficResponse } from '../http/whole-response.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { Logger } from '../process/logger.ts'
import { headRefusal, problemOfParser } from './head-checks.ts'
import { createOpenConnections, type OrderlyEnd } from './open-connections.ts'
import { createTurns, type Turn } from './pipeline.ts'

/** What `http.createServer` makes its requests and responses of. */
export interface MessageClasses {
  IncomingMessage: typeof IncomingMessage
  ServerResponse: typeof TrafficResponse
}

export interface TrafficServerOptions {
  listener: RequestListener
  messages?: MessageClasses
  headTimeoutMs: number
  /** How long a connection may be idle between two requests. */
  keepAliveMs?: number
  /** Connections at most. */
  connectionsMost?: number
  log: Logger
  metrics: Metrics
}

/** Longer than a load balancer keeps its idle connections, so that the balancer closes first. */
const keepAliveDefaultMs = 65_000
/** Far past the limits of head-checks, which can then judge nearly every head by what is in it. */
const parserHeadBytesMost = 49_152
/** Refused connections that are still being told so; past this many, a flood is not told as patiently. */
const turningAwayMost = 1_000

export type TrafficServer = Server & OrderlyEnd

/**
 * Node notes the address and the timeout on a socket when they are first needed, in the order in which its requests
 * happen to need them. V8 then takes them for objects of several kinds, and looks up whatever Node reads of any socket.
 */
function alike(socket: Socket): void {
  void socket.remoteAddress
  socket.setTimeout(0)
}

/**
 * The HTTP server in front of the gateway: the limits and checks that Node leaves to its user. A refused
 * connection serves nothing more, pipelined or not: whatever follows a malformed request may be smuggled.
 */
export function createTrafficServer(options: TrafficServerOptions): TrafficServer {
  const { listener, headTimeoutMs, keepAliveMs = keepAliveDefaultMs, log, metrics } = options
  const { messages = { IncomingMessage, ServerResponse: TrafficResponse } } = options
  /** As long as an idle connection and the head that ends its idleness may take together. */
  const stillMs = keepAliveMs + headTimeoutMs
  const keepAliveLines = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveMs / 1_000)}\r\n`
  const open = createOpenConnections(options.connectionsMost ?? Number.POSITIVE_INFINITY)
  const { connectionOf, take } = createTurns({ open, stillMs, begin })
  const nextId = createRequestIds()
  let turningAway = 0

  function accept(socket: Socket): void {
    alike(socket)
    if (!open.add(socket, connectionOf(socket))) turnAway(socket)
  }

  function turnAway(socket: Socket): void {
    turningAway += 1
    socket.once('close', () => {
      turningAway -= 1
    })
    const detail = 'This gateway has as many connections as it takes. Try again shortly.'
    refuseSocket(socket, new Problem('too-many-connections', { detail, headers: { 'Retry-After': '1' } }))
    if (turningAway > turningAwayMost) socket.destroySoon()
  }

  function report(problem: Problem): string {
    const requestId = nextId()
    metrics.problems[problem.slug].inc()
    log.info({ requestId, problem: problem.slug, status: problem.status }, problem.message)
    return requestId
  }

  function refuse(request: IncomingMessage, response: ServerResponse, problem: Problem): void {
    answerProblem(request, response, { problem, requestId: report(problem) })
  }

  /** Where Node has no response to write to. */
  function refuseSocket(socket: Duplex, problem: Problem): void {
    answerSocket(socket, { problem, requestId: report(problem) })
  }

  function begin({ request, response, serve }: Turn): void {
    const refusal = headRefusal(request)
    if (refusal) refuse(request, response, refusal)
    else serve(request, response)
  }

  const server = createServer(
    {
      ...messages,
      maxHeaderSize: parserHeadBytesMost,
      requireHostHeader: false,
      headersTimeout: headTimeoutMs,
      requestTimeout: 0,
      keepAliveTimeout: keepAliveMs,
      connectionsCheckingInterval: Math.min(1_000, Math.ceil(headTimeoutMs / 4)),
    },
    (request, response) => {
      response.keepAliveLines = keepAliveLines
      take(request, response, listener)
    },
  )
  // Past its limit Node drops headers without a word, a last Authorization among them; head-checks counts.
  server.maxHeadersCount = 0

  server.on('timeout', (socket) => {
    // A client that has stopped taking its answer would hold an upstream's connection for ever. One that
    // waits for its answer is the upstream's matter, which has deadlines of its own.
    if (connectionOf(socket).turns.length === 0 || socket.writableLength > 0) socket.destroy()
    else socket.setTimeout(0)
  })
  server.on('connection', accept)
  server.on('checkContinue', (request, response) => {
    // The body is asked for only once the head has been found good.
    take(request, response, (checked, answer) => {
      answer.writeContinue()
      listener(checked, answer)
    })
  })
  server.on('checkExpectation', (request, response) => {
    take(request, response, (checked, answer) => {
      const detail = 'The only expectation that can be met is 100-continue.'
      refuse(checked, answer, new Problem('expectation-failed', { detail }))
    })
  })
  server.on('connect', (_request, socket) => {
    // Node takes its own listeners off this socket: without this one a reset would end the process.
    socket.on('error', () => socket.destroy())
    socket.resume()
    const connection = connectionOf(socket)
    if (isRefused(socket) || connection.takesNoMore) return
    connection.takesNoMore = true
    const problem = new Problem('method-not-allowed', {
      detail: 'CONNECT is never passed on.',
      headers: { Allow: 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS' },
    })
    if (connection.turns.length === 0) refuseSocket(socket, problem)
    // Node no longer drains the answers in front of it, and this one must not be taken for theirs.
    else socket.destroy()
  })
  server.on('clientError', (error: NodeJS.ErrnoException & { rawPacket?: Buffer }, socket) => {
    if (error.code === 'ECONNRESET') {
      socket.destroy()
      return
    }
    const connection = connectionOf(socket)
    // Also told of every further piece of what it could not read: hanging up would take the answer back.
    if (isRefused(socket) || connection.takesNoMore) return
    if (!socket.writable) {
      socket.destroy()
      return
    }
    connection.takesNoMore = true
    // Bytes after a request that said "Connection: close". They are nobody's, and its answer ends all.
    if (error.code === 'HPE_CLOSED_CONNECTION') return
    const { turns } = connection
    const last = turns.at(-1)
    // A client that leaves within its body: nothing is malformed, and nobody is there to be told.
    const begun = last?.request ?? connection.answeredEarly
    if (error.code === 'HPE_INVALID_EOF_STATE' && begun?.complete === false) {
      socket.destroy()
      return
    }
    const problem = problemOfParser(error)
    // The requests in front keep their answers, and a refusal written now would be taken for one of them.
    if (last === undefined) refuseSocket(socket, problem)
    else if (last.request.complete) connection.atEnd = () => refuseSocket(socket, problem)
    else if (turns.length > 1) last.serve = (request, response) => refuse(request, response, problem)
    else if (hasBegun(last.response)) socket.destroy()
    else refuse(last.request, last.response, problem)
  })

  /**
   * Node takes a connection for idle as soon as its answer has been handed over, and would cut that off. The others
   * wait for it: they can only be closed together.
   */
  function closeIdleConnections(): void {
    if (!open.someAreSlow) Server.prototype.closeIdleConnections.call(server)
  }

  /**
   * Node's own would also stop looking at the deadlines of heads: whoever never finishes one would hold up the end.
   */
  function close(onClosed?: (error?: Error) => void): TrafficServer {
    ConnectionServer.prototype.close.call(server, onClosed)
    server.once('close', () => Server.prototype.close.call(server))
    closeIdleConnections()
    return trafficServer
  }

  const trafficServer: TrafficServer = Object.assign(server, open.end, { close, closeIdleConnections })
  return trafficServer
}
