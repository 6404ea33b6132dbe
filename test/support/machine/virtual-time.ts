import type { Timer, Timers } from '../../../src/clock.ts'

const startMs = 1_000_000

/** Timers of a time that stands still until `next` moves it on. Those that are due at one moment run as they were set. */
export class VirtualTime implements Timers {
  #nowMs = startMs
  #set = 0
  /** A binary heap. What was cleared or set again stays in it until it is due. */
  readonly #heap: Due[] = []

  steadyMs(): number {
    return this.#nowMs
  }

  setTimeout(onTime: () => void, ms: number): Timer {
    return this.#start(new VirtualTimer(this, onTime, { ms, isRepeated: false }))
  }

  setInterval(onTime: () => void, ms: number): Timer {
    return this.#start(new VirtualTimer(this, onTime, { ms, isRepeated: true }))
  }

  clear(timer: Timer | undefined): void {
    if (timer instanceof VirtualTimer) timer.number = 0
  }

  /** From its beginning, without any timer. One that was set before may be set again. */
  begin(): void {
    this.#nowMs = startMs
    this.#set = 0
    this.#heap.length = 0
  }

  /** Goes on to the next timer that is due by then, and runs it. False: there is none, and it is then now. */
  next(byMs = Number.POSITIVE_INFINITY): boolean {
    for (;;) {
      const [first] = this.#heap
      if (first === undefined || first.atMs > byMs) {
        if (byMs !== Number.POSITIVE_INFINITY) this.#nowMs = Math.max(this.#nowMs, byMs)
        return false
      }
      this.#removeFirst()
      const { timer, number } = first
      if (timer.number !== number) continue
      this.#nowMs = first.atMs
      timer.number = 0
      if (timer.isRepeated) this.#start(timer)
      timer.onTime()
      return true
    }
  }

  /** Lets so much time pass. What goes on without time does so between two timers. */
  async pass(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms
    do await turns()
    while (this.next(untilMs))
    await turns()
  }

  /** Begins its time. */
  #start(timer: VirtualTimer): VirtualTimer {
    this.#set += 1
    timer.number = this.#set
    this.#add({ atMs: this.#nowMs + timer.ms, number: this.#set, timer })
    return timer
  }

  refresh(timer: VirtualTimer): void {
    this.#start(timer)
  }

  #add(due: Due): void {
    const heap = this.#heap
    let at = heap.push(due) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!isBefore(due, heap[parent] as Due)) break
      heap[at] = heap[parent] as Due
      at = parent
    }
    heap[at] = due
  }

  #removeFirst(): void {
    const heap = this.#heap
    const last = heap.pop() as Due
    if (heap.length === 0) return
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= heap.length) break
      const right = heap[child + 1]
      if (right !== undefined && isBefore(right, heap[child] as Due)) child += 1
      if (!isBefore(heap[child] as Due, last)) break
      heap[at] = heap[child] as Due
      at = child
    }
    heap[at] = last
  }
}

interface Due {
  readonly atMs: number
  readonly number: number
  readonly timer: VirtualTimer
}

function isBefore(one: Due, other: Due): boolean {
  return one.atMs === other.atMs ? one.number < other.number : one.atMs < other.atMs
}

class VirtualTimer implements Timer {
  readonly onTime: () => void
  readonly ms: number
  readonly isRepeated: boolean
  /** Of its place in the heap; 0: it is not set. */
  number = 0
  readonly #time: VirtualTime

  constructor(
    time: VirtualTime,
    onTime: () => void,
    { ms, isRepeated }: { ms: number; isRepeated: boolean },
  ) {
    this.#time = time
    this.onTime = onTime
    // As Node's.
    this.ms = ms >= 1 ? Math.trunc(ms) : 1
    this.isRepeated = isRepeated
  }

  refresh(): this {
    this.#time.refresh(this)
    return this
  }

  unref(): this {
    return this
  }
}

/** As many turns of the event loop as one step takes at most. */
const turnsOfAStep = 4

async function turns(): Promise<void> {
  for (let turn = 0; turn < turnsOfAStep; turn += 1)
    await new Promise<void>((resolve) => setImmediate(resolve))
}
