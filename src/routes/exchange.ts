import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressNote, ClientAddress, ReadClientAddress } from '../client/client-address.ts'
import type { RateLimitStanding } from '../client/rate-limiter.ts'
import { answerProblem, hasBegun, isAnsweredWithProblem, isSent } from '../http/answer.ts'
import { headerLines } from '../http/headers.ts'
import { createRequestIds, traceIdOf } from '../http/ids.ts'
import { type Problem, type ProblemSlug, problemOf } from '../http/problem.ts'
import type { Logger } from '../process/logger.ts'
import type { Span, Tracing } from '../process/span.ts'
import type { SummedLog } from '../process/summed-log.ts'
import { createAddressNotes } from './address-notes.ts'
import type { Area, TargetReading } from './area.ts'
import { logEnd, logProblem } from './exchange-log.ts'
import { endServerSpan } from './server-span.ts'
import { createSlowest, type Slowest } from './slowest.ts'
import type { UpstreamTimes } from './upstream-times.ts'

/** How a request ended: for logs and the console only. */
export type Outcome =
  | { readonly how: 'hit' | 'fetched' | 'collapsed' | 'bypass'; readonly cacheStatus: string }
  | { readonly how: 'order-sent'; readonly why: string }
  | { readonly how: 'problem'; readonly problem: ProblemSlug; readonly why: string }

/** One request on its way through the gateway. */
export interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly reading: TargetReading
  readonly area: Area
  /** In origin form, as received; empty if it cannot be used. */
  readonly target: string
  readonly startedAtMs: number
  /** The client's request id if it may be shown and logged, else one that is made here. */
  readonly id: string
  readonly hasClientsId: boolean
  /** Whose request it is; read when it is first needed, because reading is counted and may warn. */
  readonly client: ClientAddress
  /** The same; undefined if it was not needed so far. */
  readonly clientRead: ClientAddress | undefined
  outcome: Outcome | undefined
  /** A quote that was not in memory, whatever became of the request. */
  missed: boolean
  /** Undefined: it did not ask its upstream, or waits for a call of another request. */
  upstreamTimes: UpstreamTimes | undefined
  /** Undefined: the request is not sampled, or OTEL_EXPORTER_OTLP_ENDPOINT is not set. Decided when it is first needed. */
  readonly span: Span | undefined
  /** Whether OTEL_EXPORTER_OTLP_ENDPOINT is set. */
  readonly isTracing: boolean
  /** Of the trace that the request is in; undefined if it is in none, and none is begun here. */
  readonly traceId: string | undefined
  /** Set once the request was counted against a rate limit. */
  rateLimit: RateLimitStanding | undefined
}

export interface Ended {
  /** 0: the client left, or the answer broke off. */
  status: number
  durationMs: number
}

/** Receives what is to be counted of exchanges. */
export interface ExchangeObserver {
  ended(exchange: Exchange, ended: Ended): void
  problemAnswered(problem: Problem): void
  addressNoted(note: AddressNote): void
}

/** Sees each exchange that ends: for ACCESS_LOG and the console. */
export type ExchangeWatcher = (exchange: Exchange, ended: Ended) => void

export interface Exchanges {
  begin(request: IncomingMessage, response: ServerResponse): Exchange
  /** Counts and logs the exchange when it ends. Must be called in the same tick as `begin`. */
  follow(exchange: Exchange): void
  /** The one place where an error becomes an answer. */
  fail(exchange: Exchange, error: unknown): void
  /** Requests without a complete answer. */
  readonly inFlight: number
  readonly slowest: Pick<Slowest, 'find'>
  /** Peers that sent a client-address header without being trusted proxies. */
  readonly untrustedPeers: ReadonlySet<string>
  /** Trusted proxies that sent another client-address header than CLIENT_IP_HEADER, each with that header. */
  readonly otherHeaderPeers: ReadonlyMap<string, string>
}

export interface ExchangesOptions {
  log: Logger
  /** For the lines of problems, which clients can provoke. */
  summedLog: SummedLog
  watchers: readonly ExchangeWatcher[]
  observer: ExchangeObserver
  readTarget: (rawTarget: string) => TargetReading
  readClientAddress: ReadClientAddress
  /** QUOTE_PARTITION=none. */
  allShareQuotes: boolean
  /** CLIENT_IP_HEADER. */
  clientIpHeader: string
  /** Undefined: nothing is traced. */
  tracing: Tracing | undefined
}

