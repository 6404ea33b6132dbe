import type { Clock } from '../clock.ts'
import { hasForeignTransferCoding, latin1Headers, reasonBytes } from '../http/headers.ts'
import { UpstreamFailure } from '../http/problem.ts'
import { faultOf } from './fault.ts'
import { ClientGone } from './request-body.ts'
import type { UnderWay, Upstream, UpstreamHandler, UpstreamRequest } from './upstream.ts'

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

export interface FetchOptions {
  upstream: Upstream
  request: UpstreamRequest
  clock: Clock
  totalTimeoutMs: number
  /** Called just before the first byte is written; what it throws keeps the request from being sent. */
  beforeSend?(): void
  /** Called when the head of the answer is there, whether or not the rest comes. */
  onHead?(head: AnswerHead): void
}

export interface Fetch {
  answer: Promise<WholeAnswer>
  /** Gives the call up; the answer rejects. */
  abort(): void
}

/** No quote and no order comes near it; an endless answer must not fill the memory. */
const bodyBytesMost = 4_194_304
const noBytes = Buffer.alloc(0)

/** One call whose answer is read to its end: for quotes and orders, which are small and have one deadline. */
export function fetchWhole(options: FetchOptions): Fetch {
  const reader = new Reader(options)
  reader.underWay = options.upstream.dispatch(options.request, reader)
  return { answer: reader.answer, abort: () => reader.leave() }
}

class Reader implements UpstreamHandler {
  readonly answer: Promise<WholeAnswer>
  readonly #options: FetchOptions
  underWay: UnderWay | undefined
  readonly #deadline: NodeJS.Timeout
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
    // After a pause of this process the answer may lie in the socket already: that is read before an immediate runs.
    this.#deadline = setTimeout(() => setImmediate(() => this.#onDeadline()), options.totalTimeoutMs)
  }

  #onDeadline(): void {
    const fault = this.#abort === undefined ? 'connection_timeout' : 'http_response_timeout'
    const { totalTimeoutMs } = this.#options
    this.giveUp(this.#failure(fault, new Error(`no whole answer in ${totalTimeoutMs} ms`)))
  }

  onConnect(abort: (reason?: Error) => void): void {
    // After a pause of this process a connection may come free before the timer says so: it would be given up once sent.
    if (performance.now() >= this.#endsAtMs) this.#onDeadline()
    // Given up while it waited for a connection: nothing is sent.
    if (this.#settled) throw this.#givenUpFor ?? new Error('given up before it was sent')
    try {
      this.#options.beforeSend?.()
    } catch (error) {
      this.#settle()
      this.#reject(error as Error)
      throw error
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
    this.#options.onHead?.(head)
    if (hasForeignTransferCoding(headers)) {
      throw this.#failure('http_protocol_error', new Error('a transfer coding that nobody asked for'))
    }
    this.#head = head
    return true
  }

  onData(chunk: Buffer): boolean {
    this.#bytes += chunk.length
    if (this.#bytes > bodyBytesMost) {
      this.giveUp(this.#failure('http_response_body_size', new Error(`more than ${bodyBytesMost} bytes`)))
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
    // Both: of a try that died it may still have the one, while the next waits for a connection.
    this.#abort?.(reason)
    this.underWay?.withdraw(reason)
  }

  #settle(): void {
    this.#settled = true
    clearTimeout(this.#deadline)
  }

  #failure(fault: UpstreamFailure['fault'], cause: Error): UpstreamFailure {
    const maybeSeen = this.#abort !== undefined
    return new UpstreamFailure(this.#options.upstream.name, { fault, maybeSeen, cause })
  }
}
