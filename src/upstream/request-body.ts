import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { PatientTimer, type Timers } from '../clock.ts'
import { ClientGone } from '../http/failure.ts'
import { Problem } from '../http/problem.ts'

/** A whole body, sent with its length; the pieces of a body that is sent in chunks; or a body that streams. */
export type SentBody = Buffer | readonly Buffer[] | RequestBody

/** Part of a longer body may lie unread in the buffers of a connection. */
const maxUnreadBytes = 65_536

/** A body of which no byte came for too long. */
export function stalled(idleTimeoutMs: number): Problem {
  return new Problem('request-timeout', {
    detail: `No byte of the request body came for ${idleTimeoutMs} ms.`,
  })
}

/** The part of a body that was already read. */
interface Begun {
  readonly bytes: Buffer
  release(): void
}

/**
 * A client's request body on its way to an upstream. undici destroys its body stream as soon as an upstream answers
 * early. If that stream were the request itself, the client's connection would be closed together with its answer.
 */
export class RequestBody extends Readable {
  readonly #request: IncomingMessage
  readonly #idleTimer: PatientTimer
  readonly #idleTimeoutMs: number
  /** Set until the first read, which is when there is a connection. */
  #begun: Begun | undefined
  #hasEnded = false
  #length = 0

  /** Default of `timers`: Node's. */
  constructor(
    request: IncomingMessage,
    { idleTimeoutMs, timers }: { idleTimeoutMs: number; timers?: Timers | undefined },
    begun?: Begun,
  ) {
    super()
    this.#request = request
    this.#idleTimeoutMs = idleTimeoutMs
    this.#begun = begun
    this.#idleTimer = new PatientTimer(idleTimeoutMs, () => this.#onIdle(), timers)
    // The body may fail before anything listens for its errors. Without a listener that would end the process.
    this.on('error', () => {})
    request.on('data', this.#onData).on('end', this.#onEnd)
    request.on('error', this.#onGone).on('close', this.#onGone)
    request.pause()
  }

  /**
   * Whether the whole body was surely sent. For a long body that is unknown: the upstream may not have read what the
   * buffers of the connection hold.
   */
  get wasSent(): boolean {
    return this.readableEnded && this.#length <= maxUnreadBytes
  }

  #take(chunk: Buffer): boolean {
    this.#length += chunk.length
    return this.push(chunk)
  }

  readonly #onData = (chunk: Buffer) => {
    this.#idleTimer.refresh()
    if (!this.#take(chunk)) this.#request.pause()
  }

  readonly #onEnd = () => {
    this.#idleTimer.clear()
    this.#hasEnded = true
    // If the request came whole before it was read, Node emits its end although it is paused. The part in `#begun` goes
    // first, and undici would send a body that has ended with a length instead of in chunks.
    if (this.#begun === undefined) this.push(null)
  }

  readonly #onGone = () => {
    if (!this.#request.complete)
      this.destroy(new ClientGone('the client left mid-request', { maybeSeen: true }))
  }

  #onIdle(): void {
    // A paused request is waiting for the upstream, not for the client.
    if (this.#request.isPaused()) {
      this.#idleTimer.refresh()
      return
    }
    this.destroy(stalled(this.#idleTimeoutMs))
  }

  override _read(): void {
    const begun = this.#begun
    this.#begun = undefined
    begun?.release()
    // After push() Node calls _read() again when more is wanted, but not after an empty piece.
    if (begun !== undefined && begun.bytes.length > 0) this.#take(begun.bytes)
    else if (this.#hasEnded) this.push(null)
    else this.#request.resume()
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#idleTimer.clear()
    this.#begun?.release()
    this.#begun = undefined
    this.#request
      .off('data', this.#onData)
      .off('end', this.#onEnd)
      .off('close', this.#onGone)
    callback(error)
  }
}
