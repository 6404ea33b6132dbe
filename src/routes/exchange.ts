import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ClientAddress, ReadClientAddress } from '../client/client-address.ts'
import { headerLines } from '../http/headers.ts'
import { type Problem, problemOf, UpstreamFailure } from '../http/problem.ts'
import { answerProblem, isAnsweredWithProblem } from '../http/problem-response.ts'
import { createRequestIds } from '../http/request-ids.ts'
import { hasBegun, isSent } from '../http/whole-response.ts'
import type { Metrics } from '../metrics/metrics.ts'
import type { Logger } from '../process/logger.ts'
import type { Area, TargetReading } from './area.ts'
import type { RateLimitStanding } from './rate-limit.ts'

/** One request on its way through the gateway. */
export interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly reading: TargetReading
  readonly area: Area
  /** In origin form, as received; empty when there is none that may be used. */
  readonly target: string
  readonly startedAtMs: number
  /** The request id: the caller's if it is fit to be shown and logged, else one of ours. */
  readonly id: string
  readonly callersId: boolean
  /** Whose request it is; read only where it matters. */
  readonly client: ClientAddress
  /** The same, if it mattered so far. */
  readonly clientRead: ClientAddress | undefined
  /** What the routes tell of it, for whoever looks on; nothing is decided by it. */
  cacheStatus: string | undefined
  /** A quote was asked for that memory did not have, whatever came of it. */
  missed: boolean
  upstreamMs: number | undefined
  why: string | undefined
  /** Once it was counted against a rate limit. */
  rateLimit: RateLimitStanding | undefined
}

/** Begins exchanges, and ends those that failed; each is counted and logged once when it is over. */
export interface Exchanges {
  begin(request: IncomingMessage, response: ServerResponse): Exchange
  /** Has it counted and logged once it is over; to be called within the tick that it began in. */
  follow(exchange: Exchange): void
  /** The one place where an error becomes an answer. */
  fail(exchange: Exchange, error: unknown): void
  /** Requests without a complete answer. */
  readonly inFlight: number
  /** Peers that sent a client-address header and are not believed. */
  readonly namedPeers: ReadonlySet<string>
}

export interface ExchangesOptions {
  log: Logger
  metrics: Metrics
  readTarget: (rawTarget: string) => TargetReading
  readClientAddress: ReadClientAddress
  /** Told when an exchange is over; a status of 0 is one that was broken off. */
  onOver?(exchange: Exchange, over: { status: number; durationMs: number }): void
}

const fitId = /^[A-Za-z0-9._~:/+=@-]{1,128}$/
const namedPeersMost = 1_000

export function createExchanges(options: ExchangesOptions): Exchanges {
  const { log, metrics, readTarget, readClientAddress } = options
  const namedPeers = new Set<string>()
  const nextId = createRequestIds()
  let inFlight = 0

  function noteAddress(client: ClientAddress): void {
    if (client.note === undefined) return
    metrics.clientAddressNotes[client.note].inc()
    const peer = client.peer ?? 'unknown'
    if (client.note !== 'untrusted-header' || namedPeers.has(peer) || namedPeers.size >= namedPeersMost)
      return
    namedPeers.add(peer)
    log.warn(
      { peer },
      `${peer} sent ${client.noteHeader} but is not in TRUST_PROXY: all its users look like ${peer} to the provider`,
    )
  }

  class OpenExchange implements Exchange {
    readonly request: IncomingMessage
    readonly response: ServerResponse
    readonly reading: TargetReading
    readonly startedAtMs = performance.now()
    cacheStatus: string | undefined = undefined
    missed = false
    upstreamMs: number | undefined = undefined
    why: string | undefined = undefined
    rateLimit: RateLimitStanding | undefined = undefined
    #followed = false
    #id: string | undefined
    #client: ClientAddress | undefined

    constructor(request: IncomingMessage, response: ServerResponse) {
      this.request = request
      this.response = response
      this.reading = readTarget(request.url ?? '')
      inFlight += 1
      metrics.requestBegan()
    }

    follow(): void {
      if (this.#followed) return
      this.#followed = true
      if (isSent(this.response)) this.#over()
      else this.response.on('close', () => this.#over())
    }

    get area(): Area {
      return 'area' in this.reading ? this.reading.area : 'none'
    }

    get target(): string {
      return 'target' in this.reading ? this.reading.target : ''
    }

    get id(): string {
      if (this.#id === undefined) {
        const received = headerLines(this.request.rawHeaders, 'x-request-id')
        this.#id = received !== undefined && fitId.test(received) ? received : nextId()
      }
      return this.#id
    }

    get callersId(): boolean {
      return this.id === headerLines(this.request.rawHeaders, 'x-request-id')
    }

    get clientRead(): ClientAddress | undefined {
      return this.#client
    }

    get client(): ClientAddress {
      if (this.#client === undefined) {
        this.#client = readClientAddress(this.request.socket.remoteAddress, this.request.rawHeaders)
        noteAddress(this.#client)
      }
      return this.#client
    }

    #over(): void {
      const { response, area, request } = this
      const aborted = !isSent(response)
      const durationMs = performance.now() - this.startedAtMs
      const status = aborted ? 0 : response.statusCode
      inFlight -= 1
      metrics.requestOver({ area, method: request.method ?? '', status, durationMs })
      options.onOver?.(this, { status, durationMs })
      if (!log.isLevelEnabled('debug')) return
      log.debug(
        {
          requestId: this.id,
          area,
          method: request.method,
          path: loggedPath(this),
          status: hasBegun(response) ? response.statusCode : undefined,
          durationMs: Math.round(durationMs * 1000) / 1000,
        },
        aborted ? 'request broken off' : 'request',
      )
    }
  }

  return {
    namedPeers,
    get inFlight() {
      return inFlight
    },
    begin: (request, response) => new OpenExchange(request, response),
    follow(exchange) {
      if (exchange instanceof OpenExchange) exchange.follow()
    },
    fail(exchange, error) {
      const { request, response } = exchange
      // Nobody is left to be told; the request is counted as broken off.
      if (response.destroyed) return
      // Such as the body that a refused client never finishes: its refusal is still being read.
      if (isAnsweredWithProblem(response)) return
      const problem = problemOf(error, request.method ?? '')
      metrics.problems[problem.slug].inc()
      exchange.why = `${problem.slug}: ${problem.detail}`
      logProblem(log, exchange, problem)
      if (hasBegun(response)) {
        // Part of an answer is out: a broken connection is the only honest end (Go's ErrAbortHandler).
        response.destroy()
        return
      }
      answerProblem(request, response, {
        problem,
        requestId: exchange.id,
        fields: exchange.rateLimit?.fields ?? [],
      })
    },
  }
}

/** Without its query on the payments side, where it may hold anything. */
export function loggedPath({ reading, area }: Exchange): string | undefined {
  if (!('target' in reading)) return undefined
  return area === 'quote' || area === 'swap' ? reading.target : reading.path
}

function logProblem(log: Logger, exchange: Exchange, problem: Problem): void {
  const level = problem.status < 500 ? 'info' : problem.slug === 'internal-error' ? 'error' : 'warn'
  if (!log.isLevelEnabled(level)) return
  const failure = problem.cause instanceof UpstreamFailure ? problem.cause : undefined
  log[level](
    {
      requestId: exchange.id,
      area: exchange.area,
      method: exchange.request.method,
      path: loggedPath(exchange),
      status: problem.status,
      problem: problem.slug,
      upstream: failure?.upstream,
      fault: failure?.fault,
      cause: failure === undefined ? problem.cause : failure.cause,
    },
    problem.message,
  )
}
