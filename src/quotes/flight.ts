import type { ServerResponse } from 'node:http'
import { PatientTimer, type Timers } from '../clock.ts'
import { ClientGone, UpstreamFailure, type UpstreamFault } from '../http/failure.ts'
import type { Span } from '../process/span.ts'
import type { QuoteAnswer } from './quote.ts'
import type { QuoteRequest } from './request.ts'

const never: Promise<QuoteAnswer> = new Promise(() => {})
const nothing = (): void => {}

/** One call and the requests that wait for it. */
export class Flight {
  /** The key in the table of flights. Undefined: no other request may join. */
  readonly entry: string | undefined
  /** Whether the call first waited for another replica's call. */
  waited = false
  /** Whether a request has the answer. An answer that may not be shared is for the first request alone. */
  isTaken = false
  span: Span | undefined
  #answer = never
  #left: ClientGone | undefined
  /** Not an AbortSignal, because V8 promotes each to its old space (Node 20). */
  #giveUp = nothing
  readonly #table: Map<string, Flight>
  /** What may make the provider answer two requests with one key differently. */
  readonly #target: string
  readonly #address: string | undefined
  #waiting = 0

  constructor(
    table: Map<string, Flight>,
    {
      entry,
      caller,
      span,
    }: { entry: string | undefined; caller: QuoteRequest; span: Span | undefined },
  ) {
    this.#table = table
    this.entry = entry
    this.#target = caller.target
    this.#address = caller.address
    this.span = span
  }

  /** Makes the call. Other requests find the flight in the table from now on. */
  start(call: () => Promise<QuoteAnswer>): this {
    if (this.entry !== undefined) this.#table.set(this.entry, this)
    this.#answer = call()
    return this
  }

  /** Only for requests that find the flight in the table: a landed flight has no answer. */
  get answer(): Promise<QuoteAnswer> {
    return this.#answer
  }

  /** Set once the call is given up, because no request waits any more. */
  get left(): Error | undefined {
    return this.#left
  }

  /** `giveUp` ends what the flight waits for now, when the last request leaves. */
  whenLeft(giveUp: () => void): void {
    this.#giveUp = giveUp
  }

  /** A refresh joins its own call and never leaves, so that the call goes on without a request that waits. */
  join(): void {
    this.#waiting += 1
  }

