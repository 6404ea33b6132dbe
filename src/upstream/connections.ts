import type { buildConnector, Dispatcher } from 'undici'
import { errors } from 'undici'
import type { Breaker, Permit } from './breaker.ts'
import { Connection } from './connection.ts'
import { type ConnectionOptions, createConnector } from './connector.ts'
import { QueuedTry } from './queued-try.ts'

export interface ConnectionsOptions extends ConnectionOptions {
  max: number
  /** Of these, those for float orders alone. */
  reserved: number
  /** Asked whenever a request is about to get a connection. While it admits none, nothing is sent. */
  breaker: Pick<Breaker, 'admit' | 'retryAfterMs' | 'state'>
}

/** undici's raw handler, whose `onError` also says whether any byte of an answer came before the error. */
export interface TryHandler {
  /** The try is out of the queue. The permit of the connections' breaker counts until there is a connection. */
  onStart(permit: Permit): void
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
  readonly #connector: buildConnector.connector
  readonly #all: Connection[] = []
  /** The connection used last is taken first, so that unneeded connections stay idle and close. */
  readonly #free: Connection[] = []
  /** Float orders go first. */
  readonly #waitingOrders = new Set<QueuedTry>()
  readonly #waitingOthers = new Set<QueuedTry>()
  #heldByOthers = 0
  #breakerTimer: NodeJS.Timeout | undefined
  #closed: Error | undefined

  constructor(options: ConnectionsOptions) {
    this.#options = options
    this.#connector = createConnector(options)
  }

  get stats(): { busy: number; idle: number } {
    const idle = this.#free.filter((connection) => connection.isOpen).length
    return { busy: this.#all.length - this.#free.length, idle }
  }

  dispatch(request: Dispatcher.DispatchOptions, handler: TryHandler, isFloatOrder: boolean): Try {
    const queued = new QueuedTry({ request, handler, connections: this, isFloatOrder })
    const closed = this.#closed
    if (closed) process.nextTick(() => queued.onError(closed))
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
      if (!next.isFloatOrder) this.#heldByOthers += 1
      next.start(this.#free.pop() ?? this.#newConnection(), permit)
    }
  }

  /** Ends the wait of all that wait for a connection. */
  refuseWaiting(error: Error): void {
    const waiting = [...this.#waitingOrders, ...this.#waitingOthers]
    this.#waitingOrders.clear()
    this.#waitingOthers.clear()
    for (const queued of waiting) queued.onError(error)
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

  #lineOf({ isFloatOrder }: QueuedTry): Set<QueuedTry> {
    return isFloatOrder ? this.#waitingOrders : this.#waitingOthers
  }

  /** The request that a connection is there for. */
  #next(): QueuedTry | undefined {
    const { max, reserved } = this.#options
    if (this.#free.length === 0 && this.#all.length >= max) return undefined
    const [order] = this.#waitingOrders
    if (order !== undefined) return order
    if (this.#heldByOthers >= max - reserved) return undefined
    const [other] = this.#waitingOthers
    return other
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

  readonly #release = (connection: Connection, { isFloatOrder }: QueuedTry): void => {
    if (!isFloatOrder) this.#heldByOthers -= 1
    if (connection.isOpen) this.#free.push(connection)
    else this.#free.unshift(connection)
    this.serve()
  }
}
