import { bodilessStatuses } from '../http/headers.ts'
import { Problem } from '../http/problem.ts'
import { UpstreamFailure, type UpstreamFault } from '../http/upstream-failure.ts'
import { PatientTimer } from '../process/patient-timer.ts'
import type { Permit } from './breakers.ts'
import type { Try, TryHandler } from './connections.ts'
import { countedFaults, faultOf, isLocalError, retryableFaults } from './fault.ts'
import { ClientGone, RequestBody } from './request-body.ts'
import type { TryTrace } from './try-trace.ts'
import type {
  CountedFailure,
  InFlightRequest,
  Outcome,
  RequestControl,
  UpstreamHandler,
  UpstreamRequest,
} from './types.ts'

export interface AttemptOptions {
  request: UpstreamRequest
  handler: UpstreamHandler
  /** Of the breaker of its kind, if it has one. */
  permit: Permit | undefined
  startedAtMs: number
  context: AttemptContext
}

type EndedAttempt = Pick<AttemptOptions, 'request' | 'startedAtMs'>

/** What all attempts to one upstream share. */
export interface AttemptContext {
  retries: number
  /** How long a request without `connectByMs` may wait for a connection to be free. */
  maxWaitMs: number
  /** What a request ends with that waited for too long. */
  waitedTooLong(): UpstreamFailure
  send(request: UpstreamRequest, handler: TryHandler, traced: TryTrace | undefined): Try
  /** Undefined: the request is not sampled. */
  traceTry(request: UpstreamRequest, resends: number): TryTrace | undefined
  /** Whether the upstream can be connected to. */
  mayRetry(): boolean
  /** A request got its connection. */
  connected(): void
  onRetry(): void
  /** Called before the failure is reported to a breaker: to that of connections if it never got one. */
  onFailure(failure: CountedFailure, attempt: EndedAttempt, hadConnection: boolean): void
  onEnd(outcome: Outcome, attempt: EndedAttempt, status: number): void
}

/** An answer that its client has held up for longer may have been broken off for that. */
const maxHeldUpMs = 1_000
const failedStatuses: ReadonlySet<number> = new Set([502, 503, 504])

/**
 * One request to the upstream, in as many tries as are safe. A request is sent again only if the upstream cannot have
 * seen it, or if it is a GET or HEAD whose connection died before any byte of an answer. However many tries it took, it
 * reports one end: without a connection to the connections' breaker, else to that of its kind.
 */
export class Attempt implements TryHandler, InFlightRequest, RequestControl {
  readonly #options: AttemptOptions
  readonly #context: AttemptContext
  #retriesLeft: number
  #try: Try | undefined
  /** Of the last try that had a connection. */
  #control: RequestControl | undefined
  #resends = 0
  #traced: TryTrace | undefined
  #waitTimer: PatientTimer | undefined
  /** Whether any try had to wait for a connection to be free. */
  #waited = false
  /** Of the connections' breaker, while the current try has no connection. */
  #connectPermit: Permit | undefined
  /** Whether the current try has a connection. */
  #began = false
  #status = 0
  /** Since when the client has not read on, and for how long it did not before. */
  #heldUpSinceMs: number | undefined
  #heldUpMs = 0
  #givenUp = false
  /** The handler cancelled the request before it was sent, which says nothing about the upstream. */
  #unsent = false
  #ended = false

  constructor(options: AttemptOptions) {
    this.#options = options
    this.#context = options.context
    this.#retriesLeft = this.#context.retries
    if (options.permit?.isTrial) this.#retriesLeft = 0
    this.#send()
  }

  #send(): void {
    const { request, startedAtMs } = this.#options
    const { maxWaitMs, send, traceTry, waitedTooLong } = this.#context
    this.#traced = traceTry(request, this.#resends)
    this.#try = send(request, this, this.#traced)
    if (!this.#try.isWaiting) return
    this.#traced?.waits()
    this.#waited = true
    const { connectByMs = startedAtMs + maxWaitMs } = request
    const leftMs = Math.max(0, connectByMs - performance.now())
    this.#waitTimer = new PatientTimer(leftMs, () => this.withdraw(waitedTooLong()))
  }

