import type { UpstreamFault } from '../http/failure.ts'
import type { UpstreamName } from '../http/upstreams.ts'
import type { RequestBody } from './request-body.ts'
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

/** A request to an upstream that has ended, as listeners may know of it. */
export interface EndedCall {
  readonly upstream: UpstreamName
  readonly traffic: Traffic
  /** Of its answer; 0: there is none. */
  readonly status: number
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
  /**
   * Asked while the request waits for a connection, and for each try just before it is sent. Throws why it is not to be
   * sent any more; else says in how many milliseconds to ask again while it waits.
   */
  decide?(): number
  /** Undefined: it is not sampled. */
  trace?: RequestTrace | undefined
}

/** Receives the answer to a call: header bytes as received, no copies, no promises. */
export interface Receiver {
  /** Called for each try, just before its first byte is written. If it throws, the request is not sent. */
  sent?(): void
  /** Also called for each interim answer. `rawHeaders` and `reason` have a character for each byte. */
  head(status: number, rawHeaders: string[], reason: string): void
  /** False: nothing more is read until the call resumes. */
  data(chunk: Buffer): boolean
  /** Called once, last. `error`: why the answer is not whole, or there is none. */
  ended(error?: Error): void
}

export interface ConnectionCounts {
  readonly busy: number
  readonly idle: number
  /** Requests that wait for a connection. */
  readonly waiting: number
}
