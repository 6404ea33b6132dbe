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

/** The result of counting one request. */
export interface RateLimitStanding {
  readonly allowed: boolean
  /** What its answer says of the limit. */
  readonly fields: readonly string[]
}

export const windowSeconds = 60
