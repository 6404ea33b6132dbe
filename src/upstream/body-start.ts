import type { IncomingMessage, ServerResponse } from 'node:http'
import { ClientGone } from '../http/has-left.ts'
import { headerValues } from '../http/headers.ts'
import { Problem } from '../http/problem.ts'
import { type Interruptible, interrupted, isAnsweredWithProblem } from '../http/problem-response.ts'
import { TrafficResponse } from '../http/whole-response.ts'
import { PatientTimer } from '../process/patient-timer.ts'
import type { HeldBodies, HeldBody } from './held-bodies.ts'
import { isAlreadyRead, RequestBody, stalled } from './request-body.ts'
import type { SentBody } from './types.ts'

/** A longer body streams. It is also what Node reads from a connection at a time. */
export const maxStartBytes = 65_536
/** A body that is not judged streams if it is not whole after this time. */
const patienceMs = 1_000

export interface BodyStartOptions {
  response: ServerResponse
  idleTimeoutMs: number
  /** It is read as a whole, or to `maxStartBytes`, however long that takes. */
  isJudged: boolean
  held: HeldBodies
}

/** The first thing to know of a body, before there is a connection to its upstream. */
export interface BodyStart {
  /** Undefined: the body is longer than `maxStartBytes`, or slow. */
  whole: Buffer | undefined
  /** All of the body, in the framing in which it came. */
  body: SentBody
}

/** Whether a request has a body. Only its framing decides that, not its method (RFC 9112 6.3). */
export function hasBody({ headers, rawHeaders }: IncomingMessage): boolean {
  if (headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) !== 0) return true
  // Middleware may have removed fields from `headers`. Without `rawHeaders` a payment would be sent without its body.
  return (
    headerValues(rawHeaders, 'transfer-encoding').length > 0 ||
    headerValues(rawHeaders, 'content-length').some((length) => Number(length) !== 0)
  )
}

/** Whether the body states a length with which it has to stream. */
export function isSurelyLong({ headers }: IncomingMessage): boolean {
  return Number(headers['content-length'] ?? 0) > maxStartBytes
}

type TakeBodyStart = (error: Error | undefined, start: BodyStart) => void

/**
 * Reads a body up to `maxStartBytes` before there is a connection, so that a slow sender holds none. Never settles if the
 * request is answered with a problem meanwhile.
 */
export function readBodyStart(request: IncomingMessage, options: BodyStartOptions): Promise<BodyStart> {
  return new Promise((resolve, reject) => {
    readStart(request, options, (error, start) => {
      if (error === undefined) resolve(start)
      else reject(error)
    })
  })
}

function readStart(request: IncomingMessage, options: BodyStartOptions, take: TakeBodyStart): void {
  const { response, idleTimeoutMs, isJudged } = options
  if (response instanceof TrafficResponse) response.askForBody()
  // The rest of a partly read body must not be sent as the whole body: this throws.
  if (isAlreadyRead(request) || (isSurelyLong(request) && !isJudged)) {
    take(undefined, { whole: undefined, body: new RequestBody(request, { idleTimeoutMs }) })
    return
  }
  const chunks: Buffer[] = []
  let length = 0
  const onData = (chunk: Buffer) => {
    chunks.push(chunk)
    length += chunk.length
    if (length > maxStartBytes) stopFor(readOn)
  }
  const onEnd = () => stopFor(() => take(undefined, wholeBody(request, joined(chunks))))
  const readOn = () => {
    // What came with the head may have been malformed.
    if (!isAnsweredWithProblem(response)) new SlowStart(request, options, take).begin(chunks)
  }
  // What arrived together with the head is what Node emits before the event loop turns. Holding it for that long costs
  // nothing, and needs no timer.
  const nextTurn = setImmediate(() => stopFor(readOn))
  function stopFor(next: () => void): void {
    clearImmediate(nextTurn)
    request.off('data', onData).off('end', onEnd)
    next()
  }
  request.on('data', onData)
  request.on('end', onEnd)
  // Middleware may have paused it.
  request.resume()
  // After its first read() a stream emits chunks as they come, and the socket is not paused in between.
  request.read(0)
}

