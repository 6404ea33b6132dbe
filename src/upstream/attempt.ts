import { Problem, UpstreamFailure, type UpstreamFault } from '../problem.ts'
import type { Pass } from './breaker.ts'
import { faultOf } from './failure.ts'
import { ClientGone } from './request-body.ts'
import type { UpstreamHandler, UpstreamRequest } from './upstream.ts'

export type Outcome = 'answered' | 'failed-status' | 'given-up' | UpstreamFault

export interface AttemptOptions {
  request: UpstreamRequest
  handler: UpstreamHandler
  pass: Pass
  /** Payments: an upstream's own failures are its own affair, only failures to connect count. */
  countsConnectOnly: boolean
  retries: number
  send(request: UpstreamRequest, handler: UpstreamHandler): void
  mayRetry(): boolean
  onRetry(): void
  onOver(outcome: Outcome): void
}

/** Faults before any connection was there, which another try may not meet. */
const worthAnotherConnection: ReadonlySet<UpstreamFault> = new Set([
  'connection_refused',
  'connection_timeout',
  'destination_unavailable',
  'dns_error',
])
/** A strange answer is an answer: one bad pair must not close the swap side for everybody. */
const countedFaults: ReadonlySet<UpstreamFault> = new Set([
  ...worthAnotherConnection,
  'tls_certificate_error',
  'connection_terminated',
  'http_response_timeout',
  'http_response_incomplete',
])
const failedStatuses: ReadonlySet<number> = new Set([502, 503, 504])

/**
 * One request on its way out, in as many tries as are safe: it is sent again only if the upstream cannot have
 * seen it, or if it is a GET or HEAD whose connection died before any byte of an answer. Reports to the breaker
 * once, however many tries there were.
 */
export class Attempt implements UpstreamHandler {
  readonly #options: AttemptOptions
  #triesLeft: number
  #began = false
  #status = 0
  #givenUp = false
  #over = false

  constructor(options: AttemptOptions) {
    this.#options = options
    this.#triesLeft = options.retries
    options.send(options.request, this)
  }

  onConnect(abort: (reason?: Error) => void): void {
    try {
      this.#options.handler.onConnect((reason) => {
        // Our own deadline is the upstream's failure; a client that left is nobody's.
        this.#givenUp = !(reason instanceof UpstreamFailure)
        abort(reason)
      })
    } catch (error) {
      this.#givenUp = true
      throw error
    }
    this.#began = true
  }

  onHeaders(status: number, rawHeaders: Buffer[], resume: () => void, reason: string): boolean {
    this.#status = status
    return this.#options.handler.onHeaders(status, rawHeaders, resume, reason)
  }

  onData(chunk: Buffer): boolean {
    return this.#options.handler.onData(chunk)
  }

  onComplete(): void {
    const failed = failedStatuses.has(this.#status)
    this.#end(failed ? 'failed-status' : 'answered', failed && !this.#options.countsConnectOnly)
    this.#options.handler.onComplete()
  }

  onError(error: Error): void {
    this.#givenUp ||= isClientsDoing(error)
    const fault = error instanceof UpstreamFailure ? error.fault : faultOf(error, this.#began)
    if (this.#isSafeToRepeat(fault) && this.#triesLeft > 0 && this.#options.mayRetry()) {
      this.#triesLeft -= 1
      this.#began = false
      this.#options.onRetry()
      this.#options.send(this.#options.request, this)
      return
    }
    const counts = countedFaults.has(fault) && (!this.#began || !this.#options.countsConnectOnly)
    this.#end(this.#givenUp ? 'given-up' : fault, counts)
    this.#options.handler.onError(error)
  }

  #isSafeToRepeat(fault: UpstreamFault): boolean {
    if (this.#givenUp || this.#status !== 0) return false
    if (!this.#began) return worthAnotherConnection.has(fault)
    const { method, body } = this.#options.request
    return (method === 'GET' || method === 'HEAD') && body === null && fault === 'connection_terminated'
  }

  #end(outcome: Outcome, failed: boolean): void {
    if (this.#over) return
    this.#over = true
    const { pass } = this.#options
    if (outcome === 'given-up') pass.abandoned()
    else if (failed) pass.failed()
    else pass.succeeded()
    this.#options.onOver(outcome)
  }
}

function isClientsDoing(error: Error): boolean {
  if (error instanceof ClientGone || error instanceof Problem) return true
  return (error as { code?: unknown }).code === 'UND_ERR_ABORTED'
}
