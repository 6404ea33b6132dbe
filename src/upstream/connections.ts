import type { buildConnector, Dispatcher } from 'undici'
import { errors } from 'undici'
import type { Breaker, Permit } from './breakers.ts'
import type { Lane } from './capacity.ts'
import { Connection } from './connection.ts'
import { type ConnectionOptions, createConnector } from './connector.ts'
import { QueuedTry } from './queued-try.ts'
import type { ConnectionCounts, UpstreamHandler } from './types.ts'

export interface ConnectionsOptions extends ConnectionOptions {
  max: number
  /** Of these, those for float orders alone. */
  reserved: number
  /** Of these, at most so many for requests whose body streams. */
  streams: number
  /** Asked whenever a request is about to get a connection. While it admits none, nothing is sent. */
  breaker: Pick<Breaker, 'admit' | 'retryAfterMs' | 'state'>
}

/** An `UpstreamHandler` of one try, whose `onError` also says whether any byte of an answer came before the error. */
export interface TryHandler extends Omit<UpstreamHandler, 'onError'> {
  /** The try is out of the queue. The permit of the connections' breaker counts until there is a connection, which `isOpen` says there is. */
  onStart(permit: Permit, isOpen: boolean): void
  onError(error: Error, answerBegan: boolean): void
}

export interface Try {
  /** Whether it is in the queue. */
  readonly isWaiting: boolean
  /** Takes the try out of the queue. False: it was not in the queue any more. */
  withdraw(): boolean
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
  /** Float orders go first. */
  readonly #waitingOrders = new Set<QueuedTry>()
  readonly #waitingOthers = new Set<QueuedTry>()
  readonly #waitingStreams = new Set<QueuedTry>()
  /** Streams are among them. */
  #heldByOthers = 0
  #heldByStreams = 0
  #taken = 0
  #breakerTimer: NodeJS.Timeout | undefined
  #closed: Error | undefined

  constructor(options: ConnectionsOptions) {
    this.#options = options
    this.#connector = createConnector(options)
  }

  get stats(): ConnectionCounts {
    const idle = this.#free.filter((connection) => connection.isOpen).length
    const waiting = this.#waitingOrders.size + this.#waitingOthers.size + this.#waitingStreams.size
    return { busy: this.#all.length - this.#free.length, idle, waiting }
  }

  dispatch(request: Dispatcher.DispatchOptions, handler: TryHandler, lane: Lane): Try {
    this.#taken += 1
    const queued = new QueuedTry({ request, handler, connections: this, lane, number: this.#taken })
    const closed = this.#closed
    if (closed) process.nextTick(() => queued.fail(closed))
    else {
      this.#lineOf(queued).add(queued)
      this.serve()
    }
    return queued
  }

  withdraw(queued: QueuedTry): boolean {
    return this.#lineOf(queued).delete(queued)
  }

  /** Sends whatever waits and may be sent. Also called when the breaker has closed. */
  serve(): void {
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      const permit = this.#options.breaker.admit()
      if (permit === undefined) {
        this.#serveWhenBreakerIsDue()
        return
      }
      this.#lineOf(next).delete(next)
      this.#count(next, 1)
      next.start(this.#free.pop() ?? this.#newConnection(), permit)
    }
  }

  /** Ends the wait of all that wait for a connection. */
  refuseWaiting(error: Error): void {
    const lines = [this.#waitingOrders, this.#waitingOthers, this.#waitingStreams]
    const waiting = lines.flatMap((line) => [...line])
    for (const line of lines) line.clear()
    for (const queued of waiting) queued.fail(error)
  }

  giveBack(connection: Connection, queued: QueuedTry): void {
    // Not at once: an upstream may close after its answer, and until the event loop has read that end, the next POST on
    // this connection would be lost. Each connection has its own immediate, so that each is read before it is free.
    setImmediate(this.#release, connection, queued)
  }

  async close(): Promise<void> {
    const error = new errors.ClientDestroyedError('the gateway is shutting down')
    this.#closed = error
    clearTimeout(this.#breakerTimer)
    this.refuseWaiting(error)
    await Promise.all(this.#all.map((connection) => connection.close(error)))
  }

  #lineOf({ lane }: QueuedTry): Set<QueuedTry> {
    if (lane === 'float-order') return this.#waitingOrders
    return lane === 'stream' ? this.#waitingStreams : this.#waitingOthers
  }

  #count({ lane }: QueuedTry, change: 1 | -1): void {
    if (lane !== 'float-order') this.#heldByOthers += change
    if (lane === 'stream') this.#heldByStreams += change
  }

  /** The request that a connection is there for. */
  #next(): QueuedTry | undefined {
    const { max, reserved, streams } = this.#options
    if (this.#free.length === 0 && this.#all.length >= max) return undefined
    const [order] = this.#waitingOrders
    if (order !== undefined) return order
    if (this.#heldByOthers >= max - reserved) return undefined
    const [other] = this.#waitingOthers
    if (this.#waitingStreams.size === 0 || this.#heldByStreams >= streams) return other
    const [stream] = this.#waitingStreams
    return stream !== undefined && other !== undefined && other.number < stream.number ? other : stream
  }

  #newConnection(): Connection {
    const connection = new Connection(this.#options, this.#connector)
    this.#all.push(connection)
    return connection
  }

  #serveWhenBreakerIsDue(): void {
    const { retryAfterMs, state } = this.#options.breaker
    // A trial is under way. When it ends, the queue is served.
    if (state === 'half-open') return
    clearTimeout(this.#breakerTimer)
    this.#breakerTimer = setTimeout(() => this.serve(), Math.ceil(retryAfterMs)).unref()
  }

  readonly #release = (connection: Connection, queued: QueuedTry): void => {
    this.#count(queued, -1)
    connection.closeIfRetired()
    if (connection.isOpen) this.#free.push(connection)
    else this.#free.unshift(connection)
    this.serve()
  }
}
