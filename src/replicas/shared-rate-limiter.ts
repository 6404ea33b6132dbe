import { hash } from 'node:crypto'
import { type RateLimiter, windowSeconds } from '../client/rate-limiter.ts'
import type { SharedStore } from './store.ts'
import { createScript } from './valkey/script.ts'

/**
 * One more, up to ARGV[1]; the first begins ARGV[2] ms. What is refused is not counted, so that whatever is given
 * back is there for the next one.
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

/** One less, if the minute is not over. */
const giveBackScript = createScript(`
local taken = tonumber(redis.call('GET', KEYS[1]))
if not taken then return 0 end
if taken > 0 then redis.call('DECR', KEYS[1]) end
return 1
`)

export interface SharedRateLimiterOptions {
  sharedStore: Pick<SharedStore, 'keyPrefix' | 'salt' | 'run'>
  /** Counts for this replica alone while the store is down. */
  insurance: RateLimiter
}

/** Counts what all replicas let through. Counting has the deadline and the breaker of the store, as every use of it has. */
export function createSharedRateLimiter({ sharedStore, insurance }: SharedRateLimiterOptions): RateLimiter {
  const { keyPrefix, salt, run } = sharedStore
  const { perMinute } = insurance
  // A bucket may be the address of a client.
  const keyOf = (bucket: string) => `${keyPrefix}limit:${hash('sha256', salt + bucket, 'base64url')}`

  return {
    perMinute,
    async take(bucket) {
      const parameters = [perMinute, windowSeconds * 1_000]
      const answer = await run('rate-limit', (client) => takeScript(client, keyOf(bucket), parameters))
      if (answer === undefined) return insurance.take(bucket)
      const [allowed, remaining, resetMs] = answer
      return { allowed: allowed === 1, remaining, resetMs }
    },
    async giveBack(bucket) {
      const answer = await run('rate-limit', (client) => giveBackScript(client, keyOf(bucket), []))
      if (answer === undefined) await insurance.giveBack(bucket)
    },
  }
}
