import { hash } from 'node:crypto'
import { type RateLimiter, windowSeconds } from '../client/rate-limiter.ts'
import { createScript } from './script.ts'
import type { SharedStore } from './store.ts'

type TakeAnswer = [allowed: number, remaining: number, resetMs: number]

/** Counts one request, up to ARGV[1]. The first request begins a window of ARGV[2] ms. */
const takeScript = createScript<TakeAnswer>(
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
  (answer) =>
    Array.isArray(answer) && answer.length === 3 && answer.every(Number.isSafeInteger),
)

interface SharedRateLimiterOptions {
  sharedStore: Pick<SharedStore, 'keyPrefix' | 'salt' | 'run'>
  /** Counts for this replica alone while the store is down. */
  fallback: RateLimiter
}

/** Counts the requests of all replicas, within the store's deadline. */
export function createSharedRateLimiter({
  sharedStore,
  fallback,
}: SharedRateLimiterOptions): RateLimiter {
  const { keyPrefix, salt } = sharedStore
  const { perMinute } = fallback
  // Hashed, because a bucket may be the address of a user.
  const keyOf = (bucket: string) =>
    `${keyPrefix}limit:${hash('sha256', salt + bucket, 'base64url')}`

  return {
    perMinute,
    async take(bucket) {
      const parameters = [perMinute, windowSeconds * 1_000]
      const answer = await sharedStore.run('rate-limit', (client) =>
        takeScript(client, keyOf(bucket), parameters),
      )
      if (answer === undefined) return fallback.take(bucket)
      const [allowed, remaining, resetMs] = answer
      return { allowed: allowed === 1, remaining, resetMs }
    },
  }
}
