import { LRUCache } from 'lru-cache'

/** What is left of a limit after one request was counted. */
export interface Taken {
  allowed: boolean
  remaining: number
  /** How long until the whole limit may be used again. */
  resetMs: number
}

/** Limits the requests of each bucket per minute. A minute begins with the bucket's first request. */
export interface RateLimiter {
  readonly perMinute: number
  take(bucket: string): Promise<Taken>
}

export const windowSeconds = 60

/**
 * A fixed window in this process's memory. The number of buckets is bounded, because made-up App-Names could fill the
 * memory. The least recently used one is dropped: a caller at its limit keeps asking, so its bucket stays.
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
      // Monotonic, because setting the wall clock back would lengthen every minute.
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
