import type { IncomingMessage, ServerResponse } from 'node:http'
import { PatientTimer, type Timers } from '../clock.ts'
import {
  hasBody,
  type Interruptible,
  interrupted,
  isAnsweredWithProblem,
  TrafficResponse,
} from '../http/answer.ts'
import { ClientGone } from '../http/failure.ts'
import { Problem } from '../http/problem.ts'
import type { MemoryLimits } from '../process/memory.ts'
import { RequestBody, type SentBody, stalled } from './request-body.ts'

/** A longer body streams. Node reads at most as much at a time. */
const maxStartBytes = 65_536
/** A body that is not judged streams if it is not whole after this time. */
const patienceMs = 1_000

export function isSurelyLong({ headers }: IncomingMessage): boolean {
  return Number(headers['content-length'] ?? 0) > maxStartBytes
}

export function awaitsContinue(response: ServerResponse): boolean {
  return response instanceof TrafficResponse && response.awaitsContinue
}

/** The share of the heap limit that unfinished bodies may take. */
const heapShare = 1 / 16
const minBytes = 8 * 2 ** 20
/** The share of these bytes for bodies that are not judged. The rest is left to orders. */
const unjudgedShare = 1 / 2

export function maxHeldBytes({ heapBytes }: Pick<MemoryLimits, 'heapBytes'>): number {
  return Math.max(minBytes, Math.floor(heapBytes * heapShare))
}

/** What is known of a body before there is a connection to its upstream. */
export interface Body {
  /** Undefined: the body is longer than `maxStartBytes`, or slow. That of a judged order is never taken for slow. */
  whole: Buffer | undefined
  /** All of the body, framed as received. */
  body: SentBody
}

function wholeBody({ headers }: IncomingMessage, whole: Buffer): Body {
  // undici sends a Buffer with its length, and a list as chunks, unless the headers state a length.
  return { whole, body: headers['content-length'] === undefined ? [whole] : whole }
}

/**
 * Reads bodies, and limits the memory for unfinished ones. Past the limit a growing body streams from what has come. An
 * order has to be whole before it is sent, so the oldest unfinished order is refused. An order in one piece is never
 * held.
 */
export class RequestBodies {
  /** How long a body may pause. */
  readonly idleTimeoutMs: number
  readonly timers: Timers | undefined
  /** Max bytes held of unfinished bodies, in all. */
  readonly #maxHeldBytes: number
  #judgedBytes = 0
  /** Bytes of bodies that are not judged, and of judged ones that stream. */
  #otherBytes = 0
  /** Judged bodies that are held, oldest first. */
  readonly judged = new Set<BodyReader>()

  /** Default of `timers`: Node's. */
  constructor(options: {
    maxHeldBytes: number
    idleTimeoutMs: number
    timers?: Timers
  }) {
    this.#maxHeldBytes = options.maxHeldBytes
    this.idleTimeoutMs = options.idleTimeoutMs
    this.timers = options.timers
  }

  /**
   * Reads a body up to `maxStartBytes` before there is a connection, so that a slow sender holds none; with `isJudged`,
   * however long that takes. Never settles if a problem is answered meanwhile.
   */
  async read(
    request: IncomingMessage,
    response: ServerResponse,
    { isJudged }: { isJudged: boolean },
  ): Promise<Body> {
    if (response instanceof TrafficResponse && response.awaitsContinue) {
      response.awaitsContinue = false
      response.writeContinue()
    }
    // Without a body, the stream may have ended already without an event (optimizeEmptyRequests).
    if (!hasBody(request)) return wholeBody(request, noBytes)
    // The part with the head may have been malformed.
    if (isAnsweredWithProblem(response)) return never
    refuseAlreadyRead(request)
    if (isSurelyLong(request) && !isJudged)
      return { whole: undefined, body: new RequestBody(request, this) }
    return new Promise((resolve, reject) =>
      new BodyReader(request, { bodies: this, isJudged, resolve, reject }).start(
        response,
      ),
    )
  }

  get heldBytes(): number {
    return this.#judgedBytes + this.#otherBytes
  }

  /** Counts held bytes; negative: bytes that are held no longer. */
  hold(bytes: number, isJudged: boolean): void {
    if (isJudged) this.#judgedBytes += bytes
    else this.#otherBytes += bytes
  }

  /** Refuses the oldest orders: a caller that sends a byte now and then must not keep others out. */
  makeRoom(): void {
    for (const order of this.judged) {
      if (!this.isFull(true)) return
      order.refuse()
    }
  }

  /**
   * Whether no body of this kind may grow. Other bodies, which wait to stream, count against orders with at most their
   * share.
   */
  isFull(isJudged: boolean): boolean {
    const share = this.#maxHeldBytes * unjudgedShare
    if (!isJudged) return this.heldBytes > share
    return this.#judgedBytes + Math.min(this.#otherBytes, share) > this.#maxHeldBytes
  }
}

/**
 * The rest of a body that middleware has read in part must not pass as the whole. After `setEncoding()` it is text that
 * has lost bytes.
 */
function refuseAlreadyRead(request: IncomingMessage): void {
  if (
    !request.readableDidRead &&
    !request.readableEnded &&
    request.readableEncoding === null
  )
    return
  throw new Problem('body-already-read', {
    detail:
      'Something in front of the gateway has read the body of this request, or set an encoding for it, so that its ' +
      'bytes are gone. The gateway has to be mounted before any body parser.',
  })
}

