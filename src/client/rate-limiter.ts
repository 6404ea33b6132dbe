/** Where one client stands after a request of it was counted. */
export interface Taken {
  allowed: boolean
  remaining: number
  /** When all of it may be used again. */
  resetMs: number
}

/** So many requests a minute for each bucket; the minute begins with a bucket's first request. */
export interface RateLimiter {
  readonly perMinute: number
  take(bucket: string): Promise<Taken>
  giveBack(bucket: string): Promise<void>
}

/** How a request stands that was counted against a limit. */
export interface RateLimitStanding {
  readonly allowed: boolean
  readonly bucket: string
  /** What its answer says of the limit. */
  readonly fields: readonly string[]
}

export const windowSeconds = 60
