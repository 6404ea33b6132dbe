import type { ServerResponse } from 'node:http'
import type { Timer, Timers } from '../clock.ts'
import { cutOff } from '../http/answer.ts'

/**
 * What waits for a connection may wait for 7.5 s. Twice two looks end well before: those that were cut may be followed by
 * others.
 */
const lookEveryMs = 1_500
/** 64 KiB a second. */
const slowBytes = 98_304

interface Reader {
  /** Bytes since the last look. */
  taken: number
  /** For how long it has taken none, in whole looks: a pause of this process is one look. */
  idleMs: number
}

/**
 * Clients that do not take their answers as fast as they come. Each holds a connection to the upstream. One that stops
 * reading is cut after `stallMs`: undici's body timeout stops while an answer is paused. One that reads a large answer to
 * a GET slowly could hold it without end: so while other requests wait, at most `max` of these are left, and those that
 * have read slowly for longest are cut.
 */
export class SlowReaders {
  readonly #max: number
  readonly #stallMs: number
  readonly #othersWait: () => boolean
  /** In the order in which they first held up their answers. */
  readonly #readers = new Map<ServerResponse, Reader>()
  readonly #timers: Timers
  #timer: Timer | undefined

  /** `max`: how many connections they may hold while other requests wait for one. */
  constructor(
    limits: { max: number; stallMs: number },
    othersWait: () => boolean,
    timers: Timers,
  ) {
    this.#max = limits.max
    this.#stallMs = limits.stallMs
    this.#othersWait = othersWait
    this.#timers = timers
  }

  /** Calls `goOn` once the client has taken these bytes. */
  heldUp(response: ServerResponse, bytes: number, goOn: () => void): void {
    // It would say its end no more.
    if (response.destroyed) return
    response.once('drain', goOn)
    const known = this.#readers.get(response)
    if (known !== undefined) {
      known.taken += bytes
      return
    }
    // The first look may come at once, so no client is slow at it.
    this.#readers.set(response, { taken: slowBytes, idleMs: 0 })
    response.once('close', () => this.#readers.delete(response))
    this.#timer ??= this.#timers.setInterval(this.#look, lookEveryMs).unref()
  }

  readonly #look = (): void => {
    const slow: ServerResponse[] = []
    for (const [response, reader] of this.#readers) {
      const isHeldUp = response.writableNeedDrain
      // Any other answer than to a GET may say what became of a payment.
      if (isHeldUp && response.req.method === 'GET' && reader.taken < slowBytes)
        slow.push(response)
      reader.idleMs = isHeldUp && reader.taken === 0 ? reader.idleMs + lookEveryMs : 0
      reader.taken = 0
      if (reader.idleMs >= this.#stallMs) cutOff(response)
    }
    if (slow.length > this.#max && this.#othersWait())
      for (const response of slow.slice(0, slow.length - this.#max)) cutOff(response)
    if (this.#readers.size > 0) return
    this.#timers.clear(this.#timer)
    this.#timer = undefined
  }
}
