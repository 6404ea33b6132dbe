import {
  createServer,
  IncomingMessage,
  type RequestListener,
  type Server,
} from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { getHeapStatistics } from 'node:v8'
import { systemTimers, type Timers } from '../clock.ts'
import {
  bodyExpected,
  destroyUnlessRead,
  hasBegun,
  type Refusable,
  refused,
  TrafficResponse,
} from '../http/answer.ts'
import { ClientConnection, type PipelinedRequest } from './connections.ts'
import { saysClose } from './head-checks.ts'
import { whenBodyEnds } from './upgrades.ts'

/** A connection is closed once more checks in a row find it idle. A timer set again for each request costs more. */
const maxIdleChecks = 4
/**
 * With more waiting behind the current request, nothing more is read from a connection. Node parses the whole piece
 * that it has read, up to 64 KiB, so the rest of it waits too: perhaps 2,500 tiny requests.
 */
const maxWaiting = 8
const maxWaitingBytes = 65_536
/** Node's memory for a request besides its bytes. */
const requestBytes = 1_024
/**
 * If more waits on all connections together, a connection that adds to it is cut, unless only one large head waits
 * there. Only a cut stops Node from keeping the rest of a piece.
 */
const maxWaitingBytesInAll = Math.max(8_388_608, getHeapStatistics().heap_size_limit / 16)
const toleratedBytes = 16_384 + requestBytes

/** The key is on the socket itself, because a WeakMap costs more. */
const served = Symbol('connection')

interface PipelineOptions {
  maxConnections: number
  /** How long a connection may be idle, and an answer unread. */
  idleMs: number
  timers?: Timers | undefined
}

/**
 * The clients' connections, and how they end. Each serves its requests one after another: RFC 9112 9.3.2 allows more
 * only for safe methods, and a GET behind a POST expects to see what the POST did.
 */
export class Pipeline {
  readonly #options: PipelineOptions
  readonly #timers: Timers
  readonly #open = new Map<Socket, ClientConnection>()
  #isEnding = false
  #waitingBytesInAll = 0

  constructor(options: PipelineOptions) {
    this.#options = options
    this.#timers = options.timers ?? systemTimers
  }

