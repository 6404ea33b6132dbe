import type { IncomingHttpHeaders } from 'node:http'
import { type Dispatcher, errors } from 'undici'
import { PatientTimer, type Timers } from '../clock.ts'
import { ClientGone, UpstreamFailure, type UpstreamFault } from '../http/failure.ts'
import { bodilessStatuses } from '../http/headers.ts'
import type { UpstreamName } from '../http/upstreams.ts'
import { type Breaker, type Permit, type Traffic, trafficOf } from './breakers.ts'
import type { Connection } from './connection.ts'
import type { Caller, Connections, Lane, Lanes } from './connections.ts'
import {
  type CountedFailure,
  countedFaults,
  faultOf,
  isCausedByClient,
  isForClient,
  isLocalError,
  type Outcome,
  retryableFaults,
} from './fault.ts'
import { type Receiver, TryTrace, type UpstreamRequest } from './request.ts'
import { RequestBody } from './request-body.ts'

/** The upstream, as its calls know it. */
export interface CalledUpstream {
  readonly name: UpstreamName
  readonly url: URL
  /** The path of its base URL, which goes before every target. */
  readonly basePath: string
  readonly timers: Timers
  readonly connections: Pick<Connections, 'take' | 'giveBack'> & {
    lanes: Pick<Lanes<Caller>, 'leave'>
  }
  readonly breakers: {
    readonly states: { readonly connections: Pick<Breaker, 'state' | 'close'> }
  }
  readonly retries: number
  /** How long a request may wait for a connection to be free. */
  readonly waitMs: Readonly<Record<Lane, number>>
  callRetried(): void
  /** Called before a breaker counts the failure: that of connections if the call never got one. */
  callFailed(failure: CountedFailure, call: Call, hadConnection: boolean): void
  callEnded(outcome: Outcome, call: Call): void
}

type Controller = Dispatcher.DispatchController

/** An answer that its client has held up for longer may have been broken off for that. */
const maxHeldUpMs = 1_000
const failedStatuses: ReadonlySet<number> = new Set([502, 503, 504])

/**
 * One request to the upstream, in as many tries as are safe. A request is sent again only if the upstream cannot have
 * seen it, or if it is a GET or HEAD whose connection died before any byte of an answer. However many tries it took, it
 * reports one end: without a connection to the connections' breaker, else to that of its kind. No other file knows the
 * handlers of undici: versions 7 and 8 call these methods in the same way.
 */
export class Call implements Caller, Dispatcher.DispatchHandler {
  readonly request: UpstreamRequest
  readonly lane: Lane
  readonly upstream: UpstreamName
  readonly traffic: Traffic
  readonly startedAtMs: number
  /** Whether the upstream may have seen any of its tries. */
  maybeSeen = false
  /** Of the answer, if one has come. The request is not sent again then. */
  status = 0
  readonly #upstream: CalledUpstream
  readonly #receiver: Receiver
  /** Of the breaker of its kind, if it has one. */
  readonly #permit: Permit | undefined
  #retriesLeft: number
  #resends = 0
  /** While it waits for its connection to be free, or to be made. */
  #timer: PatientTimer | undefined
  /** Since when the client has not read on, and for how long it did not before. */
  #heldUpSinceMs: number | undefined
  #heldUpMs = 0
  /** Why the receiver has given the request up. */
  #reason: Error | undefined
  /** The receiver knows how the request ended. */
  #isTold = false
  #hasEnded = false

  // Of each try.
  #connection: Connection | undefined
  #controller: Controller | undefined
  /** Of the connections' breaker, while the try has no connection. */
  #connectPermit: Permit | undefined
  /** Its first byte was about to be written. */
  #began = false
  /** It waits for a connection to be free. */
  #queues = false
  #traced: TryTrace | undefined

  constructor(
    request: UpstreamRequest,
    receiver: Receiver,
    {
      upstream,
      lane,
      permit,
    }: { upstream: CalledUpstream; lane: Lane; permit: Permit | undefined },
  ) {
    this.request = request
    this.lane = lane
    this.upstream = upstream.name
    this.traffic = trafficOf(request.kind)
    this.#receiver = receiver
    this.#upstream = upstream
    this.#permit = permit
    this.startedAtMs = upstream.timers.steadyMs()
    this.#retriesLeft = permit?.isTrial ? 0 : upstream.retries
    this.#try()
  }

  #try(): void {
    const span = this.request.cause?.span
    this.#connection = undefined
    this.#controller = undefined
    this.#began = false
    this.#traced = span && new TryTrace(span, this.request)
    this.#upstream.connections.take(this)
    if (this.#connection !== undefined) return
    this.#queues = true
    this.#traced?.waits()
    this.#watch()
  }

