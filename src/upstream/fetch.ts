import type { Clock } from '../clock.ts'
import { hasForeignTransferCoding, latin1Headers, reasonBytes } from '../http/headers.ts'
import { UpstreamFailure } from '../http/problem.ts'
import { PatientTimer } from '../process/patient-timer.ts'
import { faultOf } from './fault.ts'
import { ClientGone } from './request-body.ts'
import type { UnderWay, Upstream, UpstreamHandler, UpstreamRequest } from './types.ts'

export interface AnswerHead {
  status: number
  reason: string
  rawHeaders: string[]
  /** Our wall clock just before the request went out, and when the head of the answer was there. */
  sentAtMs: number
  receivedAtMs: number
}

/** A whole answer in memory, every byte as it came. */
export interface WholeAnswer extends AnswerHead {
  body: Buffer
}

/** On whose behalf a request is sent. */
export interface Sender {
  /**
   * Called just before the first byte is written, for each try. An error that it returns keeps the request from being
   * sent, and is what the answer rejects with.
   */
  objection(): Error | undefined
  /** The head of the answer has come, whether or not the rest will. */
  answerBegan(head: AnswerHead): void
}

export interface FetchOptions {
  upstream: Upstream
  request: UpstreamRequest
  clock: Clock
  totalTimeoutMs: number
  sender?: Sender
}

export interface Fetch {
  answer: Promise<WholeAnswer>
  /** Gives the call up; the answer rejects. */
  abort(): void
}

/** Far more than any quote or order has; an endless answer must not fill the memory. */
const maxBodyBytes = 4_194_304
const noBytes = Buffer.alloc(0)

/** Sends one request and reads its answer to the end: for quotes and orders, which are small and have one deadline. */
export function fetchWhole(options: FetchOptions): Fetch {
  const reader = new Reader(options)
  reader.underWay = options.upstream.dispatch(options.request, reader)
  return { answer: reader.answer, abort: () => reader.leave() }
}

class Reader implements UpstreamHandler {
  readonly answer: Promise<WholeAnswer>
  readonly #options: FetchOptions
  underWay: UnderWay | undefined
  readonly #deadline: PatientTimer
  readonly #endsAtMs: number
  #resolve!: (answer: WholeAnswer) => void
  #reject!: (error: Error) => void
  #abort: ((reason?: Error) => void) | undefined
  #settled = false
  #givenUpFor: Error | undefined
  #sentAtMs = 0
  /** Without its body until that is complete. */
  #head: WholeAnswer | undefined
  #chunks: Buffer[] = []
  #bytes = 0

  constructor(options: FetchOptions) {
    this.#options = options
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
    this.#endsAtMs = performance.now() + options.totalTimeoutMs
    this.#deadline = new PatientTimer(options.totalTimeoutMs, () => this.#onDeadline())
  }

  #onDeadline(): void {
    const fault = this.#abort === undefined ? 'connection_timeout' : 'http_response_timeout'
    const { totalTimeoutMs } = this.#options
    this.giveUp(this.#failure(fault, new Error(`no whole answer in ${totalTimeoutMs} ms`)))
  }

  onConnect(abort: (reason?: Error) => void): void {
    // After a pause of this process a connection may come free before the timer runs: the request would be sent, then given up.
    if (performance.now() >= this.#endsAtMs) this.#onDeadline()
    // Given up while it waited for a connection: nothing is sent.
    if (this.#settled) throw this.#givenUpFor ?? new Error('given up before it was sent')
    const objection = this.#options.sender?.objection()
    if (objection !== undefined) {
      this.#settle()
      this.#reject(objection)
      throw objection
    }
    this.#abort = abort
    this.#sentAtMs = this.#options.clock.nowMs()
  }

  onHeaders(status: number, rawHeaders: Buffer[], _resume: () => void, reason: string): boolean {
    if (status < 200) return true
    const headers = latin1Headers(rawHeaders)
    const head: WholeAnswer = {
      status,
      reason: reasonBytes(reason),
      rawHeaders: headers,
      body: noBytes,
      sentAtMs: this.#sentAtMs,
      receivedAtMs: this.#options.clock.nowMs(),
    }
    const isReadable = !hasForeignTransferCoding(headers)
    this.#options.sender?.answerBegan(head)
    if (!isReadable) {
      throw this.#failure('http_protocol_error', new Error('a transfer coding that was not asked for'))
    }
    this.#head = head
    return true
  }

  onData(chunk: Buffer): boolean {
    this.#bytes += chunk.length
    if (this.#bytes > maxBodyBytes) {
      this.giveUp(this.#failure('http_response_body_size', new Error(`more than ${maxBodyBytes} bytes`)))
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
    const howFar = { requestBegan: this.#abort !== undefined, headCame: this.#head !== undefined }
    const fault = faultOf(error, howFar)
    this.#reject(error instanceof UpstreamFailure ? error : this.#failure(fault, error))
  }

  leave(): void {
    this.giveUp(new ClientGone('nobody waits any more', { maybeSeen: this.#abort !== undefined }))
  }

  giveUp(reason: Error): void {
    if (this.#settled) return
    this.#settle()
    this.#givenUpFor = reason
    this.#reject(reason)
    // Both, because `abort` may be that of a try that died, while the next try waits for a connection.
    this.#abort?.(reason)
    this.underWay?.withdraw(reason)
  }

  #settle(): void {
    this.#settled = true
    this.#deadline.clear()
  }

  #failure(fault: UpstreamFailure['fault'], cause: Error): UpstreamFailure {
    const maybeSeen = this.#abort !== undefined
    return new UpstreamFailure(this.#options.upstream.name, { fault, maybeSeen, cause })
  }
}
