import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { hasBegun } from '../http/answer.ts'
import { ReceivedBytes } from './upgrades.ts'

/** A request in the queue of its connection. */
export interface PipelinedRequest {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  serve: RequestListener
  /** What it takes of `maxWaitingBytes`: nothing if no request was in front of it. */
  readonly waitingBytes: number
}

/** The two packets of a client that ends its own side right behind its request may be this far apart. */
const justMs = 1

/** Counts the turns of the event loop, up to the second behind one in which a client has spoken. */
let turn = 0
let countsTo = 0

function countTurn(): void {
  turn += 1
  if (turn < countsTo) setImmediate(countTurn)
}

/** A client's connection, with what is to be known of it between two requests. */
export class ClientConnection {
  /** The requests that have no complete answer yet. Only the first is being served. */
  readonly queue: PipelinedRequest[] = []
  /** The last request that was answered before all of its body had come. */
  answeredEarly: IncomingMessage | undefined
  /** Called once the queue is empty, if no further request is taken. */
  atEnd: (() => void) | undefined
  takesNoMore = false
  readonly received = new ReceivedBytes()
  /** When the last byte of a request was read. */
  #spokeInTurn = Number.NEGATIVE_INFINITY
  #spokeAtMs = Number.NEGATIVE_INFINITY
  /** The bytes of the requests that wait behind the first. */
  waitingBytes = 0
  /** How many idle checks in a row found nothing going on. */
  idleChecks = 0

  /**
   * A client that leaves and one that ends only its own side send the same FIN. The latter sends it right behind its
   * request, so both are read in one turn of the event loop or in two that follow each other, however late these come; or
   * within a millisecond.
   */
  get hasJustSpoken(): boolean {
    return turn - this.#spokeInTurn < 2 || performance.now() - this.#spokeAtMs < justMs
  }

  /** The last byte of a request was read. */
  noteSpoken(): void {
    this.#spokeAtMs = performance.now()
    this.#spokeInTurn = turn
    if (turn === countsTo) setImmediate(countTurn)
    countsTo = turn + 2
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
