import { type Clock, type Now, PatientTimer } from '../clock.ts'
import { UpstreamFailure, type UpstreamFault } from '../http/failure.ts'
import type { Receiver, UpstreamRequest } from './request.ts'
import type { Upstream } from './upstream.ts'

/** A whole answer in memory, every byte as received. */
export interface WholeAnswer {
  status: number
  reason: string
  rawHeaders: string[]
  body: Buffer
  /** Both of our clocks just before the request was sent, and when the head of the answer was received. */
  sentAtMs: number
  sentSteadyMs: number
  receivedAtMs: number
  receivedSteadyMs: number
}

/** On whose behalf a request is sent. */
export interface Sender {
  /** Called for each try, just before its first byte is written. */
  sent?(): void
  /** The head of the answer was received. Its body may still fail. */
  answerBegan?(head: Omit<WholeAnswer, 'body'>): void
}

interface FetchOptions extends Sender {
  upstream: Pick<Upstream, 'name' | 'call'>
  request: UpstreamRequest
  clock: Clock
  totalTimeoutMs: number
  /** Since when that counts, by the steady time of the clock's timers. Default: now. */
  beganAtMs?: number
  /** Its `onLeft` is called when no client waits for the answer any more. */
  leaving?: { onLeft: () => void }
  /** When the first try was sent, its answer began, and all was over, by `performance.now()`. */
  times?: Record<'sentAtMs' | 'beganAtMs' | 'settledAtMs', number | undefined>
}

/** Far more than any quote or order has. Without a limit an endless answer would fill the memory. */
const maxBodyBytes = 4_194_304
const noBytes = Buffer.alloc(0)

/** Sends one request and reads its answer to the end. For quotes and orders, which are small and have one deadline. */
export async function fetchWhole(options: FetchOptions): Promise<WholeAnswer> {
  const { clock, leaving, request, times, totalTimeoutMs, upstream } = options
  const timers = clock.timers
  const { beganAtMs = timers.steadyMs() } = options
  const answer = new Answer(options, beganAtMs + totalTimeoutMs)
  let deadline: PatientTimer | undefined
  try {
    const call = upstream.call({ ...request, times }, answer)
    const leftMs = Math.max(0, answer.deadlineAtMs - timers.steadyMs())
    deadline = new PatientTimer(leftMs, () => call.giveUp(answer.tooLate()), timers)
    if (leaving !== undefined)
      leaving.onLeft = () => call.leave('no client waits any more')
    return await answer.whole
  } finally {
    deadline?.clear()
    if (times !== undefined) times.settledAtMs = performance.now()
  }
}

class Answer implements Receiver {
  readonly whole: Promise<WholeAnswer>
  readonly deadlineAtMs: number
  readonly #options: FetchOptions
  #resolve!: (answer: WholeAnswer) => void
  #reject!: (error: Error) => void
  #sent: Now | undefined
  /** Its body stays empty until all of the answer was received. */
  #head: WholeAnswer | undefined
  #chunks: Buffer[] = []
  #bytes = 0

  constructor(options: FetchOptions, deadlineAtMs: number) {
    this.#options = options
    this.deadlineAtMs = deadlineAtMs
    this.whole = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  sent(): void {
    // After a pause of this process the connection may be there before the deadline's timer runs.
    const { clock } = this.#options
    if (clock.timers.steadyMs() >= this.deadlineAtMs) throw this.tooLate()
    this.#options.sent?.()
    this.#sent = { nowMs: clock.nowMs(), steadyMs: clock.steadyMs() }
  }

  head(status: number, rawHeaders: string[], reason: string): void {
    if (status < 200) return
    const { clock } = this.#options
    const { nowMs: sentAtMs = 0, steadyMs: sentSteadyMs = 0 } = this.#sent ?? {}
    const head: WholeAnswer = {
      status,
      reason,
      rawHeaders,
      body: noBytes,
      sentAtMs,
      sentSteadyMs,
      receivedAtMs: clock.nowMs(),
      receivedSteadyMs: clock.steadyMs(),
    }
    this.#options.answerBegan?.(head)
    this.#head = head
  }

  data(chunk: Buffer): boolean {
    this.#bytes += chunk.length
    if (this.#bytes > maxBodyBytes)
      throw this.#failure('http_response_body_size', `more than ${maxBodyBytes} bytes`)
    this.#chunks.push(chunk)
    return true
  }

  ended(error?: Error): void {
    if (error !== undefined || this.#head === undefined) {
      this.#reject(
        error ?? this.#failure('http_protocol_error', 'an answer without a head'),
      )
      return
    }
    const [first = noBytes] = this.#chunks
    this.#head.body = this.#chunks.length > 1 ? Buffer.concat(this.#chunks) : first
    this.#resolve(this.#head)
  }

  /** Its time is over. */
  tooLate(): UpstreamFailure {
    const fault =
      this.#sent === undefined ? 'connection_timeout' : 'http_response_timeout'
    return this.#failure(fault, `no whole answer in ${this.#options.totalTimeoutMs} ms`)
  }

  #failure(fault: UpstreamFault, what: string): UpstreamFailure {
    const maybeSeen = this.#sent !== undefined
    return new UpstreamFailure(this.#options.upstream.name, {
      fault,
      maybeSeen,
      cause: new Error(what),
    })
  }
}
