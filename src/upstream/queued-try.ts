import { type Dispatcher, errors } from 'undici'
import { bodilessStatuses, headerLines, latin1Headers } from '../http/headers.ts'
import type { Permit } from './breakers.ts'
import type { Connection } from './connection.ts'
import type { Connections, Try, TryHandler } from './connections.ts'
import type { Lane } from './lanes.ts'

function isChunked(rawHeaders: readonly Buffer[]): boolean {
  return headerLines(latin1Headers(rawHeaders), 'transfer-encoding') !== undefined
}

export interface QueuedTryOptions {
  request: Dispatcher.DispatchOptions
  handler: TryHandler
  connections: Pick<Connections, 'withdraw' | 'giveBack'>
  lane: Lane
}

type Controller = Dispatcher.DispatchController

/**
 * One try of a request. It waits for a connection, holds it until the answer ends, and gives it back. No other file
 * knows the handlers of undici: versions 7 and 8 call these methods in the same way.
 */
export class QueuedTry implements Try, Dispatcher.DispatchHandler {
  readonly lane: Lane
  isWaiting = true
  readonly #request: Dispatcher.DispatchOptions
  readonly #handler: TryHandler
  readonly #connections: QueuedTryOptions['connections']
  #connection: Connection | undefined
  #bytesReadBefore: number | undefined

  constructor(options: QueuedTryOptions) {
    this.lane = options.lane
    this.#request = options.request
    this.#handler = options.handler
    this.#connections = options.connections
  }

  withdraw(): boolean {
    return this.#connections.withdraw(this)
  }

  start(connection: Connection, permit: Permit): void {
    this.isWaiting = false
    this.#connection = connection
    connection.closeIfRetired()
    this.#handler.onStart(permit, connection.isOpen)
    connection.dispatch(this.#request, this)
  }

  onRequestStart(controller: Controller): void {
    this.#bytesReadBefore = this.#connection?.bytesRead
    this.#connection?.expectAnswer(controller)
    this.#handler.onConnect(controller)
  }

  onResponseStart(controller: Controller, status: number, _headers: unknown, reason = ''): void {
    // Over HTTP/1.1 they are always a list of Buffers. undici's parsed headers lack order, case and duplicates.
    const rawHeaders = controller.rawHeaders as Buffer[]
    // Some upstreams send a last chunk after an answer that has no body (RFC 9112 6.1). The next request on the
    // connection would read that chunk as its answer, and a payment that succeeded would become a 502. undici handles
    // an answer that states a length.
    // After an HTTP/1.0 answer with that coding the framing cannot be trusted either.
    const mayMislead = bodilessStatuses.has(status) || this.#connection?.answersInHttp10
    if (mayMislead && isChunked(rawHeaders)) this.#connection?.retire()
    this.#handler.onHeaders(status, rawHeaders, reason)
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    // undici's parser emits an empty chunk when it is resumed and has no bytes left.
    if (chunk.length > 0 && !this.#handler.onData(chunk)) controller.pause()
  }

  onResponseEnd(): void {
    if (this.#connection?.wasReset) {
      this.fail(new errors.SocketError('reset by the upstream'))
      return
    }
    this.#giveBack()
    this.#handler.onComplete()
  }

  /** Without a controller if the request never had its connection. */
  onResponseError(_controller: unknown, error: Error): void {
    this.fail(error)
  }

  fail(error: Error): void {
    const answerBegan =
      this.#bytesReadBefore !== undefined && this.#connection?.bytesRead !== this.#bytesReadBefore
    this.#giveBack()
    this.#handler.onError(error, answerBegan)
  }

  #giveBack(): void {
    if (this.#connection === undefined) return
    this.#connection.answerEnded()
    this.#connections.giveBack(this.#connection, this)
  }
}
