import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { hasBegun } from '../http/answer.ts'
import { ReceivedBytes } from './upgrades.ts'

export interface PipelinedRequest {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  serve: RequestListener
  /** The request's share of `maxWaitingBytes`: 0 if no request was in front of it. */
  readonly waitingBytes: number
}

/** The two packets of a client that ends its side right behind its request are at most this far apart. */
const justMs = 1

/** Turns of the event loop, counted only until two turns after a client sent something. */
let turn = 0
let countsTo = 0

function countTurn(): void {
  turn += 1
  if (turn < countsTo) setImmediate(countTurn)
}

export class ClientConnection {
  /** Requests without a complete answer. Only the first is being served. */
  readonly queue: PipelinedRequest[] = []
  /** The last request that was answered before its body was complete. */
  answeredEarly: IncomingMessage | undefined
  /** Called once the queue is empty, if no request is taken any more. */
  atEnd: (() => void) | undefined
  takesNoMore = false
  readonly received = new ReceivedBytes()
  /** When the last byte of a request was read. */
  #spokeInTurn = Number.NEGATIVE_INFINITY
  #spokeAtMs = Number.NEGATIVE_INFINITY
  /** The bytes of all requests behind the first. */
  waitingBytes = 0
  /** Idle checks in a row that found no request. */
  idleChecks = 0

  /**
   * A client that leaves and a client that ends only its own side send the same FIN. The latter sends it right behind
   * its request: both are read in the same turn of the event loop or the next, however late, or within a millisecond.
   */
  get hasJustSpoken(): boolean {
    return turn - this.#spokeInTurn < 2 || performance.now() - this.#spokeAtMs < justMs
  }

  noteSpoken(): void {
    this.#spokeAtMs = performance.now()
    this.#spokeInTurn = turn
    if (turn === countsTo) setImmediate(countTurn)
    countsTo = turn + 2
  }

  /**
   * Makes this response the last, with `Connection: close` (RFC 9112 9.6): requests already taken are answered, and no
   * others.
   */
  endWith(response: ServerResponse | undefined): void {
    if (response === undefined || hasBegun(response)) return
    response.shouldKeepAlive = false
    this.takesNoMore = true
  }
}
