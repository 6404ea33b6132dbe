import type { Socket } from 'node:net'
import { type buildConnector, Client, type Dispatcher, errors } from 'undici'
import type { Timer } from '../clock.ts'
import type { Breaker, Permit } from './breakers.ts'
import { type ConnectionOptions, createConnector, resetIsAnError, withoutAltNameCode } from './connector.ts'

/** One connection at a time to one origin. It connects at the first request, and again when it is lost or too old. */
export class Connection {
  readonly #options: ConnectionOptions
  readonly #connector: buildConnector.connector
  #client: Client
  #socket: Socket | undefined
  #retiresAtMs = Number.POSITIVE_INFINITY
  /** How many bytes of the answer have come; undefined once its version was seen. */
  #answerBytes: number | undefined
  /** Whether the last answer came in HTTP/1.0. */
  answersInHttp10 = false
  /** Whether the connection ended with a reset, so that the answer that ended with it is incomplete. */
  wasReset = false
  /** Of the answer that is under way. */
  #control: Pick<Dispatcher.DispatchController, 'resume'> | undefined

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
    this.#client.dispatch(request, handler)
  }

  /** Has a new connection made for the next request. */
  retire(): void {
    this.#retiresAtMs = Number.NEGATIVE_INFINITY
  }

  /** Not while a request is under way. */
  closeIfRetired(): void {
    if (this.#options.timers.steadyMs() <= this.#retiresAtMs || !this.isOpen) return
    void this.#client.destroy()
    this.#client = this.#newClient()
    this.#socket = undefined
  }

  /** A request is about to be sent. */
  expectAnswer(control: Pick<Dispatcher.DispatchController, 'resume'>): void {
    this.#control = control
    this.#answerBytes = 0
    this.answersInHttp10 = false
  }

  /** A free connection would keep the last request and its body in memory. */
  answerEnded(): void {
    this.#control = undefined
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
          this.#begin(socket)
          callback(null, socket)
        })
      },
    })
  }

  /** Listens to a new connection before undici does, which adds its listeners once it has the socket. */
  #begin(socket: Socket): void {
    this.#socket = socket
    this.wasReset = false
    this.#retiresAtMs = this.#options.timers.steadyMs() + lifeMs(this.#options.maxAgeMs)
    // Unlike on(), this does not make the socket flow: undici reads it.
    socket.prependListener('data', (bytes: Buffer) => this.#readVersion(bytes))
    socket.on('error', (error: NodeJS.ErrnoException) => {
      resetIsAnError(error)
      // Node leaves a socket open whose TLS has failed. Without destroy() an answer in flight would wait for its timeout,
      // the end after a broken record would look like the end of an answer, and the next POST on this socket would be
      // lost.
      socket.destroy()
    })
    socket.on('end', () => {
      // When a connection ends, undici ends its `Connection: close` answer and asserts that the answer is not paused.
      // Nothing would catch that assertion (7.30.2), so a paused answer is resumed first.
      this.#control?.resume()
      // A reset right after the last bytes is reported as an end. The next write fails with the reset.
      socket.write('')
      this.wasReset = socket.errored !== null
    })
  }

  /** undici does not say in which version an answer came. */
  #readVersion(bytes: Buffer): void {
    if (this.#answerBytes === undefined) return
    const minor = bytes[minorVersionAt - this.#answerBytes]
    this.#answerBytes += bytes.length
    if (minor === undefined) return
    this.#answerBytes = undefined
    this.answersInHttp10 = minor === zero
  }
}

/** Of `HTTP/1.0`. */
const minorVersionAt = 7
const zero = '0'.charCodeAt(0)

/** Connections that were made together are not all renewed in one instant. */
export function lifeMs(maxAgeMs: number, random = Math.random()): number {
  return maxAgeMs * (1 - random / 4)
}

