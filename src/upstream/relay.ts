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
import { relayInterim } from '../http/interim-answer.ts'
import { endAnswer } from '../http/lingering-close.ts'
import { Problem } from '../http/problem.ts'
import { type Interruptible, interrupted } from '../http/problem-response.ts'
import { UpstreamFailure } from '../http/upstream-failure.ts'
import { answerInOneWrite, maxOneWriteBytes, writeReceivedHead } from '../http/whole-response.ts'
import { faultOf } from './fault.ts'
import { ClientGone, RequestBody } from './request-body.ts'
import type { RequestTrace } from './try-trace.ts'
import type {
  InFlightRequest,
  RequestControl,
  RequestKind,
  SentBody,
  Upstream,
  UpstreamHandler,
} from './types.ts'

/** On whose behalf a request is relayed. */
export interface RelayOwner {
  /** Headers to add to an answer whose headers are `received`; undefined: none. */
  ownHeaders: ((received: readonly string[]) => readonly string[]) | undefined
  /** Called for each try, just before its first byte is written. */
  sent(): void
  /** Called when the head of the answer has come. */
  answerBegan(): void
  /** Called when the client will not get the upstream's answer. The error is a ClientGone if the client left. */
  failed(error: unknown): void
}

export interface RelayOptions {
  upstream: Upstream
  request: IncomingMessage
  response: ServerResponse
  target: string
  kind: RequestKind
  /** The request's headers as they are sent to the upstream. */
  headers: string[]
  body: SentBody | null
  connectByMs: number | undefined
  /** How long a client may stop reading its answer. Meanwhile the answer holds a connection to the upstream. */
  stallMs: number
  owner: RelayOwner
  /** Undefined: it is not sampled. */
  trace?: RequestTrace | undefined
}

/** Streams one request to one upstream, and the answer back to the client, with back-pressure in both directions. */
export function relay(options: RelayOptions): void {
  const { body, connectByMs, headers, kind, request, target, trace, upstream } = options
  const handler = new Relay(options)
  handler.inFlight = upstream.dispatch(
    { kind, method: request.method ?? 'GET', target, headers, body, connectByMs, trace },
    handler,
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
  inFlight: InFlightRequest | undefined
  /** Undefined until a try had a connection. */
  #control: RequestControl | undefined
  #clientGone = false
  #ended = false
  /** Not written until it is known whether the body comes with the head. */
  #head: AnswerHead | undefined
  #bodyBegan = false
  #statedLength: number | undefined
  #wholeBody: Buffer | undefined

  constructor(options: RelayOptions) {
    this.#options = options
    const giveUp = () => {
      if (this.#ended) return
      this.#clientGone = true
      this.#dropBody()
      const reason = this.#clientGoneError()
      // Both, because the try that had a connection may have failed, while the next try waits for one.
      this.#control?.abort(reason)
      // Out of the queue at once: requests whose clients left must not keep new requests out.
      this.inFlight?.withdraw(reason)
    }
    options.response.on('close', giveUp)
    // For example, the request's own body was malformed and the server answered with a problem.
    ;(options.response as Interruptible)[interrupted] = giveUp
  }

  onConnect(control: RequestControl): void {
    // The client left while its request waited for a connection, so the request is not sent.
    if (this.#clientGone || this.#ended) throw this.#clientGoneError()
    this.#control = control
    this.#options.owner.sent()
  }

  onHeaders(status: number, rawHeaderBytes: readonly Buffer[], reason: string): void {
    const { kind, owner, request, response, upstream } = this.#options
    const rawHeaders = latin1Headers(rawHeaderBytes)
    if (status < 200) {
      // The client of an order waits for one answer: its order was accepted, or it was not.
      if (kind === 'other') relayInterim(request, response, { status, reason, rawHeaders })
      return
    }
    owner.answerBegan()
    if (hasForeignTransferCoding(rawHeaders)) {
      throw new UpstreamFailure(upstream.name, { fault: 'http_protocol_error', maybeSeen: true })
    }
    const headers = answerHeaders(status, rawHeaders)
    if (owner.ownHeaders) headers.push(...owner.ownHeaders(headers))
    const length = headerLines(headers, 'content-length')
    if (length !== undefined) this.#statedLength = Number(length)
    this.#head = { status, reason: reasonBytes(reason), headers }
    if (bodilessStatuses.has(status)) {
      this.#end()
      return
    }
    // A reason phrase that Node cannot write has to throw here, where undici handles the error.
    if (!isPlain(reason)) this.#writeHead()
    process.nextTick(sendHeadAlone, this)
  }

  /**
   * Writes the head at once unless a body came with it. flushHeaders() would turn latin1 bytes into UTF-8; an empty
   * write does not.
   */
  sendHeadAlone(): void {
    if (this.#bodyBegan || this.#ended) return
    try {
      this.#writeHead()
      this.#options.response.write(noBytes)
    } catch (error) {
      this.#control?.abort(error as Error)
    }
  }

  #writeHead(): void {
    const { response } = this.#options
    if (this.#head === undefined || response.headersSent) return
    response.sendDate = false
    writeReceivedHead(response, this.#head)
  }

  /** Writes head and body in one write, if that is possible. False: neither was written. */
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
    const { response, stallMs, upstream } = this.#options
    const taken = response.write(chunk)
    if (!taken) {
      const goOn = () => this.#control?.resume()
      upstream.slowReaders.heldUp(response, { bytes: chunk.length, goOn, stallMs })
    }
    return taken
  }

  onComplete(): void {
    if (this.#ended) return
    try {
      this.#end()
    } catch (error) {
      // If this threw, undici would report the error as the end of another try.
      this.onError(error as Error)
    }
  }

  onError(error: Error): void {
    if (this.#ended) return
    this.#ended = true
    // The rest of the request may still have to be read. Its RequestBody would keep it paused.
    this.#dropBody()
    const { owner, request, response } = this.#options
    if (this.#clientGone || error instanceof ClientGone) {
      owner.failed(this.#clientGoneError())
      return
    }
    // The end of the connection ends an HTTP/1.0 answer. Only a reset shows the client that the answer is incomplete.
    if (response.headersSent && request.httpVersionMinor === 0) request.socket.resetAndDestroy()
    owner.failed(error instanceof Problem || error instanceof UpstreamFailure ? error : this.#failure(error))
  }

  #clientGoneError(): ClientGone {
    const maybeSeen = this.#control !== undefined
    return new ClientGone('the client left before its answer was whole', { maybeSeen })
  }

  #failure(error: Error): UpstreamFailure {
    const { upstream } = this.#options
    const maybeSeen = this.#control !== undefined
    const fault = faultOf(error, { requestBegan: maybeSeen, headReceived: this.#head !== undefined })
    return new UpstreamFailure(upstream.name, { fault, maybeSeen, cause: error })
  }

  #dropBody(): void {
    const { body } = this.#options
    if (body instanceof RequestBody) body.destroy()
  }

  #end(): void {
    const isWritten = this.#writeWhole()
    if (!isWritten) this.#writeHead()
    this.#ended = true
    this.#dropBody()
    if (!isWritten) endAnswer(this.#options.request, this.#options.response, this.#wholeBody)
  }
}