  /** Refused as soon as it is too late, so that its client need not wait until a connection is there. */
  #watch(): void {
    const { timers } = this.#upstream
    this.#timer?.clear()
    try {
      // Only the wait for a connection to be free has this end: making one has a timeout of its own.
      const leftMs = this.#queues ? this.#waitLeftMs() : Number.POSITIVE_INFINITY
      if (leftMs <= 0) throw this.failure('connection_limit_reached')
      const ms = Math.min(leftMs, this.request.decide?.() ?? Number.POSITIVE_INFINITY)
      if (ms < Number.POSITIVE_INFINITY)
        this.#timer = new PatientTimer(Math.ceil(ms), () => this.#watch(), timers)
    } catch (error) {
      this.giveUp(error as Error)
    }
  }

  #waitLeftMs(): number {
    const waitedMs = this.#upstream.timers.steadyMs() - this.startedAtMs
    return this.#upstream.waitMs[this.lane] - waitedMs
  }

  /** Of the connections: the request is out of the queue. */
  start(connection: Connection, permit: Permit): void {
    // After a pause of this process a connection may become free before the timer runs.
    if (this.#queues && this.#waitLeftMs() < 0)
      this.#reason ??= this.failure('connection_limit_reached')
    this.#queues = false
    this.#timer?.clear()
    this.#connection = connection
    this.#connectPermit = permit
    // A trial is not retried: an upstream that is just recovering gets one request.
    if (permit.isTrial) this.#retriesLeft = 0
    const { body, headers, method, target } = this.request
    this.#traced?.starts(this.#upstream, {
      isOpen: connection.isOpen,
      resends: this.#resends,
    })
    const sent = {
      method: method as Dispatcher.HttpMethod,
      // Never through `new URL(target, base)`: "//evil.example/x" would choose the host.
      path: this.#upstream.basePath + target,
      headers:
        this.#traced === undefined ? headers : headers.concat(this.#traced.headers),
      // Its types leave out the lists that it sends in chunks.
      body: body as Buffer | RequestBody | null,
    }
    connection.dispatch(sent, this)
  }

  /** Of the connection: it is made, which may take long. */
  connects(): void {
    if (!this.#began && !this.#isTold) this.#watch()
  }

  /** Ends the receiver's wait at once, for this reason. Without a connection, nothing is sent any more. */
  giveUp(reason: Error): void {
    if (this.#isTold || this.#hasEnded) return
    this.#reason = reason
    this.#tell(reason)
    if (this.#began) this.#controller?.abort(reason)
    else if (this.#upstream.connections.lanes.leave(this)) this.failed(reason)
  }

  /** The same, because no client waits for the answer any more. */
  leave(message: string): void {
    this.giveUp(new ClientGone(message, { maybeSeen: this.maybeSeen }))
  }

  /** A failure of the upstream, as the receiver of this call gets it. */
  failure(fault: UpstreamFault, cause?: Error): UpstreamFailure {
    return new UpstreamFailure(this.upstream, { fault, maybeSeen: this.maybeSeen, cause })
  }

  /** Reads on after the receiver's `onData` has returned false. */
  resume(): void {
    this.#countHeldUp()
    this.#controller?.resume()
  }

  onRequestStart(controller: Controller): void {
    const { times } = this.request
    this.#timer?.clear()
    this.#controller = controller
    this.#connection?.expectAnswer()
    this.#connectPermit?.succeeded()
    this.#connectPermit = undefined
    this.#upstream.breakers.states.connections.close()
    this.#traced?.connected()
    try {
      if (this.#reason !== undefined) throw this.#reason
      this.request.decide?.()
      this.#receiver.onSent?.()
    } catch (error) {
      this.#traced?.unsent()
      throw error
    }
    if (times !== undefined) times.sentAtMs ??= performance.now()
    this.#began = true
    this.maybeSeen = true
  }

  onResponseStart(
    controller: Controller,
    status: number,
    headers: IncomingHttpHeaders,
    reason = '',
  ): void {
    // Over HTTP/1.1 they are always a list of Buffers. undici's parsed headers lack order, case and duplicates.
    const rawHeaders = (controller.rawHeaders as Buffer[]).map((part) =>
      part.toString('latin1'),
    )
    // Some upstreams send a last chunk after an answer that has no body (RFC 9112 6.1). The next request on the
    // connection would read that chunk as its answer, and a payment that succeeded would become a 502. undici handles
    // an answer that states a length.
    // After an HTTP/1.0 answer with that coding the framing cannot be trusted either.
    const mayMislead = bodilessStatuses.has(status) || this.#connection?.answersInHttp10
    if (mayMislead && headers['transfer-encoding'] !== undefined)
      this.#connection?.retire()
    this.status = status
    if (status >= 200 && !failedStatuses.has(status)) this.#permit?.answerBegan()
    if (this.#isTold) return
    const { times } = this.request
    if (times !== undefined && status >= 200) times.beganAtMs = performance.now()
    this.#receiver.onHead(status, rawHeaders, reasonBytes(reason))
    if (status < 200 || !hasForeignCoding(headers)) return
    this.giveUp(
      this.failure(
        'http_protocol_error',
        new Error('a transfer coding that was not asked for'),
      ),
    )
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    // undici's parser emits an empty chunk when it is resumed and has no bytes left.
    if (chunk.length === 0 || this.#isTold || this.#receiver.onData(chunk)) return
    this.#heldUpSinceMs ??= this.#upstream.timers.steadyMs()
    controller.pause()
  }

  onResponseEnd(): void {
    if (this.#connection?.wasReset) {
      this.failed(new errors.SocketError('reset by the upstream'))
      return
    }
    this.#giveBack()
    this.#complete()
  }

  onResponseError(_controller: unknown, error: Error): void {
    this.failed(error)
  }

  #complete(): void {
    this.#traced?.ends(this.status)
    if (failedStatuses.has(this.status)) {
      this.#upstream.callFailed(this.status, this, true)
      this.#end('failed-status', this.#verdict())
    } else this.#end('answered', 'succeeded')
  }

  /** Also of the connections: it will have none. */
  failed(error: Error): void {
    const answerBegan =
      this.#began && this.#connection !== undefined && this.#connection.answerBytes > 0
    this.#giveBack()
    const fault = this.#faultOf(error)
    // A 304 may state the length of the body that it omits (RFC 9110 8.6). undici then reports that body as missing.
    if (bodilessStatuses.has(this.status) && fault === 'http_response_incomplete') {
      this.#complete()
      return
    }
    const isGivenUp =
      isCausedByClient(error) ||
      (error === this.#reason && !(error instanceof UpstreamFailure))
    const outcome = isGivenUp ? 'given-up' : fault
    this.#traced?.ends(this.status, outcome.replace('-', '_'))
    this.#countHeldUp()
    // Without a permit it was withdrawn from the queue, or it had its connection and was cancelled.
    const wasTried = this.#began || this.#connectPermit !== undefined
    const isUpstreams = !isGivenUp && wasTried && !isLocalError(error)
    if (isUpstreams && !answerBegan && this.#mayRepeat(fault)) {
      this.#retriesLeft -= 1
      this.#resends += 1
      this.#connectPermit?.abandoned()
      this.#connectPermit = undefined
      this.#upstream.callRetried()
      this.#try()
      return
    }
    const counts = isUpstreams && countedFaults.has(fault)
    if (counts) this.#upstream.callFailed(fault, this, this.#connectPermit === undefined)
    this.#connectPermit?.[counts ? 'failed' : 'abandoned']()
    const verdict = counts ? this.#verdict() : 'succeeded'
    this.#end(outcome, isUpstreams && this.#began ? verdict : 'abandoned', error)
  }

  #faultOf(error: Error): UpstreamFault {
    if (error instanceof UpstreamFailure) return error.fault
    return faultOf(error, { requestBegan: this.#began, headReceived: this.status >= 200 })
  }

  #mayRepeat(fault: UpstreamFault): boolean {
    const { state } = this.#upstream.breakers.states.connections
    if (
      this.status !== 0 ||
      this.#isTold ||
      this.#retriesLeft === 0 ||
      state !== 'closed'
    )
      return false
    if (!this.#began) return retryableFaults.has(fault)
    const { method, body } = this.request
    return (
      (method === 'GET' || method === 'HEAD') &&
      body === null &&
      fault === 'connection_terminated'
    )
  }

  /**
   * A failure in the middle of an upload says nothing about the upstream, which may have cut it short for its length; and
   * none while the client did not read its answer. If they counted, one such client could stop the requests of others.
   */
  #verdict(): 'failed' | 'abandoned' {
    const { body } = this.request
    const wasCut =
      (body instanceof RequestBody && !body.wasSent) || this.#heldUpMs > maxHeldUpMs
    return wasCut ? 'abandoned' : 'failed'
  }

  #countHeldUp(): void {
    const sinceMs = this.#heldUpSinceMs
    if (sinceMs !== undefined)
      this.#heldUpMs += this.#upstream.timers.steadyMs() - sinceMs
    this.#heldUpSinceMs = undefined
  }

  #giveBack(): void {
    if (this.#connection !== undefined)
      this.#upstream.connections.giveBack(this.#connection, this)
  }

  #end(
    outcome: Outcome,
    verdict: 'succeeded' | 'failed' | 'abandoned',
    error?: Error,
  ): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.#permit?.[verdict]()
    this.#upstream.callEnded(outcome, this)
    this.#tell(error)
  }

  #tell(error?: Error): void {
    if (this.#isTold) return
    this.#isTold = true
    this.#timer?.clear()
    const isFinished = error === undefined || isForClient(error)
    this.#receiver.onEnd(isFinished ? error : this.failure(this.#faultOf(error), error))
  }
}

/**
 * Only chunked was offered, and a client that is not told of another coding could not decode it (RFC 9112 6.1). undici
 * leaves the blanks behind a value on; with a tab there its parser does not know the coding.
 */
function hasForeignCoding(headers: IncomingHttpHeaders): boolean {
  const coding = headers['transfer-encoding']
  if (coding === undefined) return false
  return [coding].flat().some((line) => !/^chunked *$/i.test(line))
}

const isAscii = /^[ -~]*$/

/**
 * undici reads a reason phrase as UTF-8, and Node writes one as latin1. What was not UTF-8 is lost by then: no phrase at
 * all is better than a mangled one.
 */
export function reasonBytes(reason: string): string {
  if (isAscii.test(reason)) return reason
  return reason.includes('\ufffd') ? '' : Buffer.from(reason, 'utf8').toString('latin1')
}
