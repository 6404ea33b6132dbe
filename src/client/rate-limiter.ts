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

export const windowSeconds = 60