  withdraw(reason: Error): void {
    if (!this.#try?.withdraw()) return
    this.#traced?.ends(reason instanceof UpstreamFailure ? reason.fault : 'given_up')
    this.#end(reason instanceof UpstreamFailure ? reason.fault : 'given-up', 'abandoned')
    this.#options.handler.onError(reason)
  }

  onStart(permit: Permit, isOpen: boolean): void {
    this.#waitTimer?.clear()
    this.#traced?.starts(isOpen)
    this.#connectPermit = permit
    // A trial is not retried: an upstream that is just recovering gets one request.
    if (permit.isTrial) this.#retriesLeft = 0
  }

  onConnect(control: RequestControl): void {
    this.#control = control
    this.#connectPermit?.succeeded()
    this.#connectPermit = undefined
    this.#context.connected()
    this.#traced?.connected()
    try {
      if (this.#isTooLate()) throw this.#context.waitedTooLong()
      this.#options.handler.onConnect(this)
    } catch (error) {
      // As in `withdraw`: a request whose deadline passed before it had a connection was not given up by its client.
      this.#givenUp = !(error instanceof UpstreamFailure)
      this.#unsent = true
      this.#traced?.unsent()
      throw error
    }
    this.#began = true
  }

  /** After a pause of this process a connection may become free before the timer runs. Making one takes time, too. */
  #isTooLate(): boolean {
    const { connectByMs } = this.#options.request
    return this.#waited && connectByMs !== undefined && performance.now() > connectByMs
  }

  abort(reason: Error): void {
    // A deadline that passed is a failure of the upstream. A client that left is not.
    this.#givenUp = !(reason instanceof UpstreamFailure)
    this.#control?.abort(reason)
  }

  resume(): void {
    this.#countHeldUp()
    this.#control?.resume()
  }

  onHeaders(status: number, rawHeaders: readonly Buffer[], reason: string): void {
    this.#status = status
    this.#traced?.answered(status)
    if (status >= 200 && !failedStatuses.has(status)) this.#options.permit?.answerBegan()
    this.#options.handler.onHeaders(status, rawHeaders, reason)
  }

  onData(chunk: Buffer): boolean {
    const goesOn = this.#options.handler.onData(chunk)
    if (!goesOn) this.#heldUpSinceMs ??= performance.now()
    return goesOn
  }

  #countHeldUp(): void {
    if (this.#heldUpSinceMs !== undefined) this.#heldUpMs += performance.now() - this.#heldUpSinceMs
    this.#heldUpSinceMs = undefined
  }

  onComplete(): void {
    this.#traced?.ends()
    if (failedStatuses.has(this.#status)) {
      this.#context.onFailure(this.#status, this.#options, true)
      this.#end('failed-status', this.#failure())
    } else this.#end('answered', 'succeeded')
    this.#options.handler.onComplete()
  }

  onError(error: Error, answerBegan: boolean): void {
    const fault =
      error instanceof UpstreamFailure
        ? error.fault
        : faultOf(error, { requestBegan: this.#began, headReceived: this.#status >= 200 })
    // A 304 may state the length of the body that it omits (RFC 9110 8.6). undici then reports that body as missing.
    if (bodilessStatuses.has(this.#status) && fault === 'http_response_incomplete') {
      this.onComplete()
      return
    }
    this.#givenUp ||= isCausedByClient(error)
    this.#traced?.ends(this.#givenUp ? 'given_up' : fault)
    const isNotUpstreams = this.#givenUp || this.#unsent || isLocalError(error)
    this.#countHeldUp()
    const counts = countedFaults.has(fault) && !isNotUpstreams
    const mayRepeat = !isNotUpstreams && !answerBegan && this.#isSafeToRepeat(fault)
    if (mayRepeat && this.#retriesLeft > 0 && this.#context.mayRetry()) {
      this.#retriesLeft -= 1
      this.#resends += 1
      this.#began = false
      this.#connectPermit?.abandoned()
      this.#connectPermit = undefined
      this.#context.onRetry()
      this.#send()
      return
    }
    if (counts) this.#context.onFailure(fault, this.#options, this.#connectPermit === undefined)
    this.#connectPermit?.[counts ? 'failed' : 'abandoned']()
    const verdict = counts ? this.#failure() : 'succeeded'
    this.#end(this.#givenUp ? 'given-up' : fault, isNotUpstreams || !this.#began ? 'abandoned' : verdict)
    this.#options.handler.onError(error)
  }

  /**
   * A failure in the middle of an upload says nothing about the upstream, which may have cut it short for its length; and
   * none while the client did not read its answer. If they counted, one such client could stop the requests of others.
   */
  #failure(): 'failed' | 'abandoned' {
    const { body } = this.#options.request
    const wasCut = (body instanceof RequestBody && !body.wasSent) || this.#heldUpMs > maxHeldUpMs
    return wasCut ? 'abandoned' : 'failed'
  }

  #isSafeToRepeat(fault: UpstreamFault): boolean {
    if (this.#status !== 0) return false
    if (!this.#began) return retryableFaults.has(fault)
    const { method, body } = this.#options.request
    return (method === 'GET' || method === 'HEAD') && body === null && fault === 'connection_terminated'
  }

  #end(outcome: Outcome, verdict: 'succeeded' | 'failed' | 'abandoned'): void {
    if (this.#ended) return
    this.#ended = true
    this.#waitTimer?.clear()
    this.#options.permit?.[verdict]()
    this.#context.onEnd(outcome, this.#options, this.#status)
  }
}

function isCausedByClient(error: Error): boolean {
  if (error instanceof ClientGone || error instanceof Problem) return true
  return (error as { code?: unknown }).code === 'UND_ERR_ABORTED'
}
