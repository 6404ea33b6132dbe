import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  answerHeaders,
  bodilessStatuses,
  hasForeignTransferCoding,
  headerLines,
  isPlain,
  latin1Headers,
  reasonBytes,
} from '../http/headers.ts'
import { endAnswer } from '../http/lingering-close.ts'
import { Problem, UpstreamFailure } from '../http/problem.ts'
import { type Interruptible, interrupted } from '../http/problem-response.ts'
import { answerInOneWrite, maxOneWriteBytes, writeReceivedHead } from '../http/whole-response.ts'
import { PatientTimer } from '../process/patient-timer.ts'
import { faultOf } from './fault.ts'
import { ClientGone, RequestBody } from './request-body.ts'
import type { UnderWay, Upstream, UpstreamHandler } from './types.ts'

/** On whose behalf a request is relayed. */
export interface RelayOwner {
  /** Headers to add to an answer that has these; undefined: none. */
  ownHeaders: ((received: readonly string[]) => readonly string[]) | undefined
  /** The client will not get the upstream's answer. The error is a ClientGone if the client left. */
  failed(error: unknown): void
}

export interface RelayOptions {
  upstream: Upstream
  request: IncomingMessage
  response: ServerResponse
  target: string
  /** The request's headers as the upstream is to see them. */
  headers: string[]
  body: Buffer | RequestBody | null
  /** How long a client may stop reading its answer: meanwhile it holds a connection to the upstream. */
  stallMs: number
  owner: RelayOwner
}

/** Streams one request to one upstream and its answer back, with back-pressure both ways. */
export function relay(options: RelayOptions): void {
  const { body, request, upstream } = options
  const one = new Relay(options)
  one.underWay = upstream.dispatch(
    { method: request.method ?? 'GET', target: options.target, headers: options.headers, body },
    one,
  )
}

interface AnswerHead {
  status: number
  reason: string
  headers: string[]
}

const noBytes = Buffer.alloc(0)

const sendHeadAlone = (relay: Relay) => relay.sendHeadAlone()

class Relay implements UpstreamHandler {
  readonly #options: RelayOptions
  underWay: UnderWay | undefined
  #abort: ((reason?: Error) => void) | undefined
  #clientGone = false
  #ended = false
  #began = false
  /** Held back until it is known whether the body comes with it. */
  #head: AnswerHead | undefined
  #bodyBegan = false
  #statedLength: number | undefined
  #wholeBody: Buffer | undefined
  #resume: (() => void) | undefined
  #stallTimer: PatientTimer | undefined

