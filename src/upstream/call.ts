import type { IncomingHttpHeaders } from 'node:http'
import { type Dispatcher, errors } from 'undici'
import { PatientTimer, type Timers } from '../clock.ts'
import { ClientGone, UpstreamFailure, type UpstreamFault } from '../http/failure.ts'
import { bodilessStatuses } from '../http/headers.ts'
import type { UpstreamName } from '../http/upstreams.ts'
import { type Breaker, type Permit, type Traffic, trafficOf } from './breakers.ts'
import type { Connection } from './connection.ts'
import type { ConnectionHolder, Connections, Lane, Lanes } from './connections.ts'
import {
  type CallOutcome,
  type CountedFailure,
  countedFaults,
  faultOf,
  isCausedByCaller,
  isForCaller,
  isLocalError,
  quickFaults,
} from './fault.ts'
import { CallTrace, type Receiver, type UpstreamRequest } from './request.ts'
import { RequestBody } from './request-body.ts'

export interface CalledUpstream {
  readonly name: UpstreamName
  readonly url: URL
  /** The base URL's path, which goes before every target. */
  readonly basePath: string
  readonly timers: Timers
  readonly connections: Pick<Connections, 'take' | 'giveBack'> & {
    lanes: Pick<Lanes<ConnectionHolder>, 'leave'>
  }
  readonly breakers: {
    readonly states: { readonly connections: Pick<Breaker, 'state' | 'close'> }
  }
  readonly retries: number
  /** Max wait for a free connection. */
  readonly waitMs: Readonly<Record<Lane, number>>
  callRetried(): void
  /** Called before a breaker counts the failure: the connections' own, if the call never had a connection. */
  callFailed(failure: CountedFailure, call: Call, hadConnection: boolean): void
  callEnded(outcome: CallOutcome, call: Call): void
}

type Controller = Dispatcher.DispatchController

/** If its caller pauses for longer, the upstream may break the answer off for that. */
const maxHeldUpMs = 1_000
const failedStatuses: ReadonlySet<number> = new Set([502, 503, 504])

/** `connected`: not sent yet, or never to be. */
type Progress =
  | {
      readonly step: 'new' | 'queued' | 'ended'
      readonly connection?: undefined
      readonly permit?: undefined
    }
  | {
      readonly step: 'connecting' | 'connected'
      readonly connection: Connection
      /** The permit of the connections' breaker. */
      readonly permit: Permit
    }
  | {
      readonly step: 'sent'
      readonly connection: Connection
      readonly permit: Permit
      readonly controller: Controller
    }

const newStep: Progress = { step: 'new' }
const queuedStep: Progress = { step: 'queued' }
const endedStep: Progress = { step: 'ended' }

/**
 * One request to the upstream, in as many tries as are safe. It is sent again if the upstream cannot have seen it and
 * the failure showed quickly (`quickFaults`). So is a GET or HEAD whose connection died before any byte of an answer.
 * Nothing else is.
 *
 * All tries end as one. If the connection could not be made, the connections' breaker counts the call. Once it was sent,
 * the breaker of its traffic does (a quote's is that of its pair): a fault of `countedFaults` is a failure there, and any
 * other a success, because the upstream did answer. A call that got no free connection in time counts nowhere. Each
 * connection that is made closes the connections' breaker.
 *
 * No other file knows undici's handlers, which versions 7 and 8 call in the same way.
 */
export class Call implements ConnectionHolder, Dispatcher.DispatchHandler {
  readonly request: UpstreamRequest
  readonly lane: Lane
  readonly upstream: UpstreamName
  readonly traffic: Traffic
  readonly startedAtMs: number
  maybeSeen = false
  /** Once a head has come, the request is not sent again. */
  status = 0
  readonly #upstream: CalledUpstream
  readonly #receiver: Receiver
  /** The permit of its traffic's breaker, if there is one. */
  readonly #permit: Permit | undefined
  readonly #trace: CallTrace | undefined
  #resends = 0
  #progress: Progress = newStep
  /** Runs while the call waits for a free or a new connection. */
  #timer: PatientTimer | undefined
  /** Why the receiver's wait ended before the call did. */
  #givenUp: Error | undefined
  /** How long the caller has paused its reading. Undefined: never. */
  #heldUp: Stopwatch | undefined

