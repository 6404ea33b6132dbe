import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { PatientTimer } from '../clock.ts'
import type { Events } from '../events.ts'
import {
  answerProblem,
  dateLine,
  headLines,
  lingerMs,
  problemHeaders,
  type Refusable,
  refused,
} from '../http/answer.ts'
import { Problem, problemBody } from '../http/problem.ts'
import { nextRequestId } from './exchange.ts'

/** Max refused connections with time to read their refusal; further ones close at once. */
const maxTurnedAway = 1_000

/** Refuses requests and connections, each with its own id. */
export class Refusals {
  readonly #events: Events
  #turnedAway = 0

  constructor(events: Events) {
    this.#events = events
  }

  /** Refuses a connection past CLIENT_CONNECTIONS. */
  turnAway(socket: Socket): void {
    this.#turnedAway += 1
    socket.once('close', () => {
      this.#turnedAway -= 1
    })
    const detail =
      'This gateway has its maximum of open connections. Nothing was read: try again in 1 s.'
    this.refuseSocket(
      socket,
      new Problem('too-many-connections', { detail, headers: { 'Retry-After': '1' } }),
    )
    if (this.#turnedAway > maxTurnedAway) socket.destroySoon()
  }

  report(problem: Problem): string {
    const requestId = nextRequestId()
    this.#events.problemAnswered(problem, requestId, undefined)
    return requestId
  }

  refuse(request: IncomingMessage, response: ServerResponse, problem: Problem): void {
    const requestId = this.report(problem)
    this.#events.requestRefused(problem, requestId, request)
    answerProblem(request, response, { problem, requestId })
  }

  /** Node has no response for this socket. The socket serves nothing more. */
  refuseSocket(
    socket: Duplex & Refusable,
    problem: Problem,
    request?: IncomingMessage,
  ): void {
    const requestId = this.report(problem)
    this.#events.requestRefused(problem, requestId, request ?? socket)
    socket[refused] = true
    const body = problemBody(problem, requestId)
    const headers = [
      ...problemHeaders(problem, requestId, Buffer.byteLength(body)),
      'Connection',
      'close',
    ]
    const head = `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}\r\n${headLines(headers) ?? ''}`
    socket.end(`${head}${dateLine()}\r\n${body}`)
    const timer = new PatientTimer(lingerMs, () => socket.destroy())
    socket.once('close', () => timer.clear())
  }
}
