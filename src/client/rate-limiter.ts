import type { Span } from '../tracing/observer.ts'

/** What is left of a client's limit after one of its requests was counted. */
export interface Taken {
  allowed: boolean
  remaining: number
  /** When all of it may be used again. */
  resetMs: number
  /** Which counter and minute it is in. Only the limiter reads it, when the request is given back. */
  counted?: unknown
}

/** Limits the requests per minute of each bucket; the minute begins with a bucket's first request. */
export interface RateLimiter {
  readonly perMinute: number
  take(bucket: string): Promise<Taken>
  /** `taken`: what `take` resolved with for that request. Nothing is given back to another minute or another counter. */
  giveBack(bucket: string, taken: Taken): Promise<void>
}

/** One that says in a trace that it asks the shared store. */
export interface TracedRateLimiter extends RateLimiter {
  take(bucket: string, span?: Span): Promise<Taken>
  giveBack(bucket: string, taken: Taken, span?: Span): Promise<void>
}

/** The result of counting one request. */
export interface RateLimitStanding {
  readonly taken: Taken
  readonly bucket: string
  /** A call for the request reached the upstream: a further call that does not gives nothing back. */
  isSpent: boolean
  /** What its answer says of the limit. */
  readonly fields: readonly string[]
}

export const windowSeconds = 60