interface ConnectionsOptions extends ConnectionOptions, LanesOptions {
  /** Asked whenever a request is about to get a connection. While it admits none, nothing is sent. */
  breaker: Pick<Breaker, 'admit' | 'retryAfterMs' | 'state'>
}

/** Who waits for a connection, and holds it until it is given back. */
export interface Caller {
  readonly lane: Lane
  /**
   * It is out of the queue, and has this connection. The permit of the connections' breaker counts until that is made.
   */
  start(connection: Connection, permit: Permit): void
  /** It is out of the queue, and will have none. */
  refuse(error: Error): void
}

/**
 * The connections to one origin, with one request at a time on each, and the queue of requests that wait for a
 * connection. Not undici's Pool (7.30.2): when its `clientTtl` ends for every client at once, a request waits until
 * another request comes; and a client that failed to connect is not counted, yet serves its queue, past the limit.
 */
export class Connections {
  readonly #options: ConnectionsOptions
  readonly #connector: buildConnector.connector
  readonly #all: Connection[] = []
  /** The connection used last is taken first, so that unneeded connections stay idle and close. */
  readonly #free: Connection[] = []
  readonly #lanes: Lanes<Caller>
  #breakerTimer: Timer | undefined
  #closed: Error | undefined

  constructor(options: ConnectionsOptions) {
    this.#options = options
    this.#connector = options.connect ?? createConnector(options)
    this.#lanes = new Lanes(options)
  }

  get busy(): number {
    return this.#lanes.held
  }

  get idle(): number {
    return this.#free.filter((connection) => connection.isOpen).length
  }

  /** How many requests wait for a connection. */
  get waiting(): number {
    return this.#lanes.waiting
  }

  /** Whether one more request may come, to have a connection or to wait for one. */
  takes(lane: Lane): boolean {
    return this.#lanes.takes(lane)
  }

  /** Starts the caller as soon as there is a connection for it, which may be at once. */
  take(caller: Caller): void {
    const closed = this.#closed
    if (closed) {
      process.nextTick(() => caller.refuse(closed))
      return
    }
    this.#lanes.wait(caller)
    this.serve()
  }

  /** Takes it out of the queue. False: it was not in the queue any more. */
  withdraw(caller: Caller): boolean {
    return this.#lanes.leave(caller)
  }

  /** Starts whatever waits and may be sent. Also called when the breaker has closed. */
  serve(): void {
    for (let next = this.#lanes.next(); next !== undefined; next = this.#lanes.next()) {
      const permit = this.#options.breaker.admit()
      if (permit === undefined) {
        this.#serveWhenBreakerIsDue()
        return
      }
      this.#lanes.hold(next)
      const connection = this.#free.pop() ?? this.#newConnection()
      connection.closeIfRetired()
      next.start(connection, permit)
    }
  }

