export interface CapacityOptions {
  connections: number
  /** Of these connections, those for float orders alone. */
  reserved: number
  /** How many requests may wait for a connection. */
  queue: number
}

/** What decides which connections a request may have. `stream`: its body is not whole yet, and may be slow. */
export type Lane = 'float-order' | 'stream' | 'other'

/** How many requests are taken on: those with a connection, and those that wait for one. */
export interface Capacity {
  readonly inFlight: number
  /** Whether one more may come. Others that wait do not keep a float order out while it has connections of its own. */
  takes(lane: Lane): boolean
  began(lane: Lane): void
  ended(lane: Lane): void
}

/** An eighth of the connections, and at least one where there are two or more. */
export function reservedForFloatOrders(connections: number): number {
  return connections < 2 ? 0 : Math.max(1, Math.floor(connections / 8))
}

/** A quarter of the connections, and at least one. Slow senders hold no more of them. */
export function connectionsForStreams(connections: number): number {
  return Math.max(1, Math.floor(connections / 4))
}

export function createCapacity({ connections, reserved, queue }: CapacityOptions): Capacity {
  const shared = connections - reserved
  const maxStreams = connectionsForStreams(connections) + Math.ceil(queue / 4)
  let orders = 0
  /** Streams are among them. */
  let others = 0
  let streams = 0

  return {
    get inFlight() {
      return orders + others
    },
    takes(lane) {
      if (lane === 'float-order') return orders < connections - Math.min(others, shared) + queue
      if (lane === 'stream' && streams >= maxStreams) return false
      return others + Math.max(0, orders - reserved) < shared + queue
    },
    began(lane) {
      if (lane === 'float-order') orders += 1
      else others += 1
      if (lane === 'stream') streams += 1
    },
    ended(lane) {
      if (lane === 'float-order') orders -= 1
      else others -= 1
      if (lane === 'stream') streams -= 1
    },
  }
}
