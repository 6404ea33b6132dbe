import type { Clock } from '../../src/clock.ts'

export interface VirtualTime extends Clock {
  /** Events of the same instant run in the order in which they were planned. */
  at(atMs: number, action: () => void): void
  /** Runs all planned events, and those that they plan. */
  run(): Promise<void>
}

interface PlannedEvent {
  atMs: number
  turn: number
  action: () => void
}

/** A clock that jumps from event to event and stands still while an event's code runs. */
export function createVirtualTime(startMs: number): VirtualTime {
  const queue = new EventQueue()
  let nowMs = startMs
  let turn = 0

  return {
    nowMs: () => nowMs,
    at(atMs, action) {
      if (atMs < nowMs) throw new RangeError(`an event planned ${nowMs - atMs} ms in the past`)
      queue.push({ atMs, turn, action })
      turn += 1
    },
    async run() {
      for (let event = queue.shift(); event !== undefined; event = queue.shift()) {
        nowMs = event.atMs
        event.action()
        await settled()
      }
    },
  }
}

/**
 * Resolves when every promise chain has run as far as it can. Node runs a tick that was requested within a microtask
 * only when the microtask queue is empty, and the first await makes sure that this code runs within a microtask. A
 * fixed number of awaits would have to guess the depth of the chains, and `setImmediate` would wait for I/O.
 */
async function settled(): Promise<void> {
  await undefined
  await new Promise<void>((resolve) => process.nextTick(resolve))
}

/** A binary heap: the earliest event first, and of the same instant the one that was planned first. */
class EventQueue {
  readonly #heap: PlannedEvent[] = []

  push(event: PlannedEvent): void {
    const heap = this.#heap
    let index = heap.length
    while (index > 0) {
      const parentIndex = (index - 1) >> 1
      const parent = heap[parentIndex]
      if (parent === undefined || isBefore(parent, event)) break
      heap[index] = parent
      index = parentIndex
    }
    heap[index] = event
  }

  shift(): PlannedEvent | undefined {
    const heap = this.#heap
    const first = heap[0]
    const last = heap.pop()
    if (last !== undefined && heap.length > 0) this.#sink(last)
    return first
  }

  #sink(event: PlannedEvent): void {
    const heap = this.#heap
    let index = 0
    for (;;) {
      const leftIndex = 2 * index + 1
      const left = heap[leftIndex]
      if (left === undefined) break
      const right = heap[leftIndex + 1]
      const isRightFirst = right !== undefined && isBefore(right, left)
      const child = isRightFirst ? right : left
      if (isBefore(event, child)) break
      heap[index] = child
      index = isRightFirst ? leftIndex + 1 : leftIndex
    }
    heap[index] = event
  }
}

function isBefore(left: PlannedEvent, right: PlannedEvent): boolean {
  return left.atMs < right.atMs || (left.atMs === right.atMs && left.turn < right.turn)
}
