import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { destroyUnlessRead, isRefused } from '../http/problem-response.ts'
import type { TrafficResponse } from '../http/whole-response.ts'
import { upgradeMayHideBytes } from './head-checks.ts'
import type { OpenConnections } from './open-connections.ts'

/** A request in the queue of its connection. */
export interface Turn {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  serve: RequestListener
}

export interface Connection {
  /** The requests that have no complete answer yet. Only the first is being served. */
  readonly turns: Turn[]
  /** The last request that was answered before its body had come to its end. */
  answeredEarly: IncomingMessage | undefined
  /** What to do once all of them have been answered, when no further request is taken. */
  atEnd: (() => void) | undefined
  takesNoMore: boolean
  paused: boolean
  /** How often in a row nothing was going on. */
  idleLooks: number
  readonly lookTimer: NodeJS.Timeout
}

export interface Turns {
  connectionOf(socket: Duplex): Connection
  /** Takes a request on, whose turn may be now. */
  take(request: IncomingMessage, response: TrafficResponse, serve: RequestListener): void
}

export interface TurnsOptions {
  open: OpenConnections
  /** As long as a connection may be idle, and its client may take nothing of an answer. */
  stillMs: number
  /** Its turn has come. */
  begin(turn: Turn): void
}

/** How often an idle connection is looked at until it is closed: a timer set anew for each request costs more. */
const idleLooks = 4
/** Requests waiting behind one another on a connection, past which nothing more is read from it. */
const pipelinedMost = 64

/**
 * The clients' connections, the requests of each served one after another (RFC 9112 9.3.2 allows more only for safe
 * methods): a GET sent behind a POST expects to see what the POST did.
 */
export function createTurns({ open, stillMs, begin }: TurnsOptions): Turns {
  /** On the socket itself: to look it up in a WeakMap costs more. */
  const served = Symbol('connection')

  function connectionOf(socket: Duplex & { [served]?: Connection }): Connection {
    const known = socket[served]
    if (known) return known
    const connection: Connection = {
      turns: [],
      answeredEarly: undefined,
      atEnd: undefined,
      takesNoMore: false,
      paused: false,
      idleLooks: 0,
      lookTimer: setInterval(() => look(socket, connection), Math.ceil(stillMs / idleLooks)),
    }
    socket[served] = connection
    socket.once('close', () => clearInterval(connection.lookTimer))
    // Node reads on after every answer, whoever paused.
    socket.on('resume', () => {
      if (connection.paused) socket.pause()
    })
    return connection
  }

  /**
   * Node's own idle timer is stopped by any byte, an empty line too, and its deadline for a head only begins with
   * the first byte of a method: an empty line would keep a connection open for ever.
   */
  function look(socket: Duplex, connection: Connection): void {
    const client = connection.turns[0]?.request.socket
    if (client === undefined) {
      connection.idleLooks += 1
      if (connection.idleLooks > idleLooks) socket.destroy()
      return
    }
    connection.idleLooks = 0
    // Node's timer starts anew with every byte that the client takes.
    if (client.writableLength > 0 && !client.timeout) client.setTimeout(stillMs)
  }

  function take(request: IncomingMessage, response: TrafficResponse, serve: RequestListener): void {
    const { socket } = request
    const connection = connectionOf(socket)
    if (isRefused(socket) || connection.takesNoMore) return
    const { turns } = connection
    if (request.headers.upgrade !== undefined && upgradeMayHideBytes(request)) {
      connection.takesNoMore = true
      response.shouldKeepAlive = false
    }
    open.tookOn(connection, response)
    const turn = { request, response, serve }
    if (turns.length === 0) {
      begin(turn)
      // Answered whole within this call. Any other answer may still leave a body behind that has to end.
      if (response.whole === 'sent') {
        connection.idleLooks = 0
        return
      }
    }
    turns.push(turn)
    response.on('close', () => {
      if (!request.complete) {
        connection.answeredEarly = request
        endBody(request)
      }
      turns.splice(turns.indexOf(turn), 1)
      next(socket, connection)
    })
    if (turns.length > pipelinedMost && !connection.paused) {
      connection.paused = true
      socket.pause()
    }
  }

  function next(socket: Duplex, connection: Connection): void {
    if (socket.destroyed || isRefused(socket)) return
    const { turns, atEnd } = connection
    if (connection.paused && turns.length <= pipelinedMost) {
      connection.paused = false
      socket.resume()
    }
    const turn = turns[0]
    if (turn) begin(turn)
    else if (atEnd) atEnd()
    else connection.idleLooks = 0
  }

  return { connectionOf, take }
}

/** For a body that is still on its way when its answer is over. */
function endBody(request: IncomingMessage): void {
  // Whoever answers without a look at the body leaves its end to Node, which waits for it for ever.
  if (request.listenerCount('data') === 0) destroyUnlessRead(request)
  // Node no longer tells a reader of it that the connection has ended.
  const { socket } = request
  if (socket.destroyed) {
    request.destroy()
    return
  }
  const end = () => request.destroy()
  socket.once('close', end)
  request.once('close', () => socket.off('close', end))
}
