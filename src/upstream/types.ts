import type { UpstreamFailure, UpstreamFault } from '../http/upstream-failure.ts'
import type { UpstreamName } from '../http/upstreams.ts'
import type { BreakerName, BreakerState, Breakers } from './breakers.ts'
import type { RequestBody } from './request-body.ts'
import type { SlowReaders } from './slow-readers.ts'
import type { Successes } from './successes.ts'
import type { RequestTrace } from './try-trace.ts'

export interface UpstreamLimits {
  connectTimeoutMs: number
  headersTimeoutMs: number
  bodyTimeoutMs: number
  connections: number
  /** How many requests may wait for a connection. */
  queue: number
  retries: number
  breakerFailures: number
  /** How old the first failure in a row has to be before a breaker opens. Default: a second. */
  breakerMinFailingMs?: number
  breakerOpenMs: number
}

/** How a request to an upstream ended. */
export type Outcome = 'answered' | 'failed-status' | 'given-up' | UpstreamFault

/** What a breaker counted: a fault, or the status of an answer. */
export type CountedFailure = UpstreamFault | number

/** The latest failure that a breaker counted. */
export interface LastFailure {
  readonly failure: CountedFailure
  /** From the request to its failure. */
  readonly afterMs: number
}

/** The kinds of requests that fail and stop apart; `rest` is everything that is neither a quote nor creates an order. */
export type Traffic = 'quotes' | 'orders' | 'rest'

/** Counts what happens to the requests of one upstream. */
export interface UpstreamObserver {
  /** `status`: of the answer, if its outcome is `failed-status`. */
  requestEnded(outcome: Outcome, durationMs: number, traffic: Traffic, status: number): void
  retried(): void
  /** `failure`: what the last request that this breaker counted had failed with. */
  breakerChanged(breaker: BreakerName, state: BreakerState, failure?: CountedFailure): void
}

/** What a request to the swap API is. Other upstreams take all of their requests as `other`. */
export type RequestKind =
  | 'float-order'
  /** POST /v3/orders. */
  | 'order'
  | 'other'
  /** A quote, of this pair, by one name for all of its spellings. */
  | { readonly quoteOf: string }

/** What a request counts as. */
export function trafficOf(kind: Exclude<RequestKind, object>): Exclude<Traffic, 'quotes'>
export function trafficOf(kind: RequestKind): Traffic
export function trafficOf(kind: RequestKind): Traffic {
  if (typeof kind === 'object') return 'quotes'
  return kind === 'other' ? 'rest' : 'orders'
}

/** A whole body, which goes out with its length; the pieces of one that goes out in chunks; or one that streams. */
export type SentBody = Buffer | readonly Buffer[] | RequestBody

export interface UpstreamRequest {
  kind: RequestKind
  method: string
  /** The request target as received. The base URL's path is put before it. */
  target: string
  headers: string[]
  body: SentBody | null
  /**
   * By when it must have a connection if it has to wait for one, by `performance.now()`. Undefined: it may wait for one
   * to be free for UPSTREAM_HEADERS_TIMEOUT_MS.
   */
  connectByMs?: number | undefined
  /** Undefined: it is not sampled. */
  trace?: RequestTrace | undefined
}

/** What a handler may do with a request that has its connection. */
export interface RequestControl {
  /** Closes the connection, and calls the handler's `onError` with the reason. */
  abort(reason: Error): void
  /** Reads on after `onData` has returned false. */
  resume(): void
}

/** Receives an answer: header bytes as received, no copies, no promises. */
export interface UpstreamHandler {
  /** Called just before the first byte is written. If it throws, the request is cancelled and not sent. */
  onConnect(control: RequestControl): void
  /** Also called for each interim answer. */
  onHeaders(status: number, rawHeaders: readonly Buffer[], reason: string): void
  /** False: nothing more is read until the handler resumes. */
  onData(chunk: Buffer): boolean
  onComplete(): void
  onError(error: Error): void
}

/** A request that the upstream has accepted. */
export interface InFlightRequest {
  /**
   * Removes the request from the queue if it still waits for a connection, and calls its handler's `onError` with the
   * reason. A request that has its connection is not affected.
   */
  withdraw(reason: Error): void
}

export interface ConnectionCounts {
  readonly busy: number
  readonly idle: number
  /** Requests that wait for a connection. */
  readonly waiting: number
}

/** One upstream: its address, its connections, its timeouts and its breakers. */
export interface Upstream {
  readonly name: UpstreamName
  readonly breakers: Pick<Breakers, 'states' | 'pairs'>
  /** By what failed: connections, or requests that had one. */
  readonly lastFailures: Readonly<Partial<Record<'connections' | Traffic, LastFailure>>>
  readonly successes: Pick<Successes, 'since' | 'quotesOutage'>
  /** How many requests have a connection or wait for one. */
  readonly inFlight: number
  /** Requests that failed so far; one whose client left did not. */
  readonly failures: number
  readonly connections: ConnectionCounts
  readonly slowReaders: Pick<SlowReaders, 'heldUp'>
  /** Why such a request would be refused now, which counts as a refusal; undefined: it would be accepted. */
  refusal(kind: RequestKind, options?: { bodyStreams: boolean }): UpstreamFailure | undefined
  dispatch(request: UpstreamRequest, handler: UpstreamHandler): InFlightRequest
  close(): Promise<void>
}
