import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { PatientTimer, type Timers } from '../clock.ts'
import { ClientGone } from '../http/failure.ts'
import { Problem } from '../http/problem.ts'

/** A whole body with its length; the pieces of a chunked body; or a body that streams. */
export type SentBody = Buffer | readonly Buffer[] | RequestBody

/** Part of a longer body may lie unread in the buffers of a connection. */
const maxUnreadBytes = 65_536

export function stalled(idleTimeoutMs: number): Problem {
  return new Problem('request-timeout', {
    detail: `No byte of the request body came for ${idleTimeoutMs} ms.`,
  })
}

interface Begun {
  readonly bytes: Buffer
  release(): void
}

/**
 * A caller's request body on its way. undici destroys its body stream when an upstream answers early: if that were the
 * request itself, the caller's connection would close together with its answer.
 */
export class RequestBody extends Readable {
  readonly #request: IncomingMessage
  readonly #idleTimer: PatientTimer
  readonly #idleTimeoutMs: number
  /** Set until the first read, when there is a connection. */
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
    // The body may fail before anything listens, which would end the process.
    this.on('error', () => {})
    request.on('data', this.#onData).on('end', this.#onEnd)
    request.on('error', this.#onGone).on('close', this.#onGone)
    request.pause()
  }

  /** False also for a long body: the upstream may not have read what the connection's buffers hold. */
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
    // Node emits the end of a request that came whole, although it is paused. While `#begun` is unread, this body must
    // not end: undici would send it with a length instead of in chunks.
    if (this.#begun === undefined) this.push(null)
  }

  readonly #onGone = () => {
    if (!this.#request.complete)
      this.destroy(new ClientGone('the caller left mid-request', { maybeSeen: true }))
  }

  #onIdle(): void {
    // A paused request is waiting for the upstream, not for the caller.
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
    // push() makes Node read again, but not after an empty piece.
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
