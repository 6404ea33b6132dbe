import { hash } from 'node:crypto'
import { type RateLimiter, type TracedRateLimiter, windowSeconds } from '../client/rate-limiter.ts'
import { createScript } from './script.ts'
import type { SharedStore } from './store.ts'

type TakeAnswer = [allowed: number, remaining: number, resetMs: number, endsAtMs: number]

/**
 * Counts one request, up to ARGV[1]. The first request begins a window of ARGV[2] ms. A refused request is not counted,
 * or it would use up what other requests give back. A window is identified by the instant at which its key expires.
 */
const takeScript = createScript<TakeAnswer>(
  `
local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local leftMs = redis.call('PTTL', KEYS[1])
local taken = leftMs >= 0 and tonumber(redis.call('GET', KEYS[1]))
if not taken then
  redis.call('SET', KEYS[1], 1, 'PX', ARGV[2])
  return {1, ARGV[1] - 1, tonumber(ARGV[2]), nowMs + ARGV[2]}
end
if taken >= tonumber(ARGV[1]) then return {0, 0, leftMs, nowMs + leftMs} end
return {1, ARGV[1] - redis.call('INCR', KEYS[1]), leftMs, nowMs + leftMs}
`,
  (answer) => Array.isArray(answer) && answer.length === 4 && answer.every(Number.isSafeInteger),
)

/**
 * Counts one request less in the window that ends at ARGV[1]. Another window never ends within 10 ms of it, and servers
 * read TIME and PTTL up to a millisecond apart.
 */
const giveBackScript = createScript(`
local taken = tonumber(redis.call('GET', KEYS[1]))
if not taken then return 0 end
local time = redis.call('TIME')
local endsAtMs = time[1] * 1000 + math.floor(time[2] / 1000) + redis.call('PTTL', KEYS[1])
if math.abs(endsAtMs - ARGV[1]) > 10 then return 0 end
if taken > 0 then redis.call('DECR', KEYS[1]) end
return 1
`)

export interface SharedRateLimiterOptions {
  sharedStore: Pick<SharedStore, 'keyPrefix' | 'salt' | 'run'>
  /** Counts for this replica alone while the store is down. */
  fallback: RateLimiter
}

/** Counts the requests that all replicas let through. The store's deadline and breaker apply. */
export function createSharedRateLimiter({
  sharedStore,
  fallback,
}: SharedRateLimiterOptions): TracedRateLimiter {
  const { keyPrefix, salt } = sharedStore
  const { perMinute } = fallback
  // Hashed, because a bucket may be the address of a client.
  const keyOf = (bucket: string) => `${keyPrefix}limit:${hash('sha256', salt + bucket, 'base64url')}`

  return {
    perMinute,
    async take(bucket, span) {
      const parameters = [perMinute, windowSeconds * 1_000]
      const answer = await sharedStore.run(
        'rate-limit',
        (client) => takeScript(client, keyOf(bucket), parameters),
        span,
      )
      if (answer === undefined) return fallback.take(bucket)
      const [allowed, remaining, resetMs, endsAtMs] = answer
      return { allowed: allowed === 1, remaining, resetMs, counted: endsAtMs }
    },
    async giveBack(bucket, taken, span) {
      const { counted } = taken
      if (typeof counted !== 'number') return fallback.giveBack(bucket, taken)
      // While the store is down, its counter keeps what it counted: this replica's own counter has not counted it.
      await sharedStore.run('rate-limit', (client) => giveBackScript(client, keyOf(bucket), [counted]), span)
    },
  }
}
