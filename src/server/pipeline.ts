import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { destroyUnlessRead } from '../http/lingering-close.ts'
import { type Refusable, refused } from '../http/problem-response.ts'
import type { TrafficResponse } from '../http/whole-response.ts'
import { upgradeMayHideBytes } from './head-checks.ts'
import type { OpenConnections } from './open-connections.ts'

/** A request in the queue of its connection. */
export interface PipelinedRequest {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  serve: RequestListener
}

export interface Connection {
  /** The requests that have no complete answer yet. Only the first is being served. */
  readonly queue: PipelinedRequest[]
  /** The last request that was answered before all of its body had come. */
  answeredEarly: IncomingMessage | undefined
  /** Called once the queue is empty, if no further request is taken. */
  atEnd: (() => void) | undefined
  takesNoMore: boolean
  paused: boolean
  /** How many idle checks in a row found nothing going on. */
  idleChecks: number
  readonly idleTimer: NodeJS.Timeout
}

export interface Pipeline {
  connectionOf(socket: Duplex): Connection
  /** Takes a request, and serves it at once if no other request of its connection is in front of it. */
  take(request: IncomingMessage, response: TrafficResponse, serve: RequestListener): void
}

export interface PipelineOptions {
  open: OpenConnections
  /** How long a connection may be idle, and how long its client may leave an answer unread. */
  idleMs: number
  /** Serves the request that is now the first of its connection. */
  begin(first: PipelinedRequest): void
}

/** An idle connection is closed at this check. A timer that is set again for each request costs more. */
const maxIdleChecks = 4
/** With more requests than this in the queue of a connection, nothing more is read from it. */
const maxPipelined = 64

/**
 * Serves the requests of each connection one after another. RFC 9112 9.3.2 allows more only for safe methods: a GET
 * that is sent behind a POST expects to see what the POST did.
 */
export function createPipeline({ open, idleMs, begin }: PipelineOptions): Pipeline {
  /** On the socket itself: a look-up in a WeakMap costs more. */
  const served = Symbol('connection')

  function connectionOf(socket: Duplex & { [served]?: Connection }): Connection {
    const known = socket[served]
    if (known) return known
    const connection: Connection = {
      queue: [],
      answeredEarly: undefined,
      atEnd: undefined,
      takesNoMore: false,
      paused: false,
      idleChecks: 0,
      idleTimer: setInterval(() => checkIdle(socket, connection), Math.ceil(idleMs / maxIdleChecks)),
    }
    socket[served] = connection
    socket.once('close', () => clearInterval(connection.idleTimer))
    // Node resumes a socket after every answer, also one that was paused here.
    socket.on('resume', () => {
      if (connection.paused) socket.pause()
    })
    return connection
  }

  /**
   * Any byte stops Node's own idle timer, an empty line too, and Node's deadline for a head begins with the first byte
   * of a method. So an empty line would keep a connection open for ever.
   */
  function checkIdle(socket: Duplex, connection: Connection): void {
    const client = connection.queue[0]?.request.socket
    if (client === undefined) {
      connection.idleChecks += 1
      if (connection.idleChecks > maxIdleChecks) socket.destroy()
      return
    }
    connection.idleChecks = 0
    // Node begins its timer again with every byte that the client takes.
    if (client.writableLength > 0 && !client.timeout) client.setTimeout(idleMs)
  }

  function take(request: IncomingMessage, response: TrafficResponse, serve: RequestListener): void {
    const socket: IncomingMessage['socket'] & Refusable = request.socket
    const connection = connectionOf(socket)
    if (socket[refused] || connection.takesNoMore) return
    const { queue } = connection
    if (request.headers.upgrade !== undefined && upgradeMayHideBytes(request)) {
      connection.takesNoMore = true
      response.shouldKeepAlive = false
    }
    if (open.isEnding) open.endWith(response, connection)
    const pipelined = { request, response, serve }
    if (queue.length === 0) {
      begin(pipelined)
      // Answered whole within this call. Any other answer may still leave a body behind that has to end.
      if (response.whole === 'sent') {
        connection.idleChecks = 0
        return
      }
    }
    queue.push(pipelined)
    response.on('close', () => {
      if (!request.complete) {
        connection.answeredEarly = request
        endBody(request)
      }
      queue.splice(queue.indexOf(pipelined), 1)
      next(socket, connection)
    })
    if (queue.length > maxPipelined && !connection.paused) {
      connection.paused = true
      socket.pause()
    }
  }

  function next(socket: Refusable, connection: Connection): void {
    if (socket.destroyed || socket[refused]) return
    const { queue, atEnd } = connection
    if (connection.paused && queue.length <= maxPipelined) {
      connection.paused = false
      socket.resume()
    }
    const first = queue[0]
    if (first) begin(first)
    else if (atEnd) atEnd()
    else connection.idleChecks = 0
  }

  return { connectionOf, take }
}

/** Reads or ends a body that is still on its way when its request has been answered. */
function endBody(request: IncomingMessage): void {
  // Node waits for ever for the end of a body that is not read.
  if (request.listenerCount('data') === 0) destroyUnlessRead(request)
  // Node no longer notifies a reader of the body that the connection has ended.
  const { socket } = request
  if (socket.destroyed) {
    request.destroy()
    return
  }
  const end = () => request.destroy()
  socket.once('close', end)
  request.once('close', () => socket.off('close', end))
}