  /** False: there are too many connections. */
  accept(socket: Socket): boolean {
    const connection = this.connectionOf(socket)
    if (this.#open.size >= this.#options.maxConnections) return false
    this.#open.set(socket, connection)
    socket.once('close', () => this.#open.delete(socket))
    return true
  }

  /** Closes the oldest connection without a complete request. False: there is none. */
  closeUnused(): boolean {
    for (const [socket, { queue }] of this.#open) {
      if (queue[0]?.request.complete) continue
      this.#open.delete(socket)
      socket.destroy()
      return true
    }
    return false
  }

  /** Whether a client has not taken all of a complete answer yet. */
  get someAreSlow(): boolean {
    for (const { queue } of this.#open.values()) {
      const response = queue[0]?.response
      if (response?.writableEnded && !response.writableFinished) return true
    }
    return false
  }

  /**
   * The steps of an orderly shutdown; lifecycle.ts says when. They are bound, because a server gets them as methods.
   */
  readonly end = {
    /** From now on the next answer of each connection has `Connection: close`. */
    announceEnd: () => {
      this.#isEnding = true
      for (const connection of this.#open.values())
        connection.endWith(connection.queue.at(-1)?.response)
    },
    closeSilentConnections: () => {
      for (const socket of this.#open.keys()) if (socket.bytesRead === 0) socket.destroy()
    },
    /** An answer under way must not look whole. */
    cutConnections: () => {
      for (const [socket, { queue }] of this.#open) {
        // After an ordinary close, a body that ends with its connection would look complete.
        if (queue.length > 0) socket.resetAndDestroy()
        else socket.destroy()
      }
    },
  }

  connectionOf(socket: Duplex & { [served]?: ClientConnection }): ClientConnection {
    const known = socket[served]
    if (known) return known
    const connection = new ClientConnection()
    socket[served] = connection
    const idleTimer = this.#timers.setInterval(
      () => this.#checkIdle(socket, connection),
      Math.ceil(this.#options.idleMs / maxIdleChecks),
    )
    socket.once('close', () => {
      this.#timers.clear(idleTimer)
      this.#waitingBytesInAll -= connection.waitingBytes
    })
    // By default Node ends the connection of every client that ends its own side; with httpAllowHalfOpen it ends none
    // that waits for an answer. Here the connection of a client that has left ends.
    socket.on('end', () => {
      if (!connection.hasJustSpoken) socket.end()
    })
    // Node resumes a socket after every answer.
    socket.on('resume', () => {
      if (waitsTooMuch(connection)) socket.pause()
    })
    return connection
  }

  /**
   * Without this check empty lines keep a connection open forever: any byte stops Node's idle timer, and Node's
   * deadline for a head begins with a method's first byte.
   */
  #checkIdle(socket: Duplex, connection: ClientConnection): void {
    const client = connection.queue[0]?.request.socket
    if (client === undefined) {
      connection.idleChecks += 1
      if (connection.idleChecks > maxIdleChecks) socket.destroy()
      return
    }
    connection.idleChecks = 0
    // Node restarts its timer with every byte taken.
    if (client.writableLength > 0 && !client.timeout)
      client.setTimeout(this.#options.idleMs)
  }

  /** Takes a request, and serves it at once if no other is in front. */
  take(
    request: IncomingMessage,
    response: TrafficResponse,
    serve: RequestListener,
  ): void {
    const socket: IncomingMessage['socket'] & Refusable = request.socket
    const connection = this.connectionOf(socket)
    if (socket[refused] || connection.takesNoMore) return
    const { queue, received } = connection
    if (request.headers.upgrade !== undefined)
      this.#endUnlessAlone(request, response, connection)
    else if (received.isCounted) received.missing(request)
    if (this.#isEnding || (response.shouldKeepAlive && saysClose(request)))
      connection.endWith(response)
    const waitingBytes = queue.length === 0 ? 0 : bytesOf(request)
    if (queue.length === 0) {
      serve(request, response)
      // Answered completely within this call. Any other answer may leave a body behind that has to end.
      if (response.whole === 'sent') {
        connection.idleChecks = 0
        return
      }
    }
    const pipelined = { request, response, serve, waitingBytes }
    queue.push(pipelined)
    if (bodyExpected(request)) request.once('end', () => connection.noteSpoken())
    connection.noteSpoken()
    response.on('close', () => this.#next(socket, connection, pipelined))
    connection.waitingBytes += waitingBytes
    this.#waitingBytesInAll += waitingBytes
    if (
      this.#waitingBytesInAll > maxWaitingBytesInAll &&
      connection.waitingBytes > toleratedBytes
    ) {
      connection.takesNoMore = true
      socket.destroy()
      return
    }
    if (waitsTooMuch(connection)) socket.pause()
  }

  /** Makes a request for an upgrade the last of its connection, unless it is certain to be alone. */
  #endUnlessAlone(
    request: IncomingMessage,
    response: TrafficResponse,
    connection: ClientConnection,
  ): void {
    const { received } = connection
    const missing = received.missing(request)
    if (missing === 0) return
    const keepsAlive = response.shouldKeepAlive && !saysClose(request)
    connection.takesNoMore = true
    response.shouldKeepAlive = false
    if (!(missing > 0)) return
    whenBodyEnds(request, response, () => {
      if (received.missing(request) !== 0 || hasBegun(response) || this.#isEnding) return
      connection.takesNoMore = false
      response.shouldKeepAlive = keepsAlive
    })
  }

  #next(
    socket: Refusable,
    connection: ClientConnection,
    answered: PipelinedRequest,
  ): void {
    const { queue, atEnd } = connection
    const { request } = answered
    if (!request.complete) {
      connection.answeredEarly = request
      endBody(request)
    }
    const wasPaused = waitsTooMuch(connection)
    queue.splice(queue.indexOf(answered), 1)
    if (socket.destroyed || socket[refused]) return
    const first = queue[0]
    if (first) {
      connection.waitingBytes -= first.waitingBytes
      this.#waitingBytesInAll -= first.waitingBytes
    }
    if (wasPaused && !waitsTooMuch(connection)) socket.resume()
    if (first) first.serve(first.request, first.response)
    else if (atEnd) atEnd()
    else connection.idleChecks = 0
  }
}

function waitsTooMuch({ queue, waitingBytes }: ClientConnection): boolean {
  return queue.length - 1 > maxWaiting || waitingBytes > maxWaitingBytes
}

/** The bytes of a head, and of its body up to `maxWaitingBytes`. */
function bytesOf({ url = '', rawHeaders, headers }: IncomingMessage): number {
  let bytes = requestBytes + url.length
  for (const part of rawHeaders) bytes += part.length
  if (headers['transfer-encoding'] !== undefined) return bytes + maxWaitingBytes
  return bytes + Math.min(Number(headers['content-length'] ?? 0) || 0, maxWaitingBytes)
}

/** Reads or ends the body of a request that has been answered. */
function endBody(request: IncomingMessage): void {
  // Node waits forever for an unread body.
  if (request.listenerCount('data') === 0) destroyUnlessRead(request)
  // Node no longer tells a body's reader that the connection has ended.
  const { socket } = request
  if (socket.destroyed) {
    request.destroy()
    return
  }
  const end = () => request.destroy()
  socket.once('close', end)
  request.once('close', () => socket.off('close', end))
}

/** Node's own limit misses connections that only send empty lines. */
const operationsIdleMs = 60_000

/**
 * The operations server shares the event loop with the traffic. It serves one request of a connection at a time, and
 * holds at most `maxConnections`, at most 200 of them for the console's viewers.
 */
export function createOperationsServer(
  listener: RequestListener,
  maxConnections = 256,
): Server {
  const pipeline = new Pipeline({ maxConnections, idleMs: operationsIdleMs })
  const server = createServer(
    { IncomingMessage, ServerResponse: TrafficResponse },
    (request, response) => pipeline.take(request, response, listener),
  )
  server.on('connection', (socket: Socket) => {
    // A health probe has to be answered, even if one client holds all connections.
    if (!pipeline.accept(socket) && !(pipeline.closeUnused() && pipeline.accept(socket)))
      socket.destroy()
  })
  return server as Server
}
