import type { ServerResponse } from 'node:http'
import type { Timer, Timers } from '../clock.ts'
import { cutOff } from '../http/answer.ts'

/** Most requests wait a second for a connection: several looks fall into it. */
const lookEveryMs = 250
/** Less than 64 KiB a second is slow. Answers come in pieces of up to 64 KiB, so a caller may pause after each. */
const slowBytesALook = 16_384
const pieceBytes = 65_536

interface Reader {
  /** How far the caller is ahead of a slow one, at most a piece. Below zero: it is slow. */
  aheadBytes: number
  /** How long the caller has taken nothing: a pause of this process is one look. */
  idleMs: number
}

/**
 * Callers that take their answers more slowly than they come, each on a connection to the upstream. A caller that stops
 * reading is cut after `stallMs`: undici's body timeout stops while an answer is paused. A slow reader of a large GET
 * could hold its connection without end: while other requests wait, at most `max` stay, and the ones slow for longest
 * are cut.
 */
export class SlowReaders {
  readonly #max: number
  readonly #stallMs: number
  readonly #othersWait: () => boolean
  /** Readers, in the order in which they first held up their answers. */
  readonly #readers = new Map<ServerResponse, Reader>()
  readonly #timers: Timers
  #timer: Timer | undefined

  /** `max`: connections that they may hold while other requests wait. */
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

  /** Calls `goOn` once the caller has taken these bytes. */
  heldUp(response: ServerResponse, bytes: number, goOn: () => void): void {
    // A destroyed response emits no event.
    if (response.destroyed) return
    response.once('drain', goOn)
    const known = this.#readers.get(response)
    if (known !== undefined) {
      known.aheadBytes = Math.min(known.aheadBytes + bytes, pieceBytes)
      known.idleMs = 0
      return
    }
    // The first look may come at once.
    this.#readers.set(response, { aheadBytes: pieceBytes, idleMs: -lookEveryMs })
    response.once('close', () => this.#readers.delete(response))
    this.#timer ??= this.#timers.setInterval(this.#look, lookEveryMs).unref()
  }

  readonly #look = (): void => {
    const slow: ServerResponse[] = []
    for (const [response, reader] of this.#readers) {
      // The reader waits for the upstream.
      if (!response.writableNeedDrain) continue
      reader.aheadBytes = Math.max(reader.aheadBytes - slowBytesALook, -1)
      reader.idleMs += lookEveryMs
      // An answer to another method may say what became of a payment.
      if (response.req.method === 'GET' && reader.aheadBytes < 0) slow.push(response)
      if (reader.idleMs >= this.#stallMs) cutOff(response)
    }
    if (slow.length > this.#max && this.#othersWait())
      for (const response of slow.slice(0, slow.length - this.#max)) cutOff(response)
    if (this.#readers.size > 0) return
    this.#timers.clear(this.#timer)
    this.#timer = undefined
  }
}
