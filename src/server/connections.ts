import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { hasBegun } from '../http/answer.ts'
import { ReceivedBytes } from './upgrades.ts'

/** A request in the queue of its connection. */
export interface PipelinedRequest {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  serve: RequestListener
  /** The request's share of `maxWaitingBytes`: 0 if no request was in front of it. */
  readonly waitingBytes: number
}

/** A client may end its own side right behind its request: the two packets are at most this far apart. */
const justMs = 1

/** Turns of the event loop, counted only until two turns after a client sent something. */
let turn = 0
let countsTo = 0

function countTurn(): void {
  turn += 1
  if (turn < countsTo) setImmediate(countTurn)
}

/** A client's connection, with its state between two requests. */
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
  /** Idle checks in a row that found no request. */
  idleChecks = 0

  /**
   * A client that leaves and a client that ends only its own side send the same FIN. The latter sends it right behind
   * its request, so both are read in the same turn of the event loop or in the next, however late, or within a
   * millisecond.
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
   * Makes this response the last of the connection, with `Connection: close` (RFC 9112 9.6): requests already taken are
   * answered, and no further ones are taken.
   */
  endWith(response: ServerResponse | undefined): void {
    if (response === undefined || hasBegun(response)) return
    response.shouldKeepAlive = false
    this.takesNoMore = true
  }
}
