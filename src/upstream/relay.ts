import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  answerInOneWrite,
  endAnswer,
  hasBegun,
  headLines,
  type Interruptible,
  interrupted,
  maxOneWriteBytes,
  writableReason,
  writeReceivedHead,
} from '../http/answer.ts'
import { answerHeaders, bodilessStatuses, headerLines } from '../http/headers.ts'
import type { Call } from './call.ts'
import { unwritable } from './fault.ts'
import type { Receiver, UpstreamRequest } from './request.ts'
import { RequestBody } from './request-body.ts'
import type { Upstream } from './upstream.ts'

interface RelayOptions extends UpstreamRequest {
  upstream: Upstream
  request: IncomingMessage
  response: ServerResponse
  /** Further headers for an answer whose headers are `received`. */
  ownHeaders?: ((received: readonly string[]) => readonly string[]) | undefined
}

/**
 * Streams one request to one upstream, and the answer back, with back-pressure in both directions. Rejects if the
 * caller gets none: with a ClientGone if it left.
 */
export function relay(options: RelayOptions): Promise<void> {
  return new Promise((resolve, reject) => new Relay(options, resolve, reject).start())
}

const noBytes = Buffer.alloc(0)

/** 100 is the gateway's own answer to `Expect`. 101 answers an `Upgrade`, which is never passed on. */
const lowestInterim = 102

class Relay implements Receiver {
  readonly #options: RelayOptions
  readonly #resolve: () => void
  readonly #reject: (error: Error) => void
  /** Undefined: the call is not made yet, or was kept back. */
  #call: Call | undefined
  /** The caller's answer is complete, or it will get none. The call may still go on. */
  #isAnswered = false
  /** The head is written once it is known whether the body comes with it. */
  #head: { status: number; reason: string; headers: string[] } | undefined
  #bodyBegan = false
  /** NaN: the answer states no length. */
  #statedLength = Number.NaN
  #wholeBody: Buffer | undefined

  constructor(
    options: RelayOptions,
    resolve: () => void,
    reject: (error: Error) => void,
  ) {
    this.#options = options
    this.#resolve = resolve
    this.#reject = reject
  }

  start(): void {
    const { response, upstream } = this.#options
    const leave = () => this.#leave()
    response.on('close', leave)
    // Called, for example, if the server answers a malformed body with a problem.
    ;(response as Interruptible)[interrupted] = leave
    try {
      this.#call = upstream.call(this.#options, this)
      this.#call.start()
    } catch (error) {
      this.onEnd(error as Error)
    }
  }

  #leave(): void {
    if (!this.#isAnswered)
      this.#call?.leave('the caller left before its answer was whole')
  }

  onHead(status: number, rawHeaders: string[], reason: string): void {
    const { kind, ownHeaders } = this.#options
    if (status < 200) {
      // The caller of an order waits for one answer.
      if (kind === 'other') this.#relayInterim(status, rawHeaders, reason)
      return
    }
    const headers = answerHeaders(status, rawHeaders)
    if (ownHeaders) headers.push(...ownHeaders(headers))
    this.#statedLength = Number(headerLines(headers, 'content-length'))
    this.#head = { status, reason, headers }
    this.#options.response.sendDate = false
    if (bodilessStatuses.has(status)) {
      this.#end()
      return
    }
    // A phrase that Node cannot write has to throw here, where undici handles the error.
    if (!writableReason.test(reason)) this.#writeHead()
    process.nextTick(() => this.#sendHeadAlone())
  }

  /**
   * Relays interim answers such as 103 Early Hints (RFC 9110 15.2). A caller that speaks HTTP/1.0 cannot read them, and
   * for a caller that reads nothing they would pile up.
   */
  #relayInterim(status: number, rawHeaders: readonly string[], reason: string): void {
    const { request, response } = this.#options
    const { socket } = response
    if (status < lowestInterim || request.httpVersionMinor === 0 || hasBegun(response))
      return
    if (!socket?.writable || socket.writableNeedDrain) return
    const lines = headLines(answerHeaders(status, rawHeaders))
    if (lines === undefined) return
    const phrase = writableReason.test(reason) ? reason : ''
    socket.write(`HTTP/1.1 ${status} ${phrase}\r\n${lines}\r\n`, 'latin1')
  }

  /**
   * Writes the head unless a body came with it. flushHeaders() would turn latin1 bytes into UTF-8; an empty write does
   * not.
   */
  #sendHeadAlone(): void {
    if (this.#bodyBegan || this.#isAnswered) return
    try {
      this.#writeHead()
      this.#options.response.write(noBytes)
    } catch (error) {
      this.#call?.giveUp(unwritable(this.#options.upstream.name, error))
    }
  }

  #writeHead(): void {
    const { response } = this.#options
    if (this.#head !== undefined && !response.headersSent)
      writeReceivedHead(response, this.#head)
  }

  onData(chunk: Buffer): boolean {
    if (
      !this.#bodyBegan &&
      chunk.length === this.#statedLength &&
      chunk.length <= maxOneWriteBytes
    ) {
      this.#bodyBegan = true
      this.#wholeBody = chunk
      return true
    }
    this.#bodyBegan = true
    this.#writeHead()
    const { response, upstream } = this.#options
    const taken = response.write(chunk)
    if (!taken)
      upstream.slowReaders.heldUp(response, chunk.length, () => this.#call?.resume())
    return taken
  }

  onEnd(error?: Error): void {
    if (this.#isAnswered) return
    if (error !== undefined) {
      this.#fail(error)
      return
    }
    try {
      this.#end()
    } catch (thrown) {
      this.#fail(unwritable(this.#options.upstream.name, thrown))
    }
  }

  #fail(error: Error): void {
    this.#stop()
    this.#reject(error)
  }

  #end(): void {
    const { request, response } = this.#options
    const [head, body] = [this.#head, this.#wholeBody]
    const isWritten =
      head !== undefined && body !== undefined && answerInOneWrite(response, head, body)
    if (!isWritten) this.#writeHead()
    this.#stop()
    if (!isWritten) endAnswer(request, response, body)
    this.#resolve()
  }

  #stop(): void {
    this.#isAnswered = true
    const { body } = this.#options
    // The rest of the request may have to be read, and its RequestBody would keep it paused.
    if (body instanceof RequestBody) body.destroy()
  }
}
