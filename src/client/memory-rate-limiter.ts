import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible'
import { type RateLimiter, type Taken, windowSeconds } from './rate-limiter.ts'

export interface MemoryRateLimiterOptions {
  perMinute: number
  bucketsMost?: number
}

/** About 500 bytes each. */
const bucketsMostByDefault = 50_000

export function createMemoryRateLimiter(options: MemoryRateLimiterOptions): RateLimiter {
  const limiter = new BoundedMemory(options)
  const taken = (allowed: boolean, { remainingPoints, msBeforeNext }: RateLimiterRes): Taken => ({
    allowed,
    remaining: remainingPoints,
    // The wall clock may have been set back since the minute began.
    resetMs: Math.min(Math.max(0, msBeforeNext), windowSeconds * 1_000),
  })
  async function giveBack(bucket: string): Promise<void> {
    const now = await limiter.get(bucket)
    // Where its minute is over, this would begin the next one with a request too many.
    if (now !== null && now.msBeforeNext > 0) await limiter.reward(bucket)
  }
  return {
    perMinute: options.perMinute,
    async take(bucket) {
      try {
        return taken(true, await limiter.consume(bucket))
      } catch (refusal) {
        if (!(refusal instanceof RateLimiterRes)) throw refusal
        // The library counts it. What is refused must not use up what others give back.
        await giveBack(bucket)
        return taken(false, refusal)
      }
    },
    giveBack,
  }
}

/**
 * The library's memory store has no bound, and whoever makes up a new App-Name for each request could fill it.
 * The bucket that was used longest ago goes first: a client at its limit keeps asking, so its own stays.
 */
class BoundedMemory extends RateLimiterMemory {
  readonly #used = new Set<string | number>()
  readonly #bucketsMost: number

  constructor({ perMinute, bucketsMost = bucketsMostByDefault }: MemoryRateLimiterOptions) {
    super({ points: perMinute, duration: windowSeconds, keyPrefix: '' })
    this.#bucketsMost = bucketsMost
  }

  override consume(...parameters: Parameters<RateLimiterMemory['consume']>): Promise<RateLimiterRes> {
    const [bucket] = parameters
    this.#used.delete(bucket)
    this.#used.add(bucket)
    for (const oldest of this.#used) {
      if (this.#used.size <= this.#bucketsMost) break
      this.#used.delete(oldest)
      void this.delete(oldest)
    }
    return super.consume(...parameters)
  }
}
