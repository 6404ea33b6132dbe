import { type buildConnector, errors } from 'undici'
import type { Timer } from '../clock.ts'
import type { Breaker, Permit } from './breakers.ts'
import {
  Connection,
  type ConnectionOptions,
  createConnector,
  type TlsFiles,
} from './connection.ts'

interface ConnectionsOptions extends ConnectionOptions, LanesOptions {
  /** Asked before each request gets a connection. While it admits none, nothing is sent. */
  breaker: Pick<Breaker, 'admit' | 'retryAfterMs' | 'state'>
}

/** A request that waits for a connection, and holds it until it is given back. */
export interface ConnectionHolder {
  readonly lane: Lane
  /**
   * The request has left the queue and has this connection. The connections' permit counts until the connection is
   * made.
   */
  send(connection: Connection, permit: Permit): void
  /** The request has left the queue without a connection. */
  failed(error: Error): void
  recheck(): void
}

/**
 * The connections to one origin, one request at a time on each, and their queue. undici's Pool (7.30.2) does not fit:
 * when `clientTtl` ends for every Client at once, a request waits for the next one. A Client that failed to connect is
 * not counted, yet serves its queue, past the limit.
 */
export class Connections {
  readonly #options: ConnectionsOptions
  #connector: buildConnector.connector
  readonly #all: Connection[] = []
  /** The connection used last is taken first, so that unneeded ones stay idle and close. */
  readonly #free: Connection[] = []
  readonly lanes: Lanes<ConnectionHolder>
  #breakerTimer: Timer | undefined
  #closed: Error | undefined

  constructor(options: ConnectionsOptions) {
    this.#options = options
    this.#connector = options.connect ?? createConnector(options)
    this.lanes = new Lanes(options)
  }

  get busy(): number {
    return this.lanes.held
  }

  get idle(): number {
    return this.#free.filter((connection) => connection.isOpen).length
  }

  /** Starts the request once there is a connection, perhaps at once. */
  take(holder: ConnectionHolder): void {
    const closed = this.#closed
    if (closed) {
      process.nextTick(() => holder.failed(closed))
      return
    }
    this.lanes.wait(holder)
    this.serve()
  }

  /** Starts what waits and may be sent. Also called when the breaker has closed. */
  serve(): void {
    for (let next = this.lanes.next(); next !== undefined; next = this.lanes.next()) {
      const { breaker, timers } = this.#options
      const permit = breaker.admit()
      if (permit === undefined) {
        // When the current trial ends, the queue is served.
        if (breaker.state === 'half-open') return
        timers.clear(this.#breakerTimer)
        this.#breakerTimer = timers
          .setTimeout(() => this.serve(), Math.ceil(breaker.retryAfterMs))
          .unref()
        return
      }
      this.lanes.hold(next)
      let connection = this.#free.pop()
      if (connection === undefined) {
        connection = new Connection(this.#options, () => this.#connector)
        this.#all.push(connection)
      } else connection.closeIfRetired()
      next.send(connection, permit)
    }
  }

  /** New connections use these files. Existing ones end once they are free. */
  renew(tls: TlsFiles): void {
    this.#connector = this.#options.connect ?? createConnector({ ...this.#options, tls })
    for (const connection of this.#all) connection.retire()
    for (const connection of this.#free) connection.closeIfRetired()
  }

  /** Called when what requests depend on has changed. */
  lookAgain(): void {
    for (const holder of this.lanes.queue) holder.recheck()
  }

  refuseWaiting(error: Error): void {
    for (const holder of this.lanes.leaveAll()) holder.failed(error)
  }

  giveBack(connection: Connection, holder: ConnectionHolder): void {
    connection.answerEnded()
    // Not at once: an upstream may close after its answer, and until that end is read, the next POST would be lost.
    // Each connection has its own immediate, so that it is read before it is free.
    setImmediate(this.#release, connection, holder)
  }

  async close(): Promise<void> {
    const error = new errors.ClientDestroyedError('the gateway is shutting down')
    this.#closed = error
    this.#options.timers.clear(this.#breakerTimer)
    this.refuseWaiting(error)
    await Promise.all(this.#all.map((connection) => connection.close(error)))
  }

  readonly #release = (connection: Connection, holder: ConnectionHolder): void => {
    this.lanes.release(holder)
    connection.closeIfRetired()
    if (connection.isOpen) this.#free.push(connection)
    else this.#free.unshift(connection)
    this.serve()
  }
}

/** Decides which connections a request may have. `stream`: a body that may be slow. */
export type Lane = 'float-order' | 'stream' | 'other'

interface LanesOptions {
  connections: number
  /** How many of these are kept for float orders. */
  reserved: number
  queue: number
}

/** An eighth of the connections; at least one of two or more. */
export function reservedForFloatOrders(connections: number): number {
  return connections < 2 ? 0 : Math.max(1, Math.floor(connections / 8))
}

/** Slow senders hold at most a quarter of the connections, or one. */
export function connectionsForStreams(connections: number): number {
  return Math.max(1, Math.floor(connections / 4))
}

/** Who has a connection, who waits, and who is next: float orders first, then in order. */
export class Lanes<Request extends { readonly lane: Lane }> {
  readonly #options: LanesOptions
  readonly #orders = new Set<Request>()
  readonly #others = new Set<Request>()
  readonly #held: Record<Lane, number> = { 'float-order': 0, stream: 0, other: 0 }

  constructor(options: LanesOptions) {
    this.#options = options
  }

  get held(): number {
    return this.#held['float-order'] + this.#held.stream + this.#held.other
  }

  get waiting(): number {
    return this.#orders.size + this.#others.size
  }

  /**
   * Whether one more request may have a connection or wait. The other lanes, however many wait, leave float orders
   * their reserved connections.
   */
  takes(lane: Lane): boolean {
    const { connections, reserved, queue } = this.#options
    const shared = connections - reserved
    const orders = this.#held['float-order'] + this.#orders.size
    const others = this.#held.stream + this.#held.other + this.#others.size
    if (lane === 'float-order')
      return orders < connections - Math.min(others, shared) + queue
    if (lane === 'stream') {
      const waiting = [...this.#others].filter((other) => other.lane === 'stream').length
      const most = connectionsForStreams(connections) + Math.ceil(queue / 4)
      if (this.#held.stream + waiting >= most) return false
    }
    return others + Math.max(0, orders - reserved) < shared + queue
  }

  wait(request: Request): void {
    const waiting = request.lane === 'float-order' ? this.#orders : this.#others
    waiting.add(request)
  }

  /** False: it was not in the queue. */
  leave(request: Request): boolean {
    return this.#orders.delete(request) || this.#others.delete(request)
  }

  get queue(): readonly Request[] {
    return [...this.#orders, ...this.#others]
  }

  leaveAll(): Request[] {
    return this.queue.filter((request) => this.leave(request))
  }

  /** The next request, if there is a connection for it. */
  next(): Request | undefined {
    const { connections, reserved } = this.#options
    if (this.waiting === 0 || this.held >= connections) return undefined
    const [order] = this.#orders
    if (order !== undefined) return order
    if (this.#held.stream + this.#held.other >= connections - reserved) return undefined
    const takesStreams = this.#held.stream < connectionsForStreams(connections)
    for (const other of this.#others)
      if (takesStreams || other.lane !== 'stream') return other
    return undefined
  }

  hold(request: Request): void {
    if (this.waiting > 0) this.leave(request)
    this.#held[request.lane] += 1
  }

  release({ lane }: Request): void {
    this.#held[lane] -= 1
  }
}
