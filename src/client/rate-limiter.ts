import { LRUCache } from 'lru-cache'

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

export const windowSeconds = 60

/**
 * A fixed window in this process's memory. The number of buckets has a bound, because a client that makes up an
 * App-Name for each request could fill the memory. The bucket used longest ago is dropped first: a client at its
 * limit keeps asking, so its own bucket stays.
 */
export function createMemoryRateLimiter(
  perMinute: number,
  maxBuckets = 50_000,
): RateLimiter {
  const minutes = new LRUCache<string, { taken: number; endsAtMs: number }>({
    max: maxBuckets,
  })
  return {
    perMinute,
    async take(bucket) {
      // Not the wall clock: setting that back would lengthen every minute under way.
      const nowMs = Math.floor(performance.now())
      let minute = minutes.get(bucket)
      if (minute === undefined || nowMs >= minute.endsAtMs) {
        minute = { taken: 0, endsAtMs: nowMs + windowSeconds * 1_000 }
        minutes.set(bucket, minute)
      }
      const allowed = minute.taken < perMinute
      if (allowed) minute.taken += 1
      return {
        allowed,
        remaining: perMinute - minute.taken,
        resetMs: minute.endsAtMs - nowMs,
      }
    },
  }
}