  leave(): void {
    this.#waiting -= 1
    if (this.#waiting > 0) return
    this.#left = new ClientGone('every caller that waited for this quote has left', {
      maybeSeen: false,
    })
    const giveUp = this.#giveUp
    // Leaves the table first: no request may join a call that is being given up.
    this.land()
    giveUp()
  }

  throwIfLeft(): void {
    if (this.#left !== undefined) throw this.#left
  }

  /**
   * Drops the call and its answer. A growing Map leaves its old table behind. In V8's old space, that table keeps all
   * that it points to alive until a major collection: with whole requests in it, a minor collection took twice as long.
   */
  land(): void {
    const { entry } = this
    if (entry !== undefined && this.#table.get(entry) === this) this.#table.delete(entry)
    this.#answer = never
    this.#giveUp = nothing
    this.span = undefined
  }

  /** Why this request may not have the answer. Undefined: it may. */
  whyNotFor(
    { target, address }: QuoteRequest,
    answer: QuoteAnswer,
  ): 'otherAmount' | 'refusedToOther' | undefined {
    if (answer.kind !== 'not-kept') return undefined
    // The provider may read another spelling of the amount correctly, or may not refuse it.
    if (answer.why === 'other-amount')
      return target === this.#target ? undefined : 'otherAmount'
    if (!isRefusal(answer.received.status)) return undefined
    // A refusal may depend on the user's place.
    const isSame = target === this.#target && address === this.#address
    return isSame ? undefined : 'refusedToOther'
  }
}

/** Why a request waits for a further call. The log says so if the request's time ends before that call. */
export const furtherCallReasons = {
  refusedToOther: 'the call that it joined was refused by the provider to another user',
  otherAmount:
    'the call that it joined wrote the amount in another way, and its quote was for another amount',
  notShareable: 'the answer of the call that it joined was for one user alone',
  timedOut: 'the call that it joined timed out',
  limitOfOther:
    'the call that it joined was not sent, because the application or user that began it had reached a limit',
  expired: (quotes: number) => `${expiredQuotes(quotes)} written`,
} as const

/** The beginning of a sentence, such as `1 quote expired before it could be`. */
export function expiredQuotes(quotes: number): string {
  return quotes === 1
    ? '1 quote expired before it could be'
    : `${quotes} quotes in a row expired before they could be`
}

/** A 408 or a 429 says that the call was too slow or one too many, and nothing about the user: all who wait get it. */
function isRefusal(status: number): boolean {
  return status >= 400 && status < 500 && status !== 408 && status !== 429
}

/** With less time left, a further call hardly brings a quote and only burdens a slow provider. */
const minCallMs = 50

/** A request that waits for calls until its caller leaves. Its own time bounds the wait for a further call. */
export class WaitingRequest {
  /** Whether it waited for a further call after a timeout: it does so once. */
  tookFurtherCall = false
  /** Whether it joined a call after the refusal of another user: it does so once. */
  joinedAfterRefusal = false
  readonly #response: ServerResponse
  readonly #endsAtMs: number
  readonly #timers: Timers
  #timer: PatientTimer | undefined
  #failure: Error | undefined
  #leave: (reason: Error) => void = nothing

  /** `leftMs`: what is left of the request's own time. */
  constructor(response: ServerResponse, leftMs: number, timers: Timers) {
    this.#response = response
    this.#endsAtMs = timers.steadyMs() + leftMs
    this.#timers = timers
    response.on('close', this.#onClose)
  }

  readonly #onClose = (): void => {
    this.#leave(new ClientGone('the caller waits no longer', { maybeSeen: true }))
  }

  /** The answer of the call. The last request to leave ends the call. */
  waitFor(flight: Flight): Promise<QuoteAnswer> {
    return new Promise((resolve, reject) => {
      flight.join()
      this.#leave = (reason) => {
        this.#leave = nothing
        flight.leave()
        reject(reason)
      }
      flight.answer.then(resolve, reject)
    })
  }

  /**
   * Goes on to a further call after a call without an answer. Throws if hardly any time is left. A further call has a
   * time limit of its own, so the request's time is counted here from now on, and ends with this failure. `before`: the
   * failure of the joined call, whose fault this failure has too.
   */
  furtherCallOrThrow(why: string, before?: UpstreamFailure): void {
    const failure = failureByTime(why, before)
    const leftMs = this.#endsAtMs - this.#timers.steadyMs()
    if (leftMs < minCallMs) throw failure
    this.#failure = failure
    const onTime = () => this.#leave(this.#failure ?? failure)
    this.#timer ??= new PatientTimer(leftMs, onTime, this.#timers)
  }

  /** Ends the wait for this reason. The last request to leave ends the call. */
  leave(reason: Error): void {
    this.#leave(reason)
  }

  end(): void {
    this.#response.off('close', this.#onClose)
    this.#timer?.clear()
  }
}

const timeFaults: ReadonlySet<UpstreamFault> = new Set([
  'connection_timeout',
  'http_response_timeout',
])

/** Whether a call failed by a time limit. The answer is then 504. */
export function failedByTime(error: unknown): error is UpstreamFailure {
  return error instanceof UpstreamFailure && timeFaults.has(error.fault)
}

/** For a request whose own time is over, though its call may go on. */
function failureByTime(reason: string, before?: UpstreamFailure): UpstreamFailure {
  const cause = new Error(`no quote within the time of the request: ${reason}`, {
    cause: before?.cause,
  })
  return new UpstreamFailure('swap', {
    fault: before?.fault ?? 'http_response_timeout',
    maybeSeen: before?.maybeSeen ?? true,
    cause,
  })
}
