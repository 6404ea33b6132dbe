import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { getHeapStatistics } from 'node:v8'
import { destroyUnlessRead, type Refusable, refused, type TrafficResponse } from '../http/answer.ts'
import { createSpeakers, hasJustSpoken, type Speaker } from './half-closed.ts'
import { saysClose, upgradeMayHideBytes } from './head-checks.ts'
import type { OpenConnections } from './open-connections.ts'

/** A request in the queue of its connection. */
export interface PipelinedRequest {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  serve: RequestListener
  /** What it takes of `maxWaitingBytes`: nothing if no request was in front of it. */
  readonly waitingBytes: number
}

export interface Connection extends Speaker {
  /** The requests that have no complete answer yet. Only the first is being served. */
  readonly queue: PipelinedRequest[]
  /** The last request that was answered before all of its body had come. */
  answeredEarly: IncomingMessage | undefined
  /** Called once the queue is empty, if no further request is taken. */
  atEnd: (() => void) | undefined
  takesNoMore: boolean
  paused: boolean
  /** Of the requests that wait behind the first. */
  waitingBytes: number
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
/**
 * With more than this waiting behind the request that is being served, nothing more is read from a connection. Node parses
 * all of a piece that it has read, up to 64 KiB, so what else was in that piece waits too: perhaps 2,500 tiny requests.
 */
const maxWaiting = 8
const maxWaitingBytes = 65_536
/** What Node keeps of a request besides its bytes. */
const requestBytes = 1_024
/**
 * If more waits on all connections together, a connection that adds to it is cut, unless at most one large head waits
 * there. Cutting is all that stops Node from keeping the rest of a piece.
 */
const maxWaitingBytesInAll = Math.max(8_388_608, getHeapStatistics().heap_size_limit / 16)
const toleratedBytes = 16_384 + requestBytes

/**
 * Serves the requests of each connection one after another. RFC 9112 9.3.2 allows more only for safe methods: a GET
 * that is sent behind a POST expects to see what the POST did.
 */
export function createPipeline({ open, idleMs, begin }: PipelineOptions): Pipeline {
  /** On the socket itself: a look-up in a WeakMap costs more. */
  const served = Symbol('connection')
  let waitingBytesInAll = 0
  const noteRead = createSpeakers()

  function connectionOf(socket: Duplex & { [served]?: Connection }): Connection {
    const known = socket[served]
    if (known) return known
    const connection: Connection = {
      queue: [],
      answeredEarly: undefined,
      atEnd: undefined,
      takesNoMore: false,
      paused: false,
      hasJustSpoken: false,
      spokeAtMs: Number.NEGATIVE_INFINITY,
      waitingBytes: 0,
      idleChecks: 0,
      idleTimer: setInterval(() => checkIdle(socket, connection), Math.ceil(idleMs / maxIdleChecks)),
    }
    socket[served] = connection
    socket.once('close', () => {
      clearInterval(connection.idleTimer)
      waitingBytesInAll -= connection.waitingBytes
    })
    // Node would end the connection of every client that ends its own side (httpAllowHalfOpen).
    socket.on('end', () => {
      if (!hasJustSpoken(connection)) socket.end()
    })
    // Node resumes a socket after every answer, also one that was paused here.
    socket.on('resume', () => {
      if (connection.paused) socket.pause()
    })
    return connection
  }

  /**
   * Any byte stops Node's own idle timer, an empty line too, and Node's deadline for a head begins with the first byte
   * of a method. So an empty line would keep a connection open forever.
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
    if (open.isEnding || (response.shouldKeepAlive && saysClose(request))) open.endWith(response, connection)
    const waitingBytes = queue.length === 0 ? 0 : bytesOf(request)
    const pipelined = { request, response, serve, waitingBytes }
    if (queue.length === 0) {
      begin(pipelined)
      // Answered whole within this call. Any other answer may still leave a body behind that has to end.
      if (response.whole === 'sent') {
        connection.idleChecks = 0
        return
      }
    }
    queue.push(pipelined)
    noteRead(request, connection)
    response.on('close', () => {
      if (!request.complete) {
        connection.answeredEarly = request
        endBody(request)
      }
      queue.splice(queue.indexOf(pipelined), 1)
      next(socket, connection)
    })
    connection.waitingBytes += waitingBytes
    waitingBytesInAll += waitingBytes
    if (waitingBytesInAll > maxWaitingBytesInAll && connection.waitingBytes > toleratedBytes) {
      connection.takesNoMore = true
      socket.destroy()
      return
    }
    if (!connection.paused && waitsTooMuch(connection)) {
      connection.paused = true
      socket.pause()
    }
  }

  function next(socket: Refusable, connection: Connection): void {
    if (socket.destroyed || socket[refused]) return
    const { queue, atEnd } = connection
    const first = queue[0]
    if (first) {
      connection.waitingBytes -= first.waitingBytes
      waitingBytesInAll -= first.waitingBytes
    }
    if (connection.paused && !waitsTooMuch(connection)) {
      connection.paused = false
      socket.resume()
    }
    if (first) begin(first)
    else if (atEnd) atEnd()
    else connection.idleChecks = 0
  }

  return { connectionOf, take }
}

function waitsTooMuch({ queue, waitingBytes }: Connection): boolean {
  return queue.length - 1 > maxWaiting || waitingBytes > maxWaitingBytes
}

/** The size of a head, and of as much of a body as may lie behind it. */
function bytesOf({ url = '', rawHeaders, headers }: IncomingMessage): number {
  let bytes = requestBytes + url.length
  for (const part of rawHeaders) bytes += part.length
  if (headers['transfer-encoding'] !== undefined) return bytes + maxWaitingBytes
  return bytes + Math.min(Number(headers['content-length'] ?? 0) || 0, maxWaitingBytes)
}

/** Reads or ends a body that is still on its way when its request has been answered. */
function endBody(request: IncomingMessage): void {
  // Node waits forever for the end of a body that is not read.
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
