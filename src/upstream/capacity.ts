export interface CapacityOptions {
  connections: number
  /** Of these connections, those for float orders alone. */
  reserved: number
  /** How many requests may wait for a connection. */
  queue: number
}

/** How many requests are taken on: those with a connection, and those that wait for one. */
export interface Capacity {
  readonly inFlight: number
  /** Whether one more may come. Others that wait do not keep a float order out while it has connections of its own. */
  takes(isFloatOrder: boolean): boolean
  began(isFloatOrder: boolean): void
  ended(isFloatOrder: boolean): void
}

/** An eighth of the connections, and at least one where there are two or more. */
export function reservedForFloatOrders(connections: number): number {
  return connections < 2 ? 0 : Math.max(1, Math.floor(connections / 8))
}

export function createCapacity({ connections, reserved, queue }: CapacityOptions): Capacity {
  const shared = connections - reserved
  let orders = 0
  let others = 0

  return {
    get inFlight() {
      return orders + others
    },
    takes(isFloatOrder) {
      if (isFloatOrder) return orders < connections - Math.min(others, shared) + queue
      return others + Math.max(0, orders - reserved) < shared + queue
    },
    began(isFloatOrder) {
      if (isFloatOrder) orders += 1
      else others += 1
    },
    ended(isFloatOrder) {
      if (isFloatOrder) orders -= 1
      else others -= 1
    },
  }
}