  constructor(
    request: UpstreamRequest,
    receiver: Receiver,
    {
      upstream,
      lane,
      permit,
    }: { upstream: CalledUpstream; lane: Lane; permit: Permit | undefined },
  ) {
    const span = request.cause?.span
    this.request = request
    this.lane = lane
    this.upstream = upstream.name
    this.traffic = trafficOf(request.kind)
    this.#receiver = receiver
    this.#upstream = upstream
    this.#permit = permit
    this.#trace = span && new CallTrace(span, request)
    this.startedAtMs = upstream.timers.steadyMs()
  }

  /** Called once, when the receiver has this call. It may call the receiver at once, even with its end. */
  start(): void {
    this.#try()
  }

  #try(): void {
    this.#progress = newStep
    this.#upstream.connections.take(this)
    if (this.#progress !== newStep) return
    this.#progress = queuedStep
    this.#trace?.waits()
    this.recheck()
  }

  /** Gives the request up once it may no longer be sent, so that its caller does not wait for a useless connection. */
  recheck(): void {
    const { timers } = this.#upstream
    this.#timer?.clear()
    try {
      // Only the wait for a free connection ends here: connecting has its own timeout.
      const leftMs =
        this.#progress.step === 'queued' ? this.#waitLeftMs() : Number.POSITIVE_INFINITY
      if (leftMs <= 0) throw this.failure('connection_limit_reached')
      const ms = Math.min(
        leftMs,
        this.request.recheckInMs?.() ?? Number.POSITIVE_INFINITY,
      )
      if (ms < Number.POSITIVE_INFINITY)
        this.#timer = new PatientTimer(Math.ceil(ms), () => this.recheck(), timers)
    } catch (error) {
      this.giveUp(error as Error)
    }
  }

