import type { ServerResponse } from 'node:http'

/**
 * What waits for a connection may wait for 7.5 s. Twice two looks end well before: those that were cut may be followed by
 * others.
 */
const lookEveryMs = 1_500
/** 64 KiB a second. */
const slowBytes = 98_304

export interface SlowReadersOptions {
  /** How many connections they may hold while other requests wait. */
  max: number
  /** Whether a request waits for a connection. */
  othersWait(): boolean
}

/**
 * Clients that read large answers to GETs slowly. Each holds a connection to the upstream, and a client that never stops
 * reading altogether could hold it without end. So while other requests wait, at most `max` of these clients are left:
 * those that have read slowly for longest are cut.
 */
export class SlowReaders {
  readonly #options: SlowReadersOptions
  /** The bytes that each client took since the last look, in the order in which the clients first held up their answers. */
  readonly #taken = new Map<ServerResponse, number>()
  #timer: NodeJS.Timeout | undefined

  constructor(options: SlowReadersOptions) {
    this.#options = options
  }

  /** The client has to take these bytes before more of its answer is read from the upstream. */
  heldUp(response: ServerResponse, bytes: number): void {
    // Any other answer may say what became of a payment.
    if (response.req.method !== 'GET') return
    const taken = this.#taken.get(response)
    if (taken === undefined) response.once('close', () => this.#taken.delete(response))
    // The first look may come at once, so no client is slow at it.
    this.#taken.set(response, taken === undefined ? slowBytes : taken + bytes)
    this.#timer ??= setInterval(this.#look, lookEveryMs).unref()
  }

  readonly #look = (): void => {
    const slow: ServerResponse[] = []
    for (const [response, bytes] of this.#taken) {
      if (response.writableNeedDrain && bytes < slowBytes) slow.push(response)
      this.#taken.set(response, 0)
    }
    const { max, othersWait } = this.#options
    if (slow.length > max && othersWait())
      for (const response of slow.slice(0, slow.length - max)) response.destroy()
    if (this.#taken.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}
