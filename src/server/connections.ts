import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { hasBegun } from '../http/answer.ts'

/** A request in the queue of its connection. */
interface PipelinedRequest {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  serve: RequestListener
  /** What it takes of `maxWaitingBytes`: nothing if no request was in front of it. */
  readonly waitingBytes: number
}

/** The two packets of a client that ends its own side right behind its request may be this far apart. */
const justMs = 1

/** A client's connection, with what is to be known of it between two requests. */
export class Connection {
  /** The requests that have no complete answer yet. Only the first is being served. */
  readonly queue: PipelinedRequest[] = []
  /** The last request that was answered before all of its body had come. */
  answeredEarly: IncomingMessage | undefined
  /** Called once the queue is empty, if no further request is taken. */
  atEnd: (() => void) | undefined
  takesNoMore = false
  paused = false
  /** Above 0: the last byte of a request was read in this turn of the event loop, or in the one before. */
  #turnsLeft = 0
  #spokeAtMs = Number.NEGATIVE_INFINITY
  /** Of the requests that wait behind the first. */
  waitingBytes = 0
  /** How many idle checks in a row found nothing going on. */
  idleChecks = 0

  /**
   * A client that leaves and one that ends only its own side send the same FIN. The latter sends it right behind its
   * request, so both are read in one turn of the event loop or in two that follow each other, however late these come; or
   * within a millisecond.
   */
  get hasJustSpoken(): boolean {
    return this.#turnsLeft > 0 || performance.now() - this.#spokeAtMs < justMs
  }

  /** The last byte of a request was read. */
  noteSpoken(): void {
    this.#spokeAtMs = performance.now()
    if (this.#turnsLeft === 0) setImmediate(this.#nextTurn)
    this.#turnsLeft = 2
  }

  readonly #nextTurn = (): void => {
    this.#turnsLeft -= 1
    if (this.#turnsLeft > 0) setImmediate(this.#nextTurn)
  }

  /**
   * Makes this response the last of the connection (RFC 9112 9.6): what was taken is answered, the last of it with
   * `Connection: close`, and no more is taken.
   */
  endWith(response: ServerResponse | undefined): void {
    if (response === undefined || hasBegun(response)) return
    response.shouldKeepAlive = false
    this.takesNoMore = true
  }
}
