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
    'bytes are gone. The gateway has to be mounted before any body parser.',
}

/** Whether middleware has read the body or part of it. After its `setEncoding()` the body is text and has lost bytes. */
function isAlreadyRead(request: IncomingMessage): boolean {
  return request.readableDidRead || request.readableEnded || request.readableEncoding !== null
}

/** Node reads this much from a connection at a time, so holding it for one turn of the event loop costs nothing more. */
const maxArrivedBytes = 65_536

/**
 * A client's request body on its way to an upstream. undici destroys its body stream as soon as an upstream answers
 * early. If that stream were the request itself, the client's connection would be closed together with its answer.
 */
export class RequestBody extends Readable {
  readonly #request: IncomingMessage
  readonly #idleTimer: PatientTimer
  readonly #idleTimeoutMs: number
  #length = 0

  /** `begun`: chunks that were already read. Without it, a partly read request is rejected. */
  constructor(request: IncomingMessage, idleTimeoutMs: number, begun?: readonly Buffer[]) {
    super()
    if (begun === undefined && isAlreadyRead(request)) throw new Problem('body-already-read', alreadyRead)
    this.#request = request
    this.#idleTimeoutMs = idleTimeoutMs
    this.#idleTimer = new PatientTimer(idleTimeoutMs, () => this.#onIdle())
    // The body may fail before anything listens for its errors. Without a listener that would end the process.
    this.on('error', () => {})
    request.on('data', this.#onData)
    request.on('end', this.#onEnd)
    request.on('error', this.#onGone)
    request.on('close', this.#onGone)
    request.pause()
    for (const chunk of begun ?? []) this.#take(chunk)
  }

  /**
   * Whether all of it was surely sent. Of a long body it is not known: what the upstream has not read may lie in the
   * buffers of the connection.
   */
  get wasSent(): boolean {
    return this.readableEnded && this.#length <= maxArrivedBytes
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

/** Whether a request has a body. Only its framing decides that, not its method (RFC 9112 6.3). */
function hasBody({ headers, rawHeaders }: IncomingMessage): boolean {
  if (headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) !== 0) return true
  // Middleware may have removed fields from `headers`. Without `rawHeaders` a payment would be sent without its body.
  return (
    headerValues(rawHeaders, 'transfer-encoding').length > 0 ||
    headerValues(rawHeaders, 'content-length').some((length) => Number(length) !== 0)
  )
}

/** The body of a request as a stream, if it has one. */
export function requestBody(request: IncomingMessage, idleTimeoutMs: number): RequestBody | null {
  return hasBody(request) ? new RequestBody(request, idleTimeoutMs) : null
}

/** Whether all of the body may arrive together with the head. It can then be sent in one write, without a stream. */
export function mayArriveWithHead(request: IncomingMessage): boolean {
  // The rest of a partly read body must not be taken for the whole body.
  if (isAlreadyRead(request)) return false
  const length = Number(request.headers['content-length'] ?? 0)
  return length > 0 && length <= maxArrivedBytes
}

/**
 * Reads what arrived together with the head, which is what Node emits before the event loop turns. Calls `take` with the
 * whole body; or, if more is to come, with the chunks so far, which a RequestBody then begins with.
 */
export function readArrivedBody(
  request: IncomingMessage,
  take: (whole: Buffer | undefined, begun: readonly Buffer[]) => void,
): void {
  const chunks: Buffer[] = []
  const onData = (chunk: Buffer) => chunks.push(chunk)
  const onEnd = () => {
    stop()
    take(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks), [])
  }
  const nextTurn = setImmediate(() => {
    stop()
    take(undefined, chunks)
  })
  const stop = () => {
    clearImmediate(nextTurn)
    request.off('data', onData)
    request.off('end', onEnd)
  }
  request.on('data', onData)
  request.on('end', onEnd)
  // After its first read() a stream emits chunks as they come, and the socket is not paused in between.
  request.read(0)
}