const fitId = /^[A-Za-z0-9._~:/+=@-]{1,128}$/

export function createExchanges(options: ExchangesOptions): Exchanges {
  const { log, summedLog, watchers, observer, readTarget, readClientAddress, tracing } = options
  const addressNotes = createAddressNotes(options)
  const nextId = createRequestIds()
  const slowest = createSlowest()
  let inFlight = 0

  class OpenExchange implements Exchange {
    readonly request: IncomingMessage
    readonly response: ServerResponse
    readonly reading: TargetReading
    readonly startedAtMs = performance.now()
    outcome: Outcome | undefined = undefined
    missed = false
    upstreamTimes: UpstreamTimes | undefined = undefined
    rateLimit: RateLimitStanding | undefined = undefined
    readonly isTracing = tracing !== undefined
    #id: string | undefined
    #hasClientsId = false
    #client: ClientAddress | undefined
    /** null: it is decided that there is none. */
    #span: Span | null | undefined
    #ownTraceId: string | undefined

    constructor(request: IncomingMessage, response: ServerResponse) {
      this.request = request
      this.response = response
      this.reading = readTarget(request.url ?? '')
      inFlight += 1
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
        this.#hasClientsId = received !== undefined && fitId.test(received)
        this.#id = this.#hasClientsId ? received : nextId()
      }
      return this.#id ?? ''
    }

    get hasClientsId(): boolean {
      return this.id !== '' && this.#hasClientsId
    }

    get span(): Span | undefined {
      if (tracing === undefined) return undefined
      if (this.#span === undefined) {
        const { rawHeaders, socket } = this.request
        this.#span = tracing.begin(rawHeaders, socket.remoteAddress, this.startedAtMs) ?? null
      }
      return this.#span ?? undefined
    }

    get traceId(): string | undefined {
      const { span } = this
      if (span !== undefined) return span.traceId
      const received = this.#ownTraceId ?? traceIdOf(this.request.rawHeaders)
      if (received !== undefined || tracing === undefined) return received
      this.#ownTraceId = tracing.unsampledTraceId()
      return this.#ownTraceId
    }

    get clientRead(): ClientAddress | undefined {
      return this.#client
    }

    get client(): ClientAddress {
      if (this.#client === undefined) {
        this.#client = readClientAddress(this.request.socket.remoteAddress, this.request.rawHeaders)
        addressNotes.take(this.#client)
      }
      return this.#client
    }
  }

  function end(exchange: Exchange, wasSent: boolean): void {
    const ended: Ended = {
      status: wasSent ? exchange.response.statusCode : 0,
      durationMs: performance.now() - exchange.startedAtMs,
    }
    inFlight -= 1
    const { span } = exchange
    if (span !== undefined) endServerSpan(span, exchange, ended)
    slowest.note(exchange, ended)
    observer.ended(exchange, ended)
    for (const watch of watchers) watch(exchange, ended)
    if (log.isLevelEnabled('debug')) logEnd(log, exchange, ended)
  }

  const exchanges: Exchanges = {
    slowest,
    untrustedPeers: addressNotes.untrustedPeers,
    otherHeaderPeers: addressNotes.otherHeaderPeers,
    get inFlight() {
      return inFlight
    },
    begin: (request, response) => new OpenExchange(request, response),
    follow(exchange) {
      const { response } = exchange
      if (isSent(response)) end(exchange, true)
      else response.on('close', () => end(exchange, isSent(response)))
    },
    fail(exchange, error) {
      const { request, response } = exchange
      // The client has left; the request is counted as broken off.
      if (response.destroyed) return
      // A later error of the same request, such as a body that a refused client never finishes.
      if (isAnsweredWithProblem(response)) return
      const problem = problemOf(error, request.method ?? '')
      observer.problemAnswered(problem)
      exchange.outcome = { how: 'problem', problem: problem.slug, why: `${problem.slug}: ${problem.detail}` }
      logProblem(summedLog, exchange, problem)
      if (hasBegun(response)) {
        // Part of an answer is sent: only a broken connection shows that it is incomplete (as Go's ErrAbortHandler).
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
  return exchanges
}
