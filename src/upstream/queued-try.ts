import { type Dispatcher, errors } from 'undici'
import { bodilessStatuses, headerLines, latin1Headers } from '../http/headers.ts'
import type { Permit } from './breaker.ts'
import type { Lane } from './capacity.ts'
import type { Connection } from './connection.ts'
import type { Connections, Try, TryHandler } from './connections.ts'

function isChunked(rawHeaders: readonly Buffer[]): boolean {
  return headerLines(latin1Headers(rawHeaders), 'transfer-encoding') !== undefined
}

export interface QueuedTryOptions {
  request: Dispatcher.DispatchOptions
  handler: TryHandler
  connections: Pick<Connections, 'withdraw' | 'giveBack'>
  lane: Lane
  /** In the order in which they came. */
  number: number
}

/** One try of a request. It waits for a connection, holds it until the answer ends, and gives it back. */
export class QueuedTry implements Try {
  readonly lane: Lane
  readonly number: number
  isWaiting = true
  readonly #request: Dispatcher.DispatchOptions
  readonly #handler: TryHandler
  readonly #connections: QueuedTryOptions['connections']
  #connection: Connection | undefined
  #bytesReadBefore: number | undefined

  constructor(options: QueuedTryOptions) {
    this.lane = options.lane
    this.number = options.number
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

  onConnect(abort: (reason?: Error) => void): void {
    this.#bytesReadBefore = this.#connection?.bytesRead
    this.#connection?.expectAnswer()
    this.#handler.onConnect(abort)
  }

  onHeaders(status: number, rawHeaders: Buffer[], resume: () => void, reason: string): boolean {
    this.#connection?.setResume(resume)
    // Some upstreams send a last chunk after an answer that has no body (RFC 9112 6.1). The next request on the
    // connection would read that chunk as its answer, and a payment that succeeded would become a 502. undici handles
    // an answer that states a length.
    // After an HTTP/1.0 answer with that coding the framing cannot be trusted either.
    const mayMislead = bodilessStatuses.has(status) || this.#connection?.answersInHttp10
    if (mayMislead && isChunked(rawHeaders)) this.#connection?.retire()
    return this.#handler.onHeaders(status, rawHeaders, resume, reason)
  }

  onData(chunk: Buffer): boolean {
    // undici's parser emits an empty chunk when it is resumed and has no bytes left.
    return chunk.length === 0 || this.#handler.onData(chunk)
  }

  onComplete(): void {
    if (this.#connection?.wasReset) {
      this.onError(new errors.SocketError('reset by the upstream'))
      return
    }
    this.#giveBack()
    this.#handler.onComplete()
  }

  onError(error: Error): void {
    const answerBegan =
      this.#bytesReadBefore !== undefined && this.#connection?.bytesRead !== this.#bytesReadBefore
    this.#giveBack()
    this.#handler.onError(error, answerBegan)
  }

  #giveBack(): void {
    if (this.#connection) this.#connections.giveBack(this.#connection, this)
  }
}
