import { type Clock, type Now, PatientTimer } from '../clock.ts'
import { UpstreamFailure, type UpstreamFault } from '../http/failure.ts'
import type { Call } from './call.ts'
import type { Receiver, UpstreamRequest } from './request.ts'
import type { Upstream } from './upstream.ts'

/** A whole answer in memory, every byte as received. */
export interface WholeAnswer {
  status: number
  reason: string
  rawHeaders: string[]
  body: Buffer
  /** Our two clocks just before the request was sent, and when the head came. */
  sentAtMs: number
  sentSteadyMs: number
  receivedAtMs: number
  receivedSteadyMs: number
}

/** What is known once the head has come. The body may still fail. */
export type AnswerHead = Omit<WholeAnswer, 'body'>

interface FetchOptions {
  upstream: Pick<Upstream, 'name' | 'call'>
  request: UpstreamRequest
  clock: Clock
  totalTimeoutMs: number
  /** The start of that time, by the clock's steady time. Default: now. */
  beganAtMs?: number
}

/** Far more than any quote or order has. An endless answer would fill the memory. */
const maxBodyBytes = 4_194_304
const noBytes = Buffer.alloc(0)
const nothing = (): void => {}

/** Sends one request and reads its whole answer: quotes and orders are small and have one deadline. */
export function fetchWhole(options: FetchOptions): Fetch {
  const fetch = new Fetch(options)
  fetch.start()
  return fetch
}

/**
 * One request on its way. The route awaits `written`, `head` and `whole` in this order, one at a time; the first two
 * are optional. Each throws why it will never come.
 */
export class Fetch implements Receiver {
  readonly #options: FetchOptions
  readonly #deadlineAtMs: number
  #call: Call | undefined
  #deadline: PatientTimer | undefined
  #sent: Now | undefined
  /** The answer's head. The body in it stays empty until all of it was received. */
  #head: WholeAnswer | undefined
  readonly #chunks: Buffer[] = []
  #bytes = 0
  /** Undefined: the call goes on. */
  #end: 'whole' | Error | undefined
  /** Wakes the awaited step. */
  #wake = nothing

  constructor(options: FetchOptions) {
    const { clock, totalTimeoutMs, beganAtMs = clock.timers.steadyMs() } = options
    this.#options = options
    this.#deadlineAtMs = beganAtMs + totalTimeoutMs
  }

  start(): void {
    const { clock, request, upstream } = this.#options
    const { timers } = clock
    try {
      this.#call = upstream.call(request, this)
      this.#call.start()
    } catch (error) {
      this.onEnd(error as Error)
    }
    if (this.#end !== undefined) return
    const leftMs = Math.max(0, this.#deadlineAtMs - timers.steadyMs())
    const onTime = () => this.#call?.giveUp(this.#tooLate())
    this.#deadline = new PatientTimer(leftMs, onTime, timers)
  }

  /** From now on the provider may have seen the request. */
  async written(): Promise<void> {
    while (this.#sent === undefined) await this.#next()
  }

  async head(): Promise<AnswerHead> {
    while (this.#head === undefined) await this.#next()
    return this.#head
  }

  async whole(): Promise<WholeAnswer> {
    while (this.#head === undefined || this.#end !== 'whole') await this.#next()
    return this.#head
  }

  #next(): Promise<void> {
    if (this.#end instanceof Error) throw this.#end
    return new Promise((resolve) => {
      // Resolved once: Node is notified of each further resolution.
      this.#wake = () => {
        this.#wake = nothing
        resolve()
      }
    })
  }

  /** No caller waits for the answer any more. */
  leave(message: string): void {
    this.#call?.leave(message)
  }

  get wasWritten(): boolean {
    return this.#sent !== undefined
  }

  onSent(): void {
    // After a pause of this process, the connection may come before the timer runs.
    const { clock } = this.#options
    if (clock.timers.steadyMs() >= this.#deadlineAtMs) throw this.#tooLate()
    this.#sent = { nowMs: clock.nowMs(), steadyMs: clock.steadyMs() }
    this.#wake()
  }

  onHead(status: number, rawHeaders: string[], reason: string): void {
    if (status < 200) return
    const { clock } = this.#options
    const { nowMs: sentAtMs = 0, steadyMs: sentSteadyMs = 0 } = this.#sent ?? {}
    this.#head = {
      status,
      reason,
      rawHeaders,
      body: noBytes,
      sentAtMs,
      sentSteadyMs,
      receivedAtMs: clock.nowMs(),
      receivedSteadyMs: clock.steadyMs(),
    }
    this.#wake()
  }

  onData(chunk: Buffer): boolean {
    this.#bytes += chunk.length
    if (this.#bytes > maxBodyBytes)
      throw this.#failureOf('http_response_body_size', `more than ${maxBodyBytes} bytes`)
    this.#chunks.push(chunk)
    return true
  }

  onEnd(error?: Error): void {
    const { times } = this.#options.request
    this.#deadline?.clear()
    if (times !== undefined) times.settledAtMs = performance.now()
    if (error !== undefined) this.#end = error
    else if (this.#head === undefined)
      this.#end = this.#failureOf('http_protocol_error', 'an answer without a head')
    else {
      const [first = noBytes] = this.#chunks
      this.#head.body = this.#chunks.length > 1 ? Buffer.concat(this.#chunks) : first
      this.#end = 'whole'
    }
    this.#wake()
  }

  #tooLate(): UpstreamFailure {
    const fault =
      this.#sent === undefined ? 'connection_timeout' : 'http_response_timeout'
    return this.#failureOf(fault, `no whole answer in ${this.#options.totalTimeoutMs} ms`)
  }

  #failureOf(fault: UpstreamFault, what: string): UpstreamFailure {
    const maybeSeen = this.#sent !== undefined
    return new UpstreamFailure(this.#options.upstream.name, {
      fault,
      maybeSeen,
      cause: new Error(what),
    })
  }
}
