import { type Clock, steadyMsOf } from '../clock.ts'
import { hasForeignTransferCoding, latin1Headers, reasonBytes } from '../http/headers.ts'
import { UpstreamFailure } from '../http/upstream-failure.ts'
import { PatientTimer } from '../process/patient-timer.ts'
import { faultOf } from './fault.ts'
import { ClientGone } from './request-body.ts'
import type { InFlightRequest, RequestControl, Upstream, UpstreamHandler, UpstreamRequest } from './types.ts'

export interface AnswerHead {
  status: number
  reason: string
  rawHeaders: string[]
  /** Our wall clock just before the request was sent, and when the head of the answer was received. */
  sentAtMs: number
  receivedAtMs: number
  /** The same two moments by our steady clock. */
  sentSteadyMs: number
  receivedSteadyMs: number
}

/** A whole answer in memory, every byte as received. */
export interface WholeAnswer extends AnswerHead {
  body: Buffer
}

/** On whose behalf a request is sent. */
export interface Sender {
  /**
   * Called for each try, just before its first byte is written. If this returns an error, the request is not sent and
   * `answer` rejects with that error.
   */
  objection(): Error | undefined
  /** Asked while the request waits for a connection: what is to be objected by now, or when to ask again. */
  whileWaiting?(): { objection: Error } | { askAgainInMs: number }
  /** The head of the answer was received. Its body may still fail. */
  answerBegan(head: AnswerHead): void
}

export interface FetchOptions {
  upstream: Upstream
  request: UpstreamRequest
  clock: Clock
  totalTimeoutMs: number
  /** Since when that counts, by `performance.now()`. Default: now. */
  beganAtMs?: number
  sender?: Sender
}

export interface Fetch {
  answer: Promise<WholeAnswer>
  /** Gives up the call: `answer` rejects. */
  abort(): void
}

/** Far more than any quote or order has. Without a limit an endless answer would fill the memory. */
const maxBodyBytes = 4_194_304
const noBytes = Buffer.alloc(0)

/** Sends one request and reads its answer to the end. For quotes and orders, which are small and have one deadline. */
export function fetchWhole(options: FetchOptions): Fetch {
  const beganAtMs = options.beganAtMs ?? performance.now()
  const reader = new Reader(options, beganAtMs)
  // Past capacity each request would otherwise get its connection when hardly any of its time is left, and be cut.
  const connectByMs = beganAtMs + options.totalTimeoutMs / 2
  reader.request = options.upstream.dispatch({ ...options.request, connectByMs }, reader)
  reader.askWhileWaiting()
  return { answer: reader.answer, abort: () => reader.abort() }
}

class Reader implements UpstreamHandler {
  readonly answer: Promise<WholeAnswer>
  readonly #options: FetchOptions
  request: InFlightRequest | undefined
  readonly #deadline: PatientTimer
  readonly #deadlineAtMs: number
  #waitTimer: NodeJS.Timeout | undefined
  #resolve!: (answer: WholeAnswer) => void
  #reject!: (error: Error) => void
  /** Undefined until a try had a connection. */
  #control: RequestControl | undefined
  #settled = false
  #giveUpReason: Error | undefined
  #sentAtMs = 0
  #sentSteadyMs = 0
  /** Its body stays empty until all of the answer was received. */
  #head: WholeAnswer | undefined
  #chunks: Buffer[] = []
  #bytes = 0

  constructor(options: FetchOptions, beganAtMs: number) {
    this.#options = options
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    this.#deadlineAtMs = beganAtMs + options.totalTimeoutMs
    const leftMs = Math.max(0, this.#deadlineAtMs - performance.now())
    this.#deadline = new PatientTimer(leftMs, () => this.#onDeadline())
  }

  #onDeadline(): void {
    const fault = this.#control === undefined ? 'connection_timeout' : 'http_response_timeout'
    const cause = new Error(`no whole answer in ${this.#options.totalTimeoutMs} ms`)
    this.#giveUp(this.#failure(fault, cause))
  }