  /** Ends the wait of all that wait for a connection. */
  refuseWaiting(error: Error): void {
    for (const caller of this.#lanes.leaveAll()) caller.refuse(error)
  }

  giveBack(connection: Connection, caller: Caller): void {
    connection.answerEnded()
    // Not at once: an upstream may close after its answer, and until the event loop has read that end, the next POST on
    // this connection would be lost. Each connection has its own immediate, so that each is read before it is free.
    setImmediate(this.#release, connection, caller)
  }

  async close(): Promise<void> {
    const error = new errors.ClientDestroyedError('the gateway is shutting down')
    this.#closed = error
    this.#options.timers.clear(this.#breakerTimer)
    this.refuseWaiting(error)
    await Promise.all(this.#all.map((connection) => connection.close(error)))
  }

  #newConnection(): Connection {
    const connection = new Connection(this.#options, this.#connector)
    this.#all.push(connection)
    return connection
  }

  #serveWhenBreakerIsDue(): void {
    const { breaker, timers } = this.#options
    const { retryAfterMs, state } = breaker
    // A trial is under way. When it ends, the queue is served.
    if (state === 'half-open') return
    timers.clear(this.#breakerTimer)
    this.#breakerTimer = timers.setTimeout(() => this.serve(), Math.ceil(retryAfterMs)).unref()
  }

  readonly #release = (connection: Connection, caller: Caller): void => {
    this.#lanes.release(caller)
    connection.closeIfRetired()
    if (connection.isOpen) this.#free.push(connection)
    else this.#free.unshift(connection)
    this.serve()
  }
}

/** What decides which connections a request may have. `stream`: its body is not whole yet, and may be slow. */
export type Lane = 'float-order' | 'stream' | 'other'

interface LanesOptions {
  connections: number
  /** Of these, those for float orders alone. */
  reserved: number
  /** How many requests may wait for a connection. */
  queue: number
}

/** An eighth of the connections, and at least one where there are two or more. */
export function reservedForFloatOrders(connections: number): number {
  return connections < 2 ? 0 : Math.max(1, Math.floor(connections / 8))
}

/** A quarter of the connections, and at least one. Slow senders hold no more of them. */
export function connectionsForStreams(connections: number): number {
  return Math.max(1, Math.floor(connections / 4))
}

/** Who may have a connection, who waits for one, and who is next: float orders first, then who came first. */
export class Lanes<Request extends { readonly lane: Lane }> {
  readonly #options: LanesOptions
  /** With the number of each, in the order in which they came. */
  readonly #waiting: Readonly<Record<Lane, Map<Request, number>>> = {
    'float-order': new Map(),
    stream: new Map(),
    other: new Map(),
  }
  readonly #held: Record<Lane, number> = { 'float-order': 0, stream: 0, other: 0 }
  #came = 0

  constructor(options: LanesOptions) {
    this.#options = options
  }

  /** How many have a connection. */
  get held(): number {
    return this.#held['float-order'] + this.#held.stream + this.#held.other
  }

  get waiting(): number {
    return this.#waiting['float-order'].size + this.#waiting.stream.size + this.#waiting.other.size
  }

  /** Whether one more may come. Others that wait do not keep a float order out while it has connections of its own. */
  takes(lane: Lane): boolean {
    const { connections, reserved, queue } = this.#options
    const shared = connections - reserved
    const [orders, streams] = [this.#inFlight('float-order'), this.#inFlight('stream')]
    const others = streams + this.#inFlight('other')
    if (lane === 'float-order') return orders < connections - Math.min(others, shared) + queue
    if (lane === 'stream' && streams >= connectionsForStreams(connections) + Math.ceil(queue / 4))
      return false
    return others + Math.max(0, orders - reserved) < shared + queue
  }

  #inFlight(lane: Lane): number {
    return this.#held[lane] + this.#waiting[lane].size
  }

  wait(request: Request): void {
    this.#came += 1
    this.#waiting[request.lane].set(request, this.#came)
  }

  /** False: it did not wait. */
  leave(request: Request): boolean {
    return this.#waiting[request.lane].delete(request)
  }

  leaveAll(): Request[] {
    const all = Object.values(this.#waiting).flatMap((waiting) => [...waiting.keys()])
    for (const waiting of Object.values(this.#waiting)) waiting.clear()
    return all
  }

  /** The one that a connection is there for. */
  next(): Request | undefined {
    const { connections, reserved } = this.#options
    if (this.held >= connections) return undefined
    const [order] = this.#waiting['float-order'].keys()
    if (order !== undefined) return order
    if (this.#held.stream + this.#held.other >= connections - reserved) return undefined
    const [other] = this.#waiting.other
    const [stream] = this.#held.stream < connectionsForStreams(connections) ? this.#waiting.stream : []
    if (stream === undefined || other === undefined) return (stream ?? other)?.[0]
    return other[1] < stream[1] ? other[0] : stream[0]
  }

  /** Has its connection now. */
  hold(request: Request): void {
    this.leave(request)
    this.#held[request.lane] += 1
  }

  release({ lane }: Request): void {
    this.#held[lane] -= 1
  }
}
