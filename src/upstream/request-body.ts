import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import { headerValues } from '../http/headers.ts'
import { Problem } from '../http/problem.ts'
import { PatientTimer } from '../process/patient-timer.ts'

/** The client left before its request or its answer was whole. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone'
  /** Whether the upstream may have seen the request. */
  readonly maybeSeen: boolean

  constructor(message: string, { maybeSeen }: { maybeSeen: boolean }) {
    super(message)
    this.maybeSeen = maybeSeen
  }
}

const alreadyRead = {
  detail:
    'Something in front of the gateway has read the body of this request, or set an encoding for it, so that its ' +
    'bytes are gone. Whoever runs this service has to mount the gateway before any body parser.',
}

/** By something in front of us. What comes after its `setEncoding()` is text, and no longer every byte. */
function isAlreadyRead(request: IncomingMessage): boolean {
  return request.readableDidRead || request.readableEnded || request.readableEncoding !== null
}

/**
 * A client's request body on its way to an upstream. undici destroys the body that it was given as soon as
 * an upstream answers early; destroying the request itself would tear down the client's connection, answer
 * and all, so it gets this instead.
 */
export class RequestBody extends Readable {
  readonly #request: IncomingMessage
  readonly #idleTimer: PatientTimer
  readonly #idleTimeoutMs: number

  /** `begun`: chunks that were already read. Without it, a partly read request is rejected. */
  constructor(request: IncomingMessage, idleTimeoutMs: number, begun?: readonly Buffer[]) {
    super()
    if (begun === undefined && isAlreadyRead(request)) throw new Problem('body-already-read', alreadyRead)
    this.#request = request
    this.#idleTimeoutMs = idleTimeoutMs
    this.#idleTimer = new PatientTimer(idleTimeoutMs, () => this.#onIdle())
    // The body may break off before anything listens to it; without a listener that would end the process.
    this.on('error', () => {})
    request.on('data', this.#onData)
    request.on('end', this.#onEnd)
    request.on('error', this.#onGone)
    request.on('close', this.#onGone)
    request.pause()
    for (const chunk of begun ?? []) this.push(chunk)
  }

  readonly #onData = (chunk: Buffer) => {
    this.#idleTimer.refresh()
    if (!this.push(chunk)) this.#request.pause()
  }

  readonly #onEnd = () => {
    this.#idleTimer.clear()
    this.push(null)
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
    this.destroy(
      new Problem('request-timeout', {
        detail: `No byte of the request body came for ${this.#idleTimeoutMs} ms.`,
      }),
    )
  }

  override _read(): void {
    this.#request.resume()
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#idleTimer.clear()
    this.#request.off('data', this.#onData)
    this.#request.off('end', this.#onEnd)
    this.#request.off('close', this.#onGone)
    callback(error)
  }
}

/** Whether a request has a body: only its framing says so, not its method (RFC 9112 6.3). */
function hasBody({ headers, rawHeaders }: IncomingMessage): boolean {
  if (headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) !== 0) return true
  // Something in front of us may have taken fields out of `headers`: a payment would go out without its body.
  return (
    headerValues(rawHeaders, 'transfer-encoding').length > 0 ||
    headerValues(rawHeaders, 'content-length').some((length) => Number(length) !== 0)
  )
}

/** The body of a request as a stream, if it has one. */
export function requestBody(request: IncomingMessage, idleTimeoutMs: number): RequestBody | null {
  return hasBody(request) ? new RequestBody(request, idleTimeoutMs) : null
}

/** What Node reads from a connection at a time: to hold that much for a turn of the event loop costs nothing more. */
const oneGoBytesMost = 65_536

/** Whether the body may come in one go with the head, and can then be sent on in one write, without a stream. */
export function mayComeInOneGo(request: IncomingMessage): boolean {
  // What is left of a body that somebody has begun to read must not pass for the whole.
  if (isAlreadyRead(request)) return false
  const length = Number(request.headers['content-length'] ?? 0)
  return length > 0 && length <= oneGoBytesMost
}

/**
 * Takes what comes in one go with the head: before the event loop turns. Tells `take` the whole body, if that
 * is all of it; else what has come, which a stream then begins with.
 */
export function bodyInOneGo(
  request: IncomingMessage,
  take: (whole: Buffer | undefined, begun: readonly Buffer[]) => void,
): void {
  const chunks: Buffer[] = []
  const onData = (chunk: Buffer) => chunks.push(chunk)
  const onEnd = () => {
    stop()
    take(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks), [])
  }
  const atTurn = setImmediate(() => {
    stop()
    take(undefined, chunks)
  })
  const stop = () => {
    clearImmediate(atTurn)
    request.off('data', onData)
    request.off('end', onEnd)
  }
  request.on('data', onData)
  request.on('end', onEnd)
  // From its first read on a stream hands chunks out as they come, and the socket is not stopped in between.
  request.read(0)
}
