import { createScript } from './script.ts'

/*
 * The store has one hash for a cache key. So each step is one script on one key, even in a Cluster, and a request waits
 * for the store once. Replicas send what is left of a quote. The hash has instants of the store's clock, because all
 * replicas can read it. The fields:
 *   quote        the encoded quote.
 *   expires      the quote's own expiry, by the provider's clock.
 *   servedUntil  until when it is served, by the store's clock.
 *   refusedFrom  from when an order for it is refused, by the store's clock.
 *   lock         the token of the call that is asking the provider now.
 *   lockedUntil  when the lock ends, by the store's clock.
 */

const start = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function liveFor(ms)
  if redis.call('PTTL', KEYS[1]) < ms then redis.call('PEXPIRE', KEYS[1], ms) end
end
`

/** With a quote: how long it may be served, and after how long orders for it are refused. */
type QuoteOrLockReply = [
  now: number,
  quoteOrLock: Buffer,
  serveLeftMs?: number,
  orderLeftMs?: number,
]

/**
 * Returns the quote if it expires after ARGV[1] and may be served for more than ARGV[2] ms. Otherwise returns the
 * lock's token. If the lock was free, token ARGV[3] takes it for ARGV[4] ms.
 */
export const getOrLockScript = createScript<QuoteOrLockReply>(
  `${start}
local quote, expires, served, refused, lock, lockedUntil =
  unpack(redis.call('HMGET', KEYS[1], 'quote', 'expires', 'servedUntil', 'refusedFrom', 'lock', 'lockedUntil'))
if quote and expires and served and refused and tonumber(expires) > tonumber(ARGV[1])
  and served - now > tonumber(ARGV[2]) then
  return {now, quote, served - now, refused - now}
end
if lock and lockedUntil and tonumber(lockedUntil) > now then return {now, lock} end
local lockMs = tonumber(ARGV[4])
if lockMs > 0 then
  redis.call('HSET', KEYS[1], 'lock', ARGV[3], 'lockedUntil', now + lockMs)
  liveFor(lockMs)
end
return {now, ARGV[3]}
`,
  isQuoteOrLock,
)

function isQuoteOrLock(answer: unknown): boolean {
  if (!Array.isArray(answer)) return false
  const [now, quoteOrLock, ...left] = answer
  const isQuoteOrLock = left.length === 2 || left.length === 0
  return (
    isQuoteOrLock && Buffer.isBuffer(quoteOrLock) && [now, ...left].every(Number.isFinite)
  )
}

/**
 * Stores the encoded quote ARGV[1] with its expiry ARGV[2], and releases the lock if its token is ARGV[3]. When this
 * was sent, the quote could be served for ARGV[4] ms, until ARGV[5] by the store's clock or a little earlier. Orders
 * for it were to be refused after ARGV[6] ms. If the command is slow, the quote is still served no longer, and refused
 * no earlier. A live quote with a later expiry stays: its call had the lock after this call had lost it.
 */
export const setScript = createScript(`${start}
local expires, keptUntil = unpack(redis.call('HMGET', KEYS[1], 'expires', 'servedUntil'))
local isNewer = expires and keptUntil and tonumber(expires) > tonumber(ARGV[2]) and tonumber(keptUntil) > now
if not isNewer then
  local served = math.min(tonumber(ARGV[5]), now + ARGV[4])
  redis.call('HSET', KEYS[1], 'quote', ARGV[1], 'expires', ARGV[2],
    'servedUntil', string.format('%.0f', served), 'refusedFrom', string.format('%.0f', now + ARGV[6]))
  liveFor(math.max(served - now, 1))
end
if redis.call('HGET', KEYS[1], 'lock') == ARGV[3] then redis.call('HDEL', KEYS[1], 'lock', 'lockedUntil') end
`)

/** Releases the lock if its token is ARGV[1]. */
export const unlockScript = createScript(`
if redis.call('HGET', KEYS[1], 'lock') == ARGV[1] then redis.call('HDEL', KEYS[1], 'lock', 'lockedUntil') end
`)

/** Removes the quote if its id line is ARGV[1]: another quote may be in its place. */
export const forgetScript = createScript(`
local quote = redis.call('HGET', KEYS[1], 'quote')
if quote and string.sub(quote, 1, #ARGV[1]) == ARGV[1] then
  redis.call('HDEL', KEYS[1], 'quote', 'expires', 'servedUntil', 'refusedFrom')
end
`)