  constructor(options: RelayOptions) {
    this.#options = options
    const giveUp = () => {
      this.#stallTimer?.clear()
      if (this.#ended) return
      this.#clientGone = true
      this.#dropBody()
      const gone = this.#gone()
      // Both, because `abort` may be that of a try that died, while the next try waits for a connection.
      this.#abort?.(gone)
      // Out of the queue at once: clients who left must not keep new ones out.
      this.underWay?.withdraw(gone)
    }
    options.response.on('close', giveUp)
    // A problem may be answered instead, such as a refusal of the request's own broken body.
    ;(options.response as Interruptible)[interrupted] = giveUp
  }

  onConnect(abort: (reason?: Error) => void): void {
    // A client that left while its request was waiting for a connection costs the upstream nothing.
    if (this.#clientGone || this.#ended) throw this.#gone()
    this.#abort = abort
    this.#began = true
  }

  onHeaders(status: number, rawHeaderBytes: Buffer[], resume: () => void, reason: string): boolean {
    if (status < 200) return true
    const { owner, upstream } = this.#options
    const rawHeaders = latin1Headers(rawHeaderBytes)
    if (hasForeignTransferCoding(rawHeaders)) {
      throw new UpstreamFailure(upstream.name, { fault: 'http_protocol_error', maybeSeen: true })
    }
    const headers = answerHeaders(status, rawHeaders)
    if (owner.ownHeaders) headers.push(...owner.ownHeaders(headers))
    const length = headerLines(headers, 'content-length')
    if (length !== undefined) this.#statedLength = Number(length)
    this.#resume = resume
    this.#head = { status, reason: reasonBytes(reason), headers }
    if (bodilessStatuses.has(status)) {
      this.#end()
      return true
    }
    // A reason phrase that cannot be written has to throw here, where undici handles it.
    if (!isPlain(reason)) this.#writeHead()
    process.nextTick(sendHeadAlone, this)
    return true
  }

  /**
   * The head goes out at once unless a body comes with it. flushHeaders() would turn latin1 bytes into UTF-8; an
   * empty write does not.
   */
  sendHeadAlone(): void {
    if (this.#bodyBegan || this.#ended) return
    try {
      this.#writeHead()
      this.#options.response.write(noBytes)
    } catch (error) {
      this.#abort?.(error as Error)
    }
  }

  #writeHead(): void {
    const { response } = this.#options
    if (this.#head === undefined || response.headersSent) return
    response.sendDate = false
    writeReceivedHead(response, this.#head)
  }

  #writeWhole(): boolean {
    const body = this.#wholeBody
    if (this.#head === undefined || body === undefined) return false
    const { response } = this.#options
    response.sendDate = false
    return answerInOneWrite(response, this.#head, body)
  }

  onData(chunk: Buffer): boolean {
    if (!this.#bodyBegan && chunk.length === this.#statedLength && chunk.length <= maxOneWriteBytes) {
      this.#bodyBegan = true
      this.#wholeBody = chunk
      return true
    }
    this.#bodyBegan = true
    this.#writeHead()
    const { response } = this.#options
    const taken = response.write(chunk)
    if (!taken) {
      if (this.#resume) response.once('drain', this.#resume)
      this.#watchForStall()
    }
    return taken
  }

  /** undici's own timer stops while an answer is paused, so a client that never reads needs another. */
  #watchForStall(): void {
    const { response, stallMs } = this.#options
    if (this.#stallTimer) this.#stallTimer.refresh()
    else
      this.#stallTimer = new PatientTimer(stallMs, () => {
        if (response.writableNeedDrain) response.destroy()
      })
  }

  onComplete(): void {
    if (this.#ended) return
    try {
      this.#end()
    } catch (error) {
      // Thrown on, undici would take it for the end of another try.
      this.onError(error as Error)
    }
  }

  onError(error: Error): void {
    if (this.#ended) return
    this.#ended = true
    // The rest of the request may still have to be read, which must not find it paused by a body that nobody takes.
    this.#dropBody()
    const { owner, request, response } = this.#options
    if (this.#clientGone || error instanceof ClientGone) {
      owner.failed(this.#gone())
      return
    }
    // An HTTP/1.0 answer may end with its connection: only a reset tells a broken one from a whole one.
    if (response.headersSent && request.httpVersionMinor === 0) request.socket.resetAndDestroy()
    owner.failed(error instanceof Problem || error instanceof UpstreamFailure ? error : this.#failure(error))
  }

  #gone(): ClientGone {
    return new ClientGone('the client left before its answer was whole', { maybeSeen: this.#began })
  }

  #failure(error: Error): UpstreamFailure {
    const { upstream } = this.#options
    const fault = faultOf(error, { requestBegan: this.#began, headCame: this.#head !== undefined })
    return new UpstreamFailure(upstream.name, { fault, maybeSeen: this.#began, cause: error })
  }

  #dropBody(): void {
    const { body } = this.#options
    if (body instanceof RequestBody) body.destroy()
  }

  #end(): void {
    const wentWhole = this.#writeWhole()
    if (!wentWhole) this.#writeHead()
    this.#ended = true
    this.#dropBody()
    if (!wentWhole) endAnswer(this.#options.request, this.#options.response, this.#wholeBody)
  }
}
