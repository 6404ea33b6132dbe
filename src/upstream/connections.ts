import type { Socket } from 'node:net'
import { type buildConnector, Client, type Dispatcher, errors } from 'undici'
import { bodilessStatuses, headerLines, latin1Headers } from '../http/headers.ts'
import { type ConnectionOptions, createConnector, guardSocket, withoutAltNameCode } from './connector.ts'

export interface ConnectionsOptions extends ConnectionOptions {
  max: number
}

/** undici's raw handler, whose `onError` also says whether any byte of an answer came before the error. */
export interface TryHandler {
  onConnect(abort: (reason?: Error) => void): void
  onHeaders(status: number, rawHeaders: Buffer[], resume: () => void, reason: string): boolean
  onData(chunk: Buffer): boolean
  onComplete(): void
  onError(error: Error, answerBegan: boolean): void
}

export interface Try {
  /** Takes the try out of the queue. False: it was not in the queue any more. */
  withdraw(): boolean
}

/**
 * The connections to one origin, with one request at a time on each, and the queue of requests that wait for a
 * connection. Not undici's Pool (7.30.2): when its `clientTtl` ends for every client at once, a request waits until
 * another request comes; and a client that failed to connect is no longer counted, yet serves its queue, past the limit.
 */
export class Connections {
  readonly #options: ConnectionsOptions
  readonly #connector: ReturnType<typeof createConnector>
  readonly #all: Connection[] = []
  /** The connection used last is taken first, so that unneeded connections stay idle and close. */
  readonly #free: Connection[] = []
  readonly #waiting = new Set<QueuedTry>()
  #closed: Error | undefined

  constructor(options: ConnectionsOptions) {
    this.#options = options
    this.#connector = createConnector(options)
  }

  get stats(): { busy: number; idle: number } {
    const idle = this.#free.filter((connection) => connection.isOpen).length
    return { busy: this.#all.length - this.#free.length, idle }
  }

  dispatch(request: Dispatcher.DispatchOptions, handler: TryHandler): Try {
    const queued = new QueuedTry(request, handler, this)
    const connection = this.#free.pop() ?? this.#newConnection()
    const closed = this.#closed
    if (closed) process.nextTick(() => queued.onError(closed))
    else if (connection) queued.start(connection)
    else this.#waiting.add(queued)
    return queued
  }

  withdraw(queued: QueuedTry): boolean {
    return this.#waiting.delete(queued)
  }

  giveBack(connection: Connection): void {
    // Not at once: an upstream may close after its answer, and until the event loop has read that end, the next POST on
    // this connection would be lost. Each connection has its own immediate, so that each is read before it is free.
    setImmediate(this.#release, connection)
  }

  async close(): Promise<void> {
    const error = new errors.ClientDestroyedError('the gateway is shutting down')
    this.#closed = error
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    for (const queued of waiting) queued.onError(error)
    await Promise.all(this.#all.map((connection) => connection.close(error)))
  }

  #newConnection(): Connection | undefined {
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

/** One connection at a time to one origin. It connects at the first request, and again when it is lost or too old. */
class Connection {
  readonly #options: ConnectionOptions
  readonly #connector: buildConnector.connector
  #client: Client
  #socket: Socket | undefined
  #connectedAtMs = 0
  /** Whether the connection ended with a reset, so that the answer that ended with it is incomplete. */
  wasReset = false
  /** Resumes the last answer if it is paused. */
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
    const isOld = performance.now() - this.#connectedAtMs > this.#options.maxAgeMs
    if (isOld && this.isOpen) {
      void this.#client.destroy()
      this.#client = this.#newClient()
    }
    this.#client.dispatch(request, handler)
  }

  /** Has a new connection made for the next request. */
  retire(): void {
    this.#connectedAtMs = Number.NEGATIVE_INFINITY
  }

  setResume(resume: () => void): void {
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
          if (error) return callback(withoutAltNameCode(error), null)
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

/** One try of a request. It waits for a connection, holds it until the answer ends, and gives it back. */
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
    this.#connection?.setResume(resume)
    // Some upstreams send a last chunk after an answer that has no body (RFC 9112 6.1). The next request on the
    // connection would read that chunk as its answer, and a payment that succeeded would become a 502. undici handles
    // an answer that states a length.
    if (bodilessStatuses.has(status) && isChunked(rawHeaders)) this.#connection?.retire()
    return this.#handler.onHeaders(status, rawHeaders, resume, reason)
  }

  onData(chunk: Buffer): boolean {
    // undici's parser emits an empty chunk when it is resumed and has no bytes left.
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