  /** Refused as soon as its sender objects, so that its client need not wait until a connection is there. */
  readonly askWhileWaiting = (): void => {
    if (this.#settled || this.#control !== undefined) return
    const asked = this.#options.sender?.whileWaiting?.()
    if (asked === undefined) return
    if ('objection' in asked) this.#giveUp(asked.objection)
    else this.#waitTimer = setTimeout(this.askWhileWaiting, asked.askAgainInMs)
  }

  onConnect(control: RequestControl): void {
    clearTimeout(this.#waitTimer)
    // After a pause of this process a connection may become free before the deadline's timer runs. Without this line the
    // request would be sent and then given up.
    if (performance.now() >= this.#deadlineAtMs) this.#onDeadline()
    // The request was given up while it waited for a connection, so it is not sent.
    if (this.#settled) throw this.#giveUpReason ?? new Error('given up before it was sent')
    const objection = this.#options.sender?.objection()
    if (objection !== undefined) {
      this.#settle()
      this.#reject(objection)
      throw objection
    }
    this.#control = control
    this.#sentAtMs = this.#options.clock.nowMs()
    this.#sentSteadyMs = steadyMsOf(this.#options.clock)
  }

  onHeaders(status: number, rawHeaders: readonly Buffer[], reason: string): void {
    if (status < 200) return
    const headers = latin1Headers(rawHeaders)
    const head: WholeAnswer = {
      status,
      reason: reasonBytes(reason),
      rawHeaders: headers,
      body: noBytes,
      sentAtMs: this.#sentAtMs,
      receivedAtMs: this.#options.clock.nowMs(),
      sentSteadyMs: this.#sentSteadyMs,
      receivedSteadyMs: steadyMsOf(this.#options.clock),
    }
    const isReadable = !hasForeignTransferCoding(headers)
    this.#options.sender?.answerBegan(head)
    if (!isReadable) {
      throw this.#failure('http_protocol_error', new Error('a transfer coding that was not asked for'))
    }
    this.#head = head
  }

  onData(chunk: Buffer): boolean {
    this.#bytes += chunk.length
    if (this.#bytes > maxBodyBytes) {
      this.#giveUp(this.#failure('http_response_body_size', new Error(`more than ${maxBodyBytes} bytes`)))
      return false
    }
    this.#chunks.push(chunk)
    return true
  }

  onComplete(): void {
    if (this.#settled || this.#head === undefined) return
    this.#settle()
    const [first = noBytes] = this.#chunks
    const body = this.#chunks.length > 1 ? Buffer.concat(this.#chunks) : first
    this.#head.body = body
    this.#resolve(this.#head)
  }

  onError(error: Error): void {
    if (this.#settled) return
    this.#settle()
    const requestBegan = this.#control !== undefined
    const fault = faultOf(error, { requestBegan, headReceived: this.#head !== undefined })
    this.#reject(error instanceof UpstreamFailure ? error : this.#failure(fault, error))
  }

  abort(): void {
    this.#giveUp(new ClientGone('no client waits any more', { maybeSeen: this.#control !== undefined }))
  }

  #giveUp(reason: Error): void {
    if (this.#settled) return
    this.#settle()
    this.#giveUpReason = reason
    this.#reject(reason)
    // Both, because the try that had a connection may have failed, while the next try waits for one.
    this.#control?.abort(reason)
    this.request?.withdraw(reason)
  }

  #settle(): void {
    this.#settled = true
    this.#deadline.clear()
    clearTimeout(this.#waitTimer)
  }

  #failure(fault: UpstreamFailure['fault'], cause: Error): UpstreamFailure {
    const maybeSeen = this.#control !== undefined
    return new UpstreamFailure(this.#options.upstream.name, { fault, maybeSeen, cause })
  }
}
