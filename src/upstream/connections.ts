import type { LookupFunction, Socket } from 'node:net'
import { buildConnector, Client, type Dispatcher, errors } from 'undici'
import { bodilessStatuses, headerLines, latin1Headers } from '../http/headers.ts'
import { sharedLookup } from './dns-lookup.ts'

export interface ConnectionsOptions {
  origin: string
  /** Connections at most. */
  most: number
  /** How old a connection may get before another one takes its place. */
  lifeMs: number
  connectTimeoutMs: number
  lookup: LookupFunction | undefined
  client: Client.Options
  nowMs(): number
}

/** undici's raw handler, told besides whether any byte of an answer came before the error. */
export interface TryHandler {
  onConnect(abort: (reason?: Error) => void): void
  onHeaders(status: number, rawHeaders: Buffer[], resume: () => void, reason: string): boolean
  onData(chunk: Buffer): boolean
  onComplete(): void
  onError(error: Error, answerBegan: boolean): void
}

export interface Try {
  /** Leaves the queue. False if it is out of it already. */
  withdraw(): boolean
}

/**
 * Of a name with several addresses Node gives up each but the last after 250 ms, however long a connection may take: a
 * provider that is far away is never reached where the last address is dead. A quarter of the time leaves some for those
 * behind it.
 */
const partOfConnectTime = 1 / 4
const leastMs = 250

/**
 * The connections to one origin, one request at a time on each, and those who wait for one. Not undici's Pool:
 * its `clientTtl` leaves a request waiting for the next one when every client is due at once, and a client that
 * failed to connect leaves its count yet goes on to serve its queue, past the limit (7.30.2).
 */
export class Connections {
  readonly #options: ConnectionsOptions
  readonly #connector: buildConnector.connector
  readonly #all: Connection[] = []
  /** The one used last is taken first, so that those not needed grow old and close. */
  readonly #free: Connection[] = []
  readonly #waiting = new Set<Turn>()
  #closed: Error | undefined

  constructor(options: ConnectionsOptions) {
    this.#options = options
    this.#connector = buildConnector({
      timeout: options.connectTimeoutMs,
      autoSelectFamilyAttemptTimeout: Math.max(leastMs, options.connectTimeoutMs * partOfConnectTime),
      ...nameToAskFor(options.origin),
      lookup: sharedLookup(options.lookup),
    })
  }

  get stats(): { busy: number; idle: number } {
    const idle = this.#free.filter((connection) => connection.isOpen).length
    return { busy: this.#all.length - this.#free.length, idle }
  }

  dispatch(request: Dispatcher.DispatchOptions, handler: TryHandler): Try {
    const turn = new Turn(request, handler, this)
    const connection = this.#free.pop() ?? this.#another()
    const closed = this.#closed
    if (closed) process.nextTick(() => turn.onError(closed))
    else if (connection) turn.start(connection)
    else this.#waiting.add(turn)
    return turn
  }

  withdraw(turn: Turn): boolean {
    return this.#waiting.delete(turn)
  }

  giveBack(connection: Connection): void {
    // Not at once: an upstream that closes behind its answer must have been heard, or the next POST is lost. Each for
    // itself: one that came back later would be free before the event loop has listened again.
    setImmediate(this.#release, connection)
  }

  async close(): Promise<void> {
    const error = new errors.ClientDestroyedError('the gateway is shutting down')
    this.#closed = error
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    for (const turn of waiting) turn.onError(error)
    await Promise.all(this.#all.map((connection) => connection.close(error)))
  }

  #another(): Connection | undefined {
    if (this.#all.length >= this.#options.most) return undefined
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

/** A place for one connection; it connects when it is used and has none, or one that is too old. */
class Connection {
  readonly #options: ConnectionsOptions
  readonly #connector: buildConnector.connector
  #client: Client
  #socket: Socket | undefined
  #connectedAtMs = 0
  /** Its end was a reset: what that ended is not whole. */
  wasReset = false
  /** Of the answer that came last. */
  #resume: (() => void) | undefined

  constructor(options: ConnectionsOptions, connector: buildConnector.connector) {
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

  dispatch(request: Dispatcher.DispatchOptions, turn: Turn): void {
    const isOld = this.#options.nowMs() - this.#connectedAtMs > this.#options.lifeMs
    if (isOld && this.isOpen) {
      void this.#client.destroy()
      this.#client = this.#newClient()
    }
    this.#client.dispatch(request, turn)
  }

  /** Another one takes its place before the next request. */
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
          if (error) return callback(withoutItsOwnPath(error), null)
          this.#socket = socket
          this.wasReset = false
          this.#connectedAtMs = this.#options.nowMs()
          // Before undici's own listeners, which it adds once it has the socket.
          socket.on('error', (error: NodeJS.ErrnoException) => {
            resetIsNoEnd(error)
            // Node leaves a socket open whose TLS has failed: an answer under way would wait until its time is up, the
            // end behind a broken record would look like the end of an answer, and the next POST would be lost on it.
            socket.destroy()
          })
          // It takes the end of a connection for the end of an answer that is to close it, asserts that this is not
          // paused, and nobody would catch that (7.30.2). Nothing is left to wait for by then.
          socket.on('end', () => {
            this.#resume?.()
            // A reset right behind what was read comes as an end. The system still has the error for the next write.
            socket.write('')
            this.wasReset = socket.errored !== null
          })
          callback(null, socket)
        })
      },
    })
  }
}

/**
 * RFC 6066 section 3: the name in a handshake has no final dot, and some servers end one that has. `https://host.` is
 * how a base URL keeps out the search list of a resolver, as in Kubernetes.
 */
function nameToAskFor(origin: string): { servername?: string } {
  const { hostname } = new URL(origin)
  return hostname.endsWith('.') ? { servername: hostname.slice(0, -1) } : {}
}

/**
 * After a head with "Connection: close" undici takes a reset for the end of the answer (7.30.2), and the process dies of
 * it if the answer is paused just then. RFC 9112 8: what ends with an error of its connection is incomplete.
 */
function resetIsNoEnd(error: NodeJS.ErrnoException): void {
  if (error.code === 'ECONNRESET') error.code = 'UND_ERR_SOCKET'
}

/**
 * For this one code undici counts the request that failed as running for ever (7.30.2): whatever comes next to that
 * client waits without end, even once the certificate is right again.
 */
function withoutItsOwnPath(error: NodeJS.ErrnoException): Error {
  if (error.code === 'ERR_TLS_CERT_ALTNAME_INVALID') error.code = 'CERT_ALTNAME_INVALID'
  return error
}

function isChunked(rawHeaders: readonly Buffer[]): boolean {
  return headerLines(latin1Headers(rawHeaders), 'transfer-encoding') !== undefined
}

/** One request's turn on a connection: waits for one, holds it, gives it back. */
class Turn implements Try {
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
    // Some upstreams end the chunks of an answer that has none (RFC 9112 6.1). The next request would take what comes so
    // late for its answer, and a payment that was made would be a 502. undici sees to one that states a length.
    if (bodilessStatuses.has(status) && isChunked(rawHeaders)) this.#connection?.retire()
    return this.#handler.onHeaders(status, rawHeaders, resume, reason)
  }

  onData(chunk: Buffer): boolean {
    // What undici's parser says when it is resumed and has nothing left: nothing to pause for.
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
