import { hash } from 'node:crypto'
import { type RateLimiter, windowSeconds } from '../client/rate-limiter.ts'
import type { SharedStore } from './store.ts'
import { createScript } from './valkey/script.ts'

/**
 * Counts one request, up to ARGV[1]. The first request begins a window of ARGV[2] ms. A refused request is not counted,
 * or it would use up what other requests give back.
 */
const takeScript = createScript<[allowed: number, remaining: number, resetMs: number]>(
  `
local leftMs = redis.call('PTTL', KEYS[1])
local taken = leftMs >= 0 and tonumber(redis.call('GET', KEYS[1]))
if not taken then
  redis.call('SET', KEYS[1], 1, 'PX', ARGV[2])
  return {1, ARGV[1] - 1, tonumber(ARGV[2])}
end
if taken >= tonumber(ARGV[1]) then return {0, 0, leftMs} end
return {1, ARGV[1] - redis.call('INCR', KEYS[1]), leftMs}
`,
  (answer) => Array.isArray(answer) && answer.length === 3 && answer.every(Number.isSafeInteger),
)

/** Counts one request less, unless its window is over. */
const giveBackScript = createScript(`
local taken = tonumber(redis.call('GET', KEYS[1]))
if not taken then return 0 end
if taken > 0 then redis.call('DECR', KEYS[1]) end
return 1
`)

export interface SharedRateLimiterOptions {
  sharedStore: Pick<SharedStore, 'keyPrefix' | 'salt' | 'run'>
  /** Counts for this replica alone while the store is down. */
  fallback: RateLimiter
}

/** Counts the requests that all replicas let through. The store's deadline and breaker apply. */
export function createSharedRateLimiter({ sharedStore, fallback }: SharedRateLimiterOptions): RateLimiter {
  const { keyPrefix, salt, run } = sharedStore
  const { perMinute } = fallback
  // Hashed, because a bucket may be the address of a client.
  const keyOf = (bucket: string) => `${keyPrefix}limit:${hash('sha256', salt + bucket, 'base64url')}`

  return {
    perMinute,
    async take(bucket) {
      const parameters = [perMinute, windowSeconds * 1_000]
      const answer = await run('rate-limit', (client) => takeScript(client, keyOf(bucket), parameters))
      if (answer === undefined) return fallback.take(bucket)
      const [allowed, remaining, resetMs] = answer
      return { allowed: allowed === 1, remaining, resetMs }
    },
    async giveBack(bucket) {
      const answer = await run('rate-limit', (client) => giveBackScript(client, keyOf(bucket), []))
      if (answer === undefined) await fallback.giveBack(bucket)
    },
  }
}
