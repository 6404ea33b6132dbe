import type { Timer, Timers } from '../clock.ts'

interface WriteQueueOptions<Item> {
  timers: Timers
  /** How much may wait. Beyond it, the oldest items are dropped. */
  maxSize: number
  /** How much may be in flight when waiting items are sent too. */
  maxInFlight: number
  retryAfterMs: number
  /** Default: 1. */
  sizeOf?(item: Item): number
  /**
   * False: nothing is sent. True: failed items may soon be taken. Without it, each is tried once before `put` resolves.
   */
  isUp?(): boolean
  /** Returns whether the store has the item. Never rejects. */
  send(item: Item): Promise<boolean>
  dropped?(): void
}

interface Waiting<Item> {
  readonly item: Item
  readonly size: number
  /** Called once waiting for the item does not help. */
  settle(): void
}

/**
 * Items that must still be written to the store. A new item is sent at once, in one write with the others of this turn
 * of the event loop. Items that failed wait in their order, and are sent again: after a failure one at a time, so that
 * a store that takes nothing gets no more.
 */
export class WriteQueue<Item> {
  readonly #options: WriteQueueOptions<Item>
  #waiting: Waiting<Item>[] = []
  #size = 0
  #inFlight = 0
  #hasFailed = false
  #pausedUntilMs = 0
  #timer: Timer | undefined
  #isClosed = false

  constructor(options: WriteQueueOptions<Item>) {
    this.#options = options
  }

  get length(): number {
    return this.#waiting.length
  }

  /** The size of the items that are sent and not answered. */
  get inFlight(): number {
    return this.#inFlight
  }

  /** Resolves once the store has the item, or once waiting does not help. */
  put(item: Item): Promise<void> {
    const { sizeOf, isUp } = this.#options
    const size = sizeOf?.(item) ?? 1
    return new Promise((settle) => {
      const waiting = { item, size, settle }
      this.pump()
      if (isUp?.() !== false) void this.#send(waiting)
      else {
        settle()
        this.#wait(waiting)
      }
    })
  }

  pump(): void {
    const { timers, isUp } = this.#options
    if (this.#isClosed) return
    let sent = 0
    if (timers.steadyMs() >= this.#pausedUntilMs)
      for (const waiting of this.#waiting) {
        if (isUp?.() === false || !this.#hasRoomFor(waiting)) break
        this.#size -= waiting.size
        sent += 1
        void this.#send(waiting)
      }
    this.#waiting.splice(0, sent)
    this.#pumpLater()
  }

  close(): void {
    this.#isClosed = true
    this.#options.timers.clear(this.#timer)
  }

  #hasRoomFor({ size }: Waiting<Item>): boolean {
    if (this.#inFlight === 0) return true
    return !this.#hasFailed && this.#inFlight + size <= this.#options.maxInFlight
  }

  #wait(waiting: Waiting<Item>): void {
    const { maxSize, dropped } = this.#options
    this.#waiting.push(waiting)
    this.#size += waiting.size
    while (this.#size > maxSize) {
      const oldest = this.#waiting.shift()
      this.#size -= oldest?.size ?? 0
      oldest?.settle()
      dropped?.()
    }
    this.#pumpLater()
  }

  async #send(waiting: Waiting<Item>): Promise<void> {
    const { timers, send, isUp, retryAfterMs } = this.#options
    const { item, size, settle } = waiting
    this.#inFlight += size
    const isDone = await send(item)
    this.#inFlight -= size
    this.#hasFailed = !isDone
    if (isDone) {
      settle()
      this.pump()
      return
    }
    this.#pausedUntilMs = timers.steadyMs() + retryAfterMs
    if (!isUp?.()) settle()
    this.#wait(waiting)
  }

  #pumpLater(): void {
    if (this.#isClosed || this.#waiting.length === 0) return
    const { timers, retryAfterMs } = this.#options
    this.#timer ??= timers
      .setTimeout(() => {
        this.#timer = undefined
        this.pump()
      }, retryAfterMs)
      .unref()
  }
}
