import { bodilessStatuses } from '../http/headers.ts'
import { Problem, UpstreamFailure, type UpstreamFault } from '../http/problem.ts'
import type { Pass } from './breaker.ts'
import type { Try, TryHandler } from './connections.ts'
import { faultOf, isOurOwn } from './fault.ts'
import { ClientGone } from './request-body.ts'
import type { Outcome, UnderWay, UpstreamHandler, UpstreamRequest } from './types.ts'

export interface AttemptOptions {
  request: UpstreamRequest
  handler: UpstreamHandler
  pass: Pass
  startedAtMs: number
  /** What is the same for all requests to one upstream. */
  common: AttemptCommon
}

export interface AttemptCommon {
  /** Payments and webhooks: an upstream's own failures are its own affair, only failures to connect count. */
  countsConnectOnly: boolean
  retries: number
  send(request: UpstreamRequest, handler: TryHandler): Try
  mayRetry(): boolean
  onRetry(): void
  onOver(outcome: Outcome, startedAtMs: number): void
}

/** Faults before any connection was there that are over at once, so that another try may not meet them. */
const worthAnotherConnection: ReadonlySet<UpstreamFault> = new Set([
  'connection_refused',
  'connection_terminated',
  'destination_unavailable',
  'dns_error',
  'tls_protocol_error',
])
/** A strange answer is an answer: one bad pair must not close the swap side for everybody. */
const countedFaults: ReadonlySet<UpstreamFault> = new Set([
  ...worthAnotherConnection,
  'connection_timeout',
  'tls_certificate_error',
  'http_response_timeout',
  'http_response_incomplete',
])
const failedStatuses: ReadonlySet<number> = new Set([502, 503, 504])

/**
 * One request on its way out, in as many tries as are safe: it is sent again only if the upstream cannot have
 * seen it, or if it is a GET or HEAD whose connection died before any byte of an answer. Reports to the breaker
 * once, however many tries there were.
 */
export class Attempt implements TryHandler, UnderWay {
  readonly #options: AttemptOptions
  readonly #common: AttemptCommon
  #triesLeft: number
  #try: Try | undefined
  #began = false
  #status = 0
  #givenUp = false
  /** Its handler would not have it sent any more, which says nothing of the upstream. */
  #unsent = false
  #over = false

  constructor(options: AttemptOptions) {
    this.#options = options
    this.#common = options.common
    // A trial is one try: an upstream that is just getting up is not asked twice.
    this.#triesLeft = options.pass.isTrial ? 0 : this.#common.retries
    this.#try = this.#common.send(options.request, this)
  }

  withdraw(reason: Error): void {
    if (!this.#try?.withdraw()) return
    this.#end(reason instanceof UpstreamFailure ? reason.fault : 'given-up', 'abandoned')
    this.#options.handler.onError(reason)
  }

  onConnect(abort: (reason?: Error) => void): void {
    const { handler, pass } = this.#options
    try {
      handler.onConnect((reason) => {
        // Our own deadline is the upstream's failure; a client that left is nobody's.
        this.#givenUp = !(reason instanceof UpstreamFailure)
        abort(reason)
      })
    } catch (error) {
      // As in `withdraw`: whose time was up before a connection was there did not leave.
      this.#givenUp = !(error instanceof UpstreamFailure)
      this.#unsent = true
      throw error
    }
    this.#began = true
    if (this.#common.countsConnectOnly) pass.answering()
  }

  onHeaders(status: number, rawHeaders: Buffer[], resume: () => void, reason: string): boolean {
    this.#status = status
    if (status >= 200 && !failedStatuses.has(status)) this.#options.pass.answering()
    return this.#options.handler.onHeaders(status, rawHeaders, resume, reason)
  }

  onData(chunk: Buffer): boolean {
    return this.#options.handler.onData(chunk)
  }

  onComplete(): void {
    const failed = failedStatuses.has(this.#status)
    const counts = failed && !this.#common.countsConnectOnly
    this.#end(failed ? 'failed-status' : 'answered', counts ? 'failed' : 'succeeded')
    this.#options.handler.onComplete()
  }

  onError(error: Error, answerBegan: boolean): void {
    const fault =
      error instanceof UpstreamFailure
        ? error.fault
        : faultOf(error, { requestBegan: this.#began, headCame: this.#status >= 200 })
    // A 304 may state the length of what it leaves out (RFC 9110 8.6), which undici then finds missing.
    if (bodilessStatuses.has(this.#status) && fault === 'http_response_incomplete') {
      this.onComplete()
      return
    }
    this.#givenUp ||= isClientsDoing(error)
    const saysNothing = this.#givenUp || this.#unsent || isOurOwn(error)
    const mayRepeat = !saysNothing && !answerBegan && this.#isSafeToRepeat(fault)
    if (mayRepeat && this.#triesLeft > 0 && this.#common.mayRetry()) {
      this.#triesLeft -= 1
      this.#began = false
      this.#common.onRetry()
      this.#try = this.#common.send(this.#options.request, this)
      return
    }
    const counts = countedFaults.has(fault) && (!this.#began || !this.#common.countsConnectOnly)
    const verdict = counts ? 'failed' : 'succeeded'
    this.#end(this.#givenUp ? 'given-up' : fault, saysNothing ? 'abandoned' : verdict)
    this.#options.handler.onError(error)
  }

  #isSafeToRepeat(fault: UpstreamFault): boolean {
    if (this.#status !== 0) return false
    if (!this.#began) return worthAnotherConnection.has(fault)
    const { method, body } = this.#options.request
    return (method === 'GET' || method === 'HEAD') && body === null && fault === 'connection_terminated'
  }

  #end(outcome: Outcome, verdict: 'succeeded' | 'failed' | 'abandoned'): void {
    if (this.#over) return
    this.#over = true
    this.#options.pass[verdict]()
    this.#common.onOver(outcome, this.#options.startedAtMs)
  }
}

function isClientsDoing(error: Error): boolean {
  if (error instanceof ClientGone || error instanceof Problem) return true
  return (error as { code?: unknown }).code === 'UND_ERR_ABORTED'
}
