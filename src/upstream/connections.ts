import type { buildConnector } from 'undici'
import { errors } from 'undici'
import type { Breaker, Permit } from './breakers.ts'
import { Connection } from './connection.ts'
import { type ConnectionOptions, createConnector } from './connector.ts'
import { type Lane, Lanes, type LanesOptions } from './lanes.ts'
import type { ConnectionCounts } from './types.ts'

export interface ConnectionsOptions extends ConnectionOptions, LanesOptions {
  /** Asked whenever a request is about to get a connection. While it admits none, nothing is sent. */
  breaker: Pick<Breaker, 'admit' | 'retryAfterMs' | 'state'>
}

/** Who waits for a connection, and holds it until it is given back. */
export interface Caller {
  readonly lane: Lane
  /** It is out of the queue, and has this connection. The permit of the connections' breaker counts until that is made. */
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
  #breakerTimer: NodeJS.Timeout | undefined
  #closed: Error | undefined

  constructor(options: ConnectionsOptions) {
    this.#options = options
    this.#connector = createConnector(options)
    this.#lanes = new Lanes(options)
  }

  get stats(): ConnectionCounts {
    const idle = this.#free.filter((connection) => connection.isOpen).length
    return { busy: this.#lanes.held, idle, waiting: this.#lanes.waiting }
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
      next.start(this.#free.pop() ?? this.#newConnection(), permit)
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
    clearTimeout(this.#breakerTimer)
    this.refuseWaiting(error)
    await Promise.all(this.#all.map((connection) => connection.close(error)))
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

  readonly #release = (connection: Connection, caller: Caller): void => {
    this.#lanes.release(caller)
    connection.closeIfRetired()
    if (connection.isOpen) this.#free.push(connection)
    else this.#free.unshift(connection)
    this.serve()
  }
}
