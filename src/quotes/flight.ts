import type { ServerResponse } from 'node:http'
import { PatientTimer, type Timers } from '../clock.ts'
import { ClientGone, UpstreamFailure, type UpstreamFault } from '../http/failure.ts'
import type { Span } from '../process/span.ts'
import type { QuoteAnswer } from './quote.ts'
import type { QuoteRequest } from './request.ts'

const never: Promise<QuoteAnswer> = new Promise(() => {})
const nothing = (): void => {}

/** One call and the clients who wait for it. */
export class Flight {
  /** In the table of flights. Undefined: no other client may join. */
  readonly entry: string | undefined
  /** Whether the call waited for another replica's call first. */
  waited = false
  /** Whether a client has the answer. A second client does not get an answer that may not be shared. */
  isTaken = false
  /** The span of the request that caused the call. */
  span: Span | undefined
  #answer = never
  #left: ClientGone | undefined
  /** No AbortSignal, because V8 promotes each to its old space (Node 20). */
  #giveUp = nothing
  readonly #table: Map<string, Flight>
  /** What the provider can tell its client from others by. */
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

  /** Makes the call. From now on clients find the flight in the table. */
  start(call: () => Promise<QuoteAnswer>): this {
    if (this.entry !== undefined) this.#table.set(this.entry, this)
    this.#answer = call()
    return this
  }

  /** Only for clients who find the flight in the table: a flight that has landed has no answer. */
  get answer(): Promise<QuoteAnswer> {
    return this.#answer
  }

  /** Why the call is given up: no client waits any more. */
  get left(): Error | undefined {
    return this.#left
  }

  /** `giveUp` ends what the flight waits for now. It is called once no client waits any more. */
  whenLeft(giveUp: () => void): void {
    this.#giveUp = giveUp
  }

  /** A refresh joins its call too, and never leaves, so that the call goes on without clients. */
  join(): void {
    this.#waiting += 1
  }

  leave(): void {
    this.#waiting -= 1
    if (this.#waiting > 0) return
    this.#left = new ClientGone('every client that waited for this quote has left', {
      maybeSeen: false,
    })
    const giveUp = this.#giveUp
    // Out of the table first: a new client must not join a call that is being given up.
    this.land()
    giveUp()
  }

  throwIfLeft(): void {
    if (this.#left !== undefined) throw this.#left
  }

  /**
   * Drops the call and its answer. A Map that grows leaves its old table behind with all that was in it, and once
   * one such table is in V8's old space, everything that it points to looks alive until a major collection: with whole
   * requests in it a minor collection took twice as long.
   */
  land(): void {
    const { entry } = this
    if (entry !== undefined && this.#table.get(entry) === this) this.#table.delete(entry)
    this.#answer = never
    this.#giveUp = nothing
    this.span = undefined
  }

  /** Why a client that waits here may not have the answer; undefined: it may. */
  whyNotFor(
    { target, address }: QuoteRequest,
    answer: QuoteAnswer,
  ): 'otherAmount' | 'refusedToOther' | undefined {
    if (answer.kind !== 'not-kept') return undefined
    // The provider may read another spelling of the amount as the right amount, or not refuse it.
    if (answer.why === 'other-amount')
      return target === this.#target ? undefined : 'otherAmount'
    if (!isRefusal(answer.received.status)) return undefined
    // Whether a client is refused may depend on its place.
    const isSame = target === this.#target && address === this.#address
    return isSame ? undefined : 'refusedToOther'
  }
}

/** Why a client waits for a further call, as the log says if its time ends before that call does. */
export const repeatReasons = {
  refusedToOther: 'the call that it joined was refused by the provider to another client',
  otherAmount:
    'the call that it joined wrote the amount in another way, and its quote was for another amount',
  notShareable: 'the answer of the call that it joined was for one client alone',
  timedOut: 'the call that it joined timed out',
  limitOfOther:
    'the call that it joined was not sent, because the client that began it had reached a limit',
  expired: (quotes: number) => `${expiredQuotes(quotes)} written`,
} as const

/** `1 quote expired before it could be`, to be continued. */
export function expiredQuotes(quotes: number): string {
  return quotes === 1
    ? '1 quote expired before it could be'
    : `${quotes} quotes in a row expired before they could be`
}

/** 408 and 429 say that the call was too slow or one too many, and nothing of the client. */
function isRefusal(status: number): boolean {
  return status >= 400 && status < 500 && status !== 408 && status !== 429
}

/** With less time left a further call could hardly bring a quote, and would only burden a provider that hangs. */
const minLeftMs = 50

/** A client that waits for calls: until it leaves and, once it waits for a further one, until its own time is over. */
export class WaitingClient {
  /** Whether it has gone on after a call that failed by time; it does so once. */
  tookFurtherCall = false
  /** Whether it has joined a call after the refusal of another client; it does so once. */
  joinedAfterRefusal = false
  readonly #response: ServerResponse
  readonly #endsAtMs: number
  readonly #timers: Timers
  #timer: PatientTimer | undefined
  #failure: Error | undefined
  #leave: (reason: Error) => void = nothing

  /** `leftMs`: of its own time. */
  constructor(response: ServerResponse, leftMs: number, timers: Timers) {
    this.#response = response
    this.#endsAtMs = timers.steadyMs() + leftMs
    this.#timers = timers
    response.on('close', this.#onClose)
  }

  readonly #onClose = (): void => {
    this.#leave(new ClientGone('the client waits no longer', { maybeSeen: true }))
  }

  /** The answer of the call. The last client to leave ends the call. */
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
   * It waits for a further call, because this one gave it no answer. Throws the failure if hardly any time is left for one more call.
   * That call has a time limit of its own, so the client's time is counted here from then on, and the failure is its
   * answer once that is over. `before`: the failure of the call that it joined, whose fault its own has.
   */
  repeatOrThrow(why: string, before?: UpstreamFailure): void {
    const failure = failureByTime(why, before)
    const leftMs = this.#endsAtMs - this.#timers.steadyMs()
    if (leftMs < minLeftMs) throw failure
    this.#failure = failure
    const onTime = () => this.#leave(this.#failure ?? failure)
    this.#timer ??= new PatientTimer(leftMs, onTime, this.#timers)
  }

  /** Its wait is over, for this reason. The last client to leave ends the call. */
  leave(reason: Error): void {
    this.#leave(reason)
  }

  /** The client is answered, or has left. */
  end(): void {
    this.#response.off('close', this.#onClose)
    this.#timer?.clear()
  }
}

const timeFaults: ReadonlySet<UpstreamFault> = new Set([
  'connection_timeout',
  'http_response_timeout',
])

/** Whether a call failed because some time limit was over: what its client is answered 504 for. */
export function failedByTime(error: unknown): error is UpstreamFailure {
  return error instanceof UpstreamFailure && timeFaults.has(error.fault)
}

/** For a client whose own time is over, though the call that it waits for may go on. */
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
