import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { hasBegun } from '../http/answer.ts'

/** A request in the queue of its connection. */
export interface PipelinedRequest {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  serve: RequestListener
  /** What it takes of `maxWaitingBytes`: nothing if no request was in front of it. */
  readonly waitingBytes: number
}

/** The two packets of a client that ends its own side right behind its request may be this far apart. */
const justMs = 1

/** A client's connection, with what is to be known of it between two requests. */
export class Connection {
  /** The requests that have no complete answer yet. Only the first is being served. */
  readonly queue: PipelinedRequest[] = []
  /** The last request that was answered before all of its body had come. */
  answeredEarly: IncomingMessage | undefined
  /** Called once the queue is empty, if no further request is taken. */
  atEnd: (() => void) | undefined
  takesNoMore = false
  paused = false
  /** Of how many requests the last byte was read in this turn of the event loop, or in the one before. */
  #spokeLately = 0
  #spokeAtMs = Number.NEGATIVE_INFINITY
  /** Of the requests that wait behind the first. */
  waitingBytes = 0
  /** How many idle checks in a row found nothing going on. */
  idleChecks = 0

  /**
   * A client that leaves and one that ends only its own side send the same FIN. The latter sends it right behind its
   * request, so both are read in one turn of the event loop or in two that follow each other, however late these come; or
   * within a millisecond.
   */
  get hasJustSpoken(): boolean {
    return this.#spokeLately > 0 || performance.now() - this.#spokeAtMs < justMs
  }

  /** The last byte of a request was read. */
  noteSpoken(): void {
    this.#spokeAtMs = performance.now()
    this.#spokeLately += 1
    const forget = () => {
      this.#spokeLately -= 1
    }
    setImmediate(() => setImmediate(forget))
  }

  /**
   * Makes this response the last of the connection (RFC 9112 9.6): what was taken is answered, the last of it with
   * `Connection: close`, and no more is taken.
   */
  endWith(response: ServerResponse | undefined): void {
    if (response === undefined || hasBegun(response)) return
    response.shouldKeepAlive = false
    this.takesNoMore = true
  }
}

/** The clients' connections that are served, at most `max`, and how they end. */
export class OpenConnections {
  readonly #max: number
  readonly #open = new Map<Socket, Connection>()
  /** Whether the end was announced. */
  isEnding = false

  constructor(max: number) {
    this.#max = max
  }

  /** False if there are too many. */
  add(socket: Socket, connection: Connection): boolean {
    if (this.#open.size >= this.#max) return false
    this.#open.set(socket, connection)
    socket.once('close', () => this.#open.delete(socket))
    return true
  }

  /** Closes the oldest connection without a whole request that waits for its answer. False: each has one. */
  closeUnused(): boolean {
    for (const [socket, { queue }] of this.#open) {
      if (queue[0]?.request.complete) continue
      this.#open.delete(socket)
      socket.destroy()
      return true
    }
    return false
  }

  /** Whether a client has not taken all of an answer yet that is ready to the end. */
  get someAreSlow(): boolean {
    for (const { queue } of this.#open.values()) {
      const response = queue[0]?.response
      if (response?.writableEnded && !response.writableFinished) return true
    }
    return false
  }

  /** The steps of an orderly end; lifecycle.ts says when. They are bound, because a server has them as its own. */
  readonly end = {
    /** From now on the next answer of each connection has `Connection: close`. */
    announceEnd: () => {
      this.isEnding = true
      for (const connection of this.#open.values()) connection.endWith(connection.queue.at(-1)?.response)
    },
    /** Closes connections on which not a byte was ever received. */
    closeSilentConnections: () => {
      for (const socket of this.#open.keys()) if (socket.bytesRead === 0) socket.destroy()
    },
    /** Ends everything at once; an answer that was under way must not look whole. */
    cutConnections: () => {
      for (const [socket, { queue }] of this.#open) {
        // A body that ends with its connection would look complete if that was closed the usual way.
        if (queue.length > 0) socket.resetAndDestroy()
        else socket.destroy()
      }
    },
  }
}