function joined(chunks: readonly Buffer[]): Buffer {
  const [first = noBytes] = chunks
  return chunks.length > 1 ? Buffer.concat(chunks) : first
}

const noBytes = Buffer.alloc(0)

/** undici sends a Buffer with its length, and the pieces of a list as chunks, unless the headers state a length. */
function wholeBody({ headers }: IncomingMessage, whole: Buffer): BodyStart {
  return { whole, body: headers['content-length'] === undefined ? [whole] : whole }
}

/** A body that did not come with its head. */
class SlowStart {
  readonly #request: IncomingMessage
  readonly #options: BodyStartOptions
  readonly #take: TakeBodyStart
  readonly #held: HeldBody
  readonly #timer: PatientTimer
  /** The pieces in one buffer: a piece of a few bytes takes hundreds as an object of its own. */
  #bytes = noBytes
  #length = 0
  #ended = false

  constructor(request: IncomingMessage, options: BodyStartOptions, take: TakeBodyStart) {
    this.#request = request
    this.#options = options
    this.#take = take
    const { held, idleTimeoutMs, isJudged } = options
    this.#held = held.hold({ isJudged, letGo: () => (isJudged ? this.#refuse() : this.#stream()) })
    this.#timer = isJudged
      ? new PatientTimer(idleTimeoutMs, () => this.#fail(stalled(idleTimeoutMs)))
      : new PatientTimer(patienceMs, () => this.#stream())
  }

  begin(chunks: readonly Buffer[]): void {
    const request = this.#request
    ;(this.#options.response as Interruptible)[interrupted] = () => {
      if (!this.#stop()) return
      this.#held.release()
      this.#bytes = noBytes
    }
    request
      .on('data', this.#onData)
      .on('end', this.#onEnd)
      .on('error', this.#onGone)
      .on('close', this.#onGone)
    if (request.destroyed) this.#onGone()
    // All at once: after any of them the body may have to stream from what has come.
    else this.#onData(joined(chunks))
  }

  readonly #onData = (chunk: Buffer): void => {
    if (this.#options.isJudged) this.#timer.refresh()
    const capacity = this.#bytes.length
    this.#append(chunk)
    this.#held.grow(this.#bytes.length - capacity)
    if (this.#length > maxStartBytes) this.#stream()
  }

  #append(chunk: Buffer): void {
    const length = this.#length + chunk.length
    if (length > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(length, Math.min(2 * this.#bytes.length, maxStartBytes)))
      this.#bytes.copy(larger, 0, 0, this.#length)
      this.#bytes = larger
    }
    chunk.copy(this.#bytes, this.#length)
    this.#length = length
  }

  get #received(): Buffer {
    return this.#bytes.subarray(0, this.#length)
  }

  readonly #onEnd = (): void => {
    if (!this.#stop()) return
    this.#held.release()
    const received = this.#received
    this.#bytes = noBytes
    this.#take(undefined, wholeBody(this.#request, received))
  }

  readonly #onGone = (): void => {
    this.#fail(new ClientGone('the client left mid-request', { maybeSeen: false }))
  }

  #refuse(): void {
    const detail =
      'Unfinished requests have filled the memory for incomplete bodies, and this order took longest to arrive. ' +
      'Nothing was sent. Send the order again in one piece.'
    this.#fail(new Problem('request-timeout', { detail }))
  }

  #fail(error: Error): void {
    if (!this.#stop()) return
    this.#held.release()
    this.#bytes = noBytes
    this.#take(error, { whole: undefined, body: noBytes })
  }

  #stream(): void {
    // Its RequestBody would miss that the request has closed.
    if (this.#request.destroyed) this.#onGone()
    if (!this.#stop()) return
    const { idleTimeoutMs } = this.#options
    this.#held.streams()
    const begun = { bytes: this.#received, held: this.#held }
    this.#bytes = noBytes
    this.#take(undefined, {
      whole: undefined,
      body: new RequestBody(this.#request, { idleTimeoutMs, begun }),
    })
  }

  /** False: it has stopped already. */
  #stop(): boolean {
    if (this.#ended) return false
    this.#ended = true
    this.#timer.clear()
    this.#request.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onGone)
    return true
  }
}
