import { LRUCache } from 'lru-cache'
import type { Span } from '../tracing/observer.ts'

/** What is left of a client's limit after one of its requests was counted. */
export interface Taken {
  allowed: boolean
  remaining: number
  /** When all of it may be used again. */
  resetMs: number
}

/** Limits the requests per minute of each bucket; the minute begins with a bucket's first request. */
export interface RateLimiter {
  readonly perMinute: number
  take(bucket: string): Promise<Taken>
}

/** One that says in a trace that it asks the shared store. */
export interface TracedRateLimiter extends RateLimiter {
  take(bucket: string, span?: Span): Promise<Taken>
}

/** The result of counting one request. */
export interface RateLimitStanding {
  readonly taken: Taken
  /** What its answer says of the limit. */
  readonly fields: readonly string[]
}

export const windowSeconds = 60

interface MemoryRateLimiterOptions {
  perMinute: number
  maxBuckets?: number
}

interface Minute {
  taken: number
  endsAtMs: number
}

/**
 * A fixed window in this process's memory. The number of buckets has a bound, because a client that makes up an
 * App-Name for each request could fill the memory. The bucket used longest ago is dropped first: a client at its
 * limit keeps asking, so its own bucket stays.
 */
export function createMemoryRateLimiter(options: MemoryRateLimiterOptions): RateLimiter {
  const { perMinute, maxBuckets = 50_000 } = options
  const minutes = new LRUCache<string, Minute>({ max: maxBuckets })
  return {
    perMinute,
    async take(bucket) {
      const nowMs = monotonicMs()
      let minute = minutes.get(bucket)
      if (minute === undefined || nowMs >= minute.endsAtMs) {
        minute = { taken: 0, endsAtMs: nowMs + windowSeconds * 1_000 }
        minutes.set(bucket, minute)
      }
      const allowed = minute.taken < perMinute
      if (allowed) minute.taken += 1
      return { allowed, remaining: perMinute - minute.taken, resetMs: minute.endsAtMs - nowMs }
    },
  }
}

/** Not the wall clock: setting that back would lengthen every minute under way. */
function monotonicMs(): number {
  return Math.floor(performance.now())
}