  #waitLeftMs(): number {
    const waitedMs = this.#upstream.timers.steadyMs() - this.startedAtMs
    return this.#upstream.waitMs[this.lane] - waitedMs
  }

  /** Called by the connections: the request has left the queue. */
  send(connection: Connection, permit: Permit): void {
    const isTooLate = this.#progress.step === 'queued' && this.#waitLeftMs() < 0
    this.#timer?.clear()
    this.#progress = { step: 'connecting', connection, permit }
    // After a pause of this process, a connection may come before the timer runs.
    if (isTooLate) {
      this.failed(this.failure('connection_limit_reached'))
      return
    }
    const { body, headers, method, target } = this.request
    this.#trace?.tries(this.#upstream, {
      isOpen: connection.isOpen,
      resends: this.#resends,
    })
    const sent = {
      method: method as Dispatcher.HttpMethod,
      // Never `new URL(target, base)`: "//evil.example/x" would choose the host.
      path: this.#upstream.basePath + target,
      headers: this.#trace === undefined ? headers : headers.concat(this.#trace.headers),
      // undici sends lists as chunks, though its types leave them out.
      body: body as Buffer | RequestBody | null,
    }
    connection.dispatch(sent, this)
  }

  /** Called by the connection: it is being made, which may take long. */
  connects(): void {
    if (this.#progress.step === 'connecting' && !this.#isTold) this.recheck()
  }

  /** Ends the receiver's wait at once. Without a connection, nothing is sent any more. */
  giveUp(reason: Error): void {
    if (this.#isTold) return
    this.#givenUp = reason
    this.#tell(this.#received(reason, this.#faultOf(reason)))
    if (this.#progress.step === 'sent') this.#progress.controller.abort(reason)
    else if (this.#upstream.connections.lanes.leave(this)) this.failed(reason)
  }

  /** No caller waits for the answer any more. */
  leave(message: string): void {
    this.giveUp(new ClientGone(message, { maybeSeen: this.maybeSeen }))
  }

  failure(fault: UpstreamFault, cause?: Error): UpstreamFailure {
    return new UpstreamFailure(this.upstream, { fault, maybeSeen: this.maybeSeen, cause })
  }

  /** Reads on after `onData` has returned false. */
  resume(): void {
    this.#heldUp?.stop()
    if (this.#progress.step === 'sent') this.#progress.controller.resume()
  }

  onRequestStart(controller: Controller): void {
    const { times } = this.request
    if (this.#progress.step !== 'connecting')
      throw new Error('undici began a request that has no connection')
    const { connection, permit } = this.#progress
    this.#timer?.clear()
    this.#progress = { step: 'connected', connection, permit }
    connection.expectAnswer()
    permit.succeeded()
    this.#upstream.breakers.states.connections.close()
    this.#trace?.connected()
    try {
      if (this.#givenUp !== undefined) throw this.#givenUp
      this.request.recheckInMs?.()
      this.#receiver.onSent?.()
    } catch (error) {
      this.#trace?.unsent()
      throw error
    }
    if (times !== undefined) times.sentAtMs ??= performance.now()
    this.#progress = { step: 'sent', connection, permit, controller }
    this.maybeSeen = true
  }

  onResponseStart(
    controller: Controller,
    status: number,
    headers: IncomingHttpHeaders,
    reason = '',
  ): void {
    const { connection } = this.#progress
    // Over HTTP/1.1, `rawHeaders` is always a list of Buffers. undici's parsed headers lack order, case and duplicates.
    const rawHeaders = (controller.rawHeaders as Buffer[]).map((part) =>
      part.toString('latin1'),
    )
    // Some upstreams send a last chunk after an answer without a body (RFC 9112 6.1). The next request on the
    // connection would read it as its answer, and a payment that succeeded would become a 502. undici handles answers
    // with a length. After an HTTP/1.0 answer with a transfer coding the framing cannot be trusted either.
    const mayMislead = bodilessStatuses.has(status) || connection?.answersInHttp10
    if (mayMislead && headers['transfer-encoding'] !== undefined) connection?.retire()
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
    // undici's parser emits an empty chunk if it resumes without bytes.
    if (chunk.length === 0 || this.#isTold || this.#receiver.onData(chunk)) return
    this.#heldUp ??= new Stopwatch(this.#upstream.timers)
    this.#heldUp.run()
    controller.pause()
  }

  onResponseEnd(): void {
    if (this.#progress.connection?.wasReset) {
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
    this.#trace?.ends(this.status)
    if (failedStatuses.has(this.status)) {
      this.#upstream.callFailed(this.status, this, true)
      this.#end('failed-status', this.#verdict())
    } else this.#end('answered', 'succeeded')
  }

  /** Also called by the connections, if the call will get none. */
  failed(error: Error): void {
    // undici also reports errors that it caught while this call ended.
    if (this.#progress.step === 'ended') return
    const fault = this.#faultOf(error)
    this.#giveBack()
    // A 304 may state the length of the body that it omits (RFC 9110 8.6), which undici reports as missing.
    if (bodilessStatuses.has(this.status) && fault === 'http_response_incomplete') {
      this.#complete()
      return
    }
    const isGivenUp =
      isCausedByCaller(error) ||
      (error === this.#givenUp && !(error instanceof UpstreamFailure))
    const outcome = isGivenUp ? 'given-up' : fault
    this.#trace?.ends(this.status, outcome.replace('-', '_'))
    const { step } = this.#progress
    // Otherwise the request left the queue, or was cancelled once it had its connection.
    const wasTried = step === 'connecting' || step === 'sent'
    const isUpstreams = !isGivenUp && wasTried && !isLocalError(error)
    const sendsAgain = isUpstreams && this.#maySendAgain(fault)
    const counts = isUpstreams && !sendsAgain && countedFaults.has(fault)
    if (counts) this.#upstream.callFailed(fault, this, step !== 'connecting')
    if (this.#progress.step === 'connecting')
      this.#progress.permit[counts ? 'failed' : 'abandoned']()
    if (sendsAgain) {
      this.#resends += 1
      this.#upstream.callRetried()
      this.#try()
      return
    }
    const verdict = counts ? this.#verdict() : 'succeeded'
    this.#end(
      outcome,
      isUpstreams && step === 'sent' ? verdict : 'abandoned',
      this.#received(error, fault),
    )
  }

  #faultOf(error: Error): UpstreamFault {
    if (error instanceof UpstreamFailure) return error.fault
    return faultOf(error, {
      requestBegan: this.#progress.step === 'sent',
      headReceived: this.status >= 200,
    })
  }

  #maySendAgain(fault: UpstreamFault): boolean {
    const { breakers, retries } = this.#upstream
    const progress = this.#progress
    if (this.status !== 0 || this.#isTold || this.#resends >= retries) return false
    if (breakers.states.connections.state !== 'closed') return false
    // A trial is not sent again: a recovering upstream gets one request.
    if (this.#permit?.isTrial || progress.permit?.isTrial) return false
    if (progress.step !== 'sent') return quickFaults.has(fault)
    const { method, body } = this.request
    return (
      (method === 'GET' || method === 'HEAD') &&
      body === null &&
      progress.connection.answerBytes === 0 &&
      fault === 'connection_terminated'
    )
  }

  /**
   * A failure within an upload says nothing about the upstream, which may have cut a long upload short. Nor does a
   * failure while the caller did not read. Counted, these would let one caller stop the requests of others.
   */
  #verdict(): 'failed' | 'abandoned' {
    const { body } = this.request
    const wasCut =
      (body instanceof RequestBody && !body.wasSent) ||
      (this.#heldUp !== undefined && this.#heldUp.ms > maxHeldUpMs)
    return wasCut ? 'abandoned' : 'failed'
  }

  #giveBack(): void {
    const { connection } = this.#progress
    if (connection !== undefined) this.#upstream.connections.giveBack(connection, this)
  }

  #end(
    outcome: CallOutcome,
    verdict: 'succeeded' | 'failed' | 'abandoned',
    error?: Error,
  ): void {
    const wasTold = this.#isTold
    this.#progress = endedStep
    this.#permit?.[verdict]()
    this.#upstream.callEnded(outcome, this)
    if (!wasTold) this.#tell(error)
  }

  get #isTold(): boolean {
    return this.#givenUp !== undefined || this.#progress.step === 'ended'
  }

  #tell(error?: Error): void {
    this.#timer?.clear()
    this.#receiver.onEnd(error)
  }

  #received(error: Error, fault: UpstreamFault): Error {
    return isForCaller(error) ? error : this.failure(fault, error)
  }
}

class Stopwatch {
  readonly #timers: Timers
  #endedMs = 0
  #sinceMs: number | undefined

  constructor(timers: Timers) {
    this.#timers = timers
  }

  get ms(): number {
    const now = this.#timers.steadyMs()
    return this.#endedMs + now - (this.#sinceMs ?? now)
  }

  run(): void {
    this.#sinceMs ??= this.#timers.steadyMs()
  }

  stop(): void {
    this.#endedMs = this.ms
    this.#sinceMs = undefined
  }
}

/**
 * Only chunked was offered: no caller would know of another coding, or could decode it (RFC 9112 6.1). undici leaves
 * blanks behind a value; with a tab its parser does not know the coding.
 */
function hasForeignCoding(headers: IncomingHttpHeaders): boolean {
  const coding = headers['transfer-encoding']
  if (coding === undefined) return false
  return [coding].flat().some((line) => !/^chunked *$/i.test(line))
}

const isAscii = /^[ -~]*$/

/**
 * undici reads a reason phrase as UTF-8, and Node writes latin1. Other bytes are lost by then: an empty phrase is
 * better than a mangled one.
 */
export function reasonBytes(reason: string): string {
  if (isAscii.test(reason)) return reason
  return reason.includes('\ufffd') ? '' : Buffer.from(reason, 'utf8').toString('latin1')
}