const noBytes = Buffer.alloc(0)
const never: Promise<never> = new Promise(() => {})

class BodyReader {
  readonly #request: IncomingMessage
  readonly #bodies: RequestBodies
  readonly #isJudged: boolean
  readonly #resolve: (body: Body) => void
  readonly #reject: (error: Error) => void
  /** At first the piece as it came, later a buffer of our own. */
  #bytes: Buffer = noBytes
  #length = 0
  #heldBytes = 0
  #nextTurn: NodeJS.Immediate | undefined
  /** Undefined in the first turn of the event loop. */
  #timer: PatientTimer | undefined
  #hasEnded = false

  constructor(
    request: IncomingMessage,
    options: {
      bodies: RequestBodies
      isJudged: boolean
      resolve(body: Body): void
      reject(error: Error): void
    },
  ) {
    this.#request = request
    this.#bodies = options.bodies
    this.#isJudged = options.isJudged
    this.#resolve = options.resolve
    this.#reject = options.reject
  }

  start(response: Interruptible): void {
    const request = this.#request
    response[interrupted] = () => this.#stop()
    request.on('data', this.#onData).on('end', this.#onEnd)
    request.on('error', this.#onGone).on('close', this.#onGone)
    // Node emits what came with the head before the event loop turns. Until then holding it costs nothing and needs no
    // timer.
    this.#nextTurn = setImmediate(() => this.#wait())
    // Middleware may have paused the request.
    request.resume()
    // After its first read() a stream emits chunks as they come, without pausing the socket.
    request.read(0)
  }

  #wait(): void {
    if (this.#request.destroyed) {
      this.#onGone()
      return
    }
    const { idleTimeoutMs, timers } = this.#bodies
    if (this.#isJudged) this.#bodies.judged.add(this)
    // The piece may keep a large buffer in memory.
    const received = this.#received
    this.#bytes = Buffer.allocUnsafeSlow(received.length)
    received.copy(this.#bytes)
    this.#timer = this.#isJudged
      ? new PatientTimer(idleTimeoutMs, () => this.#fail(stalled(idleTimeoutMs)), timers)
      : new PatientTimer(patienceMs, () => this.#stream(), timers)
    this.#hold()
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#append(chunk)
    if (this.#length > maxStartBytes) this.#stream()
    else if (this.#timer !== undefined) {
      if (this.#isJudged) this.#timer.refresh()
      this.#hold()
    }
  }

  #append(chunk: Buffer): void {
    const length = this.#length + chunk.length
    if (this.#length === 0 && this.#timer === undefined) this.#bytes = chunk
    else if (length > this.#bytes.length) {
      // One buffer for all pieces: a few bytes take hundreds as an object of their own.
      const larger = Buffer.allocUnsafeSlow(
        Math.max(length, Math.min(2 * this.#bytes.length, maxStartBytes)),
      )
      this.#bytes.copy(larger, 0, 0, this.#length)
      this.#bytes = larger
    }
    if (this.#bytes !== chunk) chunk.copy(this.#bytes, this.#length)
    this.#length = length
  }

  /** Past the bound the body streams, or orders make room. */
  #hold(): void {
    const grownBy = this.#bytes.length - this.#heldBytes
    this.#heldBytes += grownBy
    this.#bodies.hold(grownBy, this.#isJudged)
    if (grownBy === 0 || !this.#bodies.isFull(this.#isJudged)) return
    // Not at once: this piece may end the body.
    clearImmediate(this.#nextTurn)
    this.#nextTurn = setImmediate(() =>
      this.#isJudged ? this.#bodies.makeRoom() : this.#stream(),
    )
  }

  get #received(): Buffer {
    return this.#bytes.subarray(0, this.#length)
  }

  readonly #onEnd = (): void => {
    const whole = this.#received
    if (this.#stop()) this.#resolve(wholeBody(this.#request, whole))
  }

  readonly #onGone = (): void => {
    this.#fail(new ClientGone('the caller left mid-request', { maybeSeen: false }))
  }

  refuse(): void {
    const detail =
      'Unfinished requests have filled the memory for incomplete bodies, and this order took longest to arrive. ' +
      'Nothing was sent. Send the order again in one piece.'
    this.#fail(new Problem('request-timeout', { detail }))
  }

  #fail(error: Error): void {
    if (this.#stop()) this.#reject(error)
  }

  /** The bytes are held until the stream is first read, when there is a connection. */
  #stream(): void {
    // The RequestBody would miss an earlier close.
    if (this.#request.destroyed) this.#onGone()
    const bytes = this.#received
    const heldBytes = this.#bytes.length
    if (!this.#stop()) return
    const bodies = this.#bodies
    bodies.hold(heldBytes, false)
    const begun = { bytes, release: () => bodies.hold(-heldBytes, false) }
    this.#resolve({
      whole: undefined,
      body: new RequestBody(this.#request, bodies, begun),
    })
  }

  /** False: the reader has stopped already. */
  #stop(): boolean {
    if (this.#hasEnded) return false
    this.#hasEnded = true
    this.#bytes = noBytes
    clearImmediate(this.#nextTurn)
    this.#timer?.clear()
    this.#bodies.hold(-this.#heldBytes, this.#isJudged)
    this.#bodies.judged.delete(this)
    this.#request
      .off('data', this.#onData)
      .off('end', this.#onEnd)
      .off('close', this.#onGone)
    return true
  }
}
