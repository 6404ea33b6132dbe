/** What decides which connections a request may have. `stream`: its body is not whole yet, and may be slow. */
export type Lane = 'float-order' | 'stream' | 'other'

export interface LanesOptions {
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
