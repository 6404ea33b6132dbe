import type { Timer, Timers } from '../clock.ts'

interface WriteQueueOptions<Item> {
  timers: Timers
  /** How much may wait. Past it the oldest are dropped. */
  maxSize: number
  /** How much may be sent and not answered before what waits is sent too. */
  maxInFlight: number
  retryAfterMs: number
  /** Default: 1. */
  sizeOf?(item: Item): number
  /** While this is false nothing is sent. While it is true, what failed may soon be taken. Default: each is tried once. */
  isUp?(): boolean
  /** Returns whether the store has it. Never rejects. */
  send(item: Item): Promise<boolean>
  dropped?(): void
}

interface Waiting<Item> {
  readonly item: Item
  readonly size: number
  /** Nothing is gained by waiting for it any longer. */
  settle(): void
}

/**
 * What must still be written to the store. A new item is sent at once, in one write with all else that is sent in this
 * turn of the event loop, and it is not sent again while it has no answer. What failed waits, in its order, and is sent
 * again: after a failure one alone, because a store that takes nothing is not to be asked for more.
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

  /** How many wait to be sent. */
  get length(): number {
    return this.#waiting.length
  }

  /** The size of what is sent and not answered. */
  get inFlight(): number {
    return this.#inFlight
  }

  /** Resolves once the store has it, or waiting for it does not help. */
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

  /** Sends what waits and may be sent now. */
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
