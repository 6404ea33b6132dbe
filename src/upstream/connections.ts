import type { Socket } from 'node:net'
import { type buildConnector, Client, type Dispatcher, errors } from 'undici'
import { bodilessStatuses, headerLines, latin1Headers } from '../http/headers.ts'
import { asHandled, type ConnectionOptions, connectorFor, guardSocket } from './connector.ts'

export interface ConnectionsOptions extends ConnectionOptions {
  max: number
}

/** undici's raw handler, whose `onError` also gets whether any byte of an answer came before the error. */
export interface TryHandler {
  onConnect(abort: (reason?: Error) => void): void
  onHeaders(status: number, rawHeaders: Buffer[], resume: () => void, reason: string): boolean
  onData(chunk: Buffer): boolean
  onComplete(): void
  onError(error: Error, answerBegan: boolean): void
}

export interface Try {
  /** Leaves the queue; false if it has left the queue already. */
  withdraw(): boolean
}

/**
 * The connections to one origin, one request at a time on each, and those who wait for one. Not undici's Pool:
 * its `clientTtl` leaves a request waiting for the next one when every client is due at once, and a client that
 * failed to connect leaves its count yet goes on to serve its queue, past the limit (7.30.2).
 */
export class Connections {
  readonly #options: ConnectionsOptions
  readonly #connector: ReturnType<typeof connectorFor>
  readonly #all: Connection[] = []
  /** The connection used last is taken first, so that those that are not needed grow old and close. */
  readonly #free: Connection[] = []
  readonly #waiting = new Set<QueuedTry>()
  #closed: Error | undefined

  constructor(options: ConnectionsOptions) {
    this.#options = options
    this.#connector = connectorFor(options)
  }

  get stats(): { busy: number; idle: number } {
    const idle = this.#free.filter((connection) => connection.isOpen).length
    return { busy: this.#all.length - this.#free.length, idle }
  }

  dispatch(request: Dispatcher.DispatchOptions, handler: TryHandler): Try {
    const one = new QueuedTry(request, handler, this)
    const connection = this.#free.pop() ?? this.#another()
    const closed = this.#closed
    if (closed) process.nextTick(() => one.onError(closed))
    else if (connection) one.start(connection)
    else this.#waiting.add(one)
    return one
  }

  withdraw(one: QueuedTry): boolean {
    return this.#waiting.delete(one)
  }

  giveBack(connection: Connection): void {
    // Not at once: an upstream may close behind its answer, and until the event loop has read that, the next POST would be
    // lost on this connection. Each connection has its own immediate, so that each is read before it is free.
    setImmediate(this.#release, connection)
  }

  async close(): Promise<void> {
    const error = new errors.ClientDestroyedError('the gateway is shutting down')
    this.#closed = error
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    for (const one of waiting) one.onError(error)
    await Promise.all(this.#all.map((connection) => connection.close(error)))
  }

  #another(): Connection | undefined {
    if (this.#all.length >= this.#options.max) return undefined
    const connection = new Connection(this.#options, this.#connector)
    this.#all.push(connection)
    return connection
  }

  readonly #release = (connection: Connection): void => {
    const [next] = this.#waiting
    if (next) {
      this.#waiting.delete(next)
      next.start(connection)
    } else if (connection.isOpen) this.#free.push(connection)
    else this.#free.unshift(connection)
  }
}

/** A place for one connection, made when it is first used, and again when it is lost or too old. */
class Connection {
  readonly #options: ConnectionOptions
  readonly #connector: buildConnector.connector
  #client: Client
  #socket: Socket | undefined
  #connectedAtMs = 0
  /** Whether it ended with a reset: the answer that ended with it is not whole. */
  wasReset = false
  /** Resumes the last answer. */
  #resume: (() => void) | undefined

  constructor(options: ConnectionOptions, connector: buildConnector.connector) {
    this.#options = options
    this.#connector = connector
    this.#client = this.#newClient()
  }

  get isOpen(): boolean {
    return this.#socket?.destroyed === false
  }

  get bytesRead(): number {
    return this.#socket?.bytesRead ?? 0
  }

  dispatch(request: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    const isOld = performance.now() - this.#connectedAtMs > this.#options.lifeMs
    if (isOld && this.isOpen) {
      void this.#client.destroy()
      this.#client = this.#newClient()
    }
    this.#client.dispatch(request, handler)
  }

  /** A new connection takes its place before the next request. */
  retire(): void {
    this.#connectedAtMs = Number.NEGATIVE_INFINITY
  }

  rememberResume(resume: () => void): void {
    this.#resume = resume
  }

  close(error: Error): Promise<void> {
    return this.#client.destroy(error)
  }

  #newClient(): Client {
    return new Client(this.#options.origin, {
      ...this.#options.client,
      pipelining: 1,
      connect: (target, callback) => {
        this.#connector(target, (...[error, socket]) => {
          if (error) return callback(asHandled(error), null)
          this.#socket = socket
          this.wasReset = false
          this.#connectedAtMs = performance.now()
          guardSocket(socket, {
            beforeEnd: () => this.#resume?.(),
            ended: ({ wasReset }) => {
              this.wasReset = wasReset
            },
          })
          callback(null, socket)
        })
      },
    })
  }
}

function isChunked(rawHeaders: readonly Buffer[]): boolean {
  return headerLines(latin1Headers(rawHeaders), 'transfer-encoding') !== undefined
}

/** One try of a request: waits for a connection, holds it, gives it back. */
class QueuedTry implements Try {
  readonly #request: Dispatcher.DispatchOptions
  readonly #handler: TryHandler
  readonly #connections: Connections
  #connection: Connection | undefined
  #bytesReadBefore: number | undefined

  constructor(request: Dispatcher.DispatchOptions, handler: TryHandler, connections: Connections) {
    this.#request = request
    this.#handler = handler
    this.#connections = connections
  }

  withdraw(): boolean {
    return this.#connections.withdraw(this)
  }

  start(connection: Connection): void {
    this.#connection = connection
    connection.dispatch(this.#request, this)
  }

  onConnect(abort: (reason?: Error) => void): void {
    this.#bytesReadBefore = this.#connection?.bytesRead
    this.#handler.onConnect(abort)
  }

  onHeaders(status: number, rawHeaders: Buffer[], resume: () => void, reason: string): boolean {
    this.#connection?.rememberResume(resume)
    // Some upstreams send the end of chunks behind an answer that has no body (RFC 9112 6.1). The next request would take
    // it for its answer, and a payment that was made would be a 502. undici handles an answer that states a length.
    if (bodilessStatuses.has(status) && isChunked(rawHeaders)) this.#connection?.retire()
    return this.#handler.onHeaders(status, rawHeaders, resume, reason)
  }

  onData(chunk: Buffer): boolean {
    // An empty chunk is what undici's parser says when it is resumed and has nothing left.
    return chunk.length === 0 || this.#handler.onData(chunk)
  }

  onComplete(): void {
    if (this.#connection?.wasReset) {
      this.onError(new errors.SocketError('reset by the upstream'))
      return
    }
    this.#giveBack()
    this.#handler.onComplete()
  }

  onError(error: Error): void {
    const answerBegan =
      this.#bytesReadBefore !== undefined && this.#connection?.bytesRead !== this.#bytesReadBefore
    this.#giveBack()
    this.#handler.onError(error, answerBegan)
  }

  #giveBack(): void {
    if (this.#connection) this.#connections.giveBack(this.#connection)
  }
}
