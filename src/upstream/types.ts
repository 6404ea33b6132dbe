import type { UpstreamFault } from '../http/problem.ts'
import type { UpstreamName } from '../http/upstreams.ts'
import type { Breaker, BreakerState } from './breaker.ts'
import type { RequestBody } from './request-body.ts'

export interface UpstreamLimits {
  connectTimeoutMs: number
  headersTimeoutMs: number
  bodyTimeoutMs: number
  connections: number
  /** Requests that may wait for a connection. */
  queue: number
  retries: number
  breakerFailures: number
  breakerOpenMs: number
}

/** How a request to an upstream ended. */
export type Outcome = 'answered' | 'failed-status' | 'given-up' | UpstreamFault

/** Receives what is to be counted of an upstream. */
export interface UpstreamObserver {
  requestEnded(outcome: Outcome, durationMs: number): void
  retried(): void
  breakerChanged(state: BreakerState): void
}

export interface UpstreamRequest {
  method: string
  /** The request target as received; the base URL's path goes before it. */
  target: string
  headers: string[]
  body: Buffer | RequestBody | null
}

/** undici's raw handler: header bytes as they came, no copies, no promises. */
export interface UpstreamHandler {
  /** Called just before the first byte is written; what it throws cancels the request unsent. */
  onConnect(abort: (reason?: Error) => void): void
  onHeaders(status: number, rawHeaders: Buffer[], resume: () => void, reason: string): boolean
  onData(chunk: Buffer): boolean
  onComplete(): void
  onError(error: Error): void
}

/** A request that was taken. */
export interface UnderWay {
  /** Nobody wants it any more. If it still waits for a connection it leaves the queue, and its handler gets the reason. */
  withdraw(reason: Error): void
}

/** One upstream: its address, its connections, its timeouts and its breaker. */
export interface Upstream {
  readonly name: UpstreamName
  readonly breaker: Breaker
  /** Requests that are under way or wait for a connection. */
  readonly inFlight: number
  /** Requests that failed so far; one whose client left did not. */
  readonly failures: number
  readonly connections: { busy: number; idle: number }
  dispatch(request: UpstreamRequest, handler: UpstreamHandler): UnderWay
  close(): Promise<void>
}
