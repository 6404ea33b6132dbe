import { createScript } from './script.ts'

/*
 * All that the store knows of a key is one hash, so that each step is one command on one key, in a Cluster too,
 * and a request waits for the store once:
 *   quote        the bytes
 *   expires      the quote's own expiry, of the provider's clock
 *   deadline     the same instant by the clock of the store, which is the one clock that all replicas can read
 *   lock         who asks the provider right now: a token that only he knows
 *   lockedUntil  of the store's clock
 *   used         the ids of quotes that were evicted, the last first, each between line breaks
 *   usedUntil    the latest expiry among them: what expires later is another quote under an id that comes again
 */

const start = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function liveFor(ms)
  if redis.call('PTTL', KEYS[1]) < ms then redis.call('PEXPIRE', KEYS[1], ms) end
end
`

/**
 * The quote, if it expires after ARGV[1] and has more than ARGV[2] left, and is not that of ARGV[3]; else who has
 * the lock, which is ARGV[4] for ARGV[5] ms if nobody had it.
 */
export const lookScript = createScript<[now: number, quoteOrLock: Buffer, leftMs?: number]>(
  `${start}
local quote, expires, deadline, lock, lockedUntil =
  unpack(redis.call('HMGET', KEYS[1], 'quote', 'expires', 'deadline', 'lock', 'lockedUntil'))
if quote and tonumber(expires) > tonumber(ARGV[1]) and deadline - now > tonumber(ARGV[2])
  and (ARGV[3] == '' or string.sub(quote, 1, #ARGV[3]) ~= ARGV[3]) then
  return {now, quote, deadline - now}
end
if lock and tonumber(lockedUntil) > now then return {now, lock} end
local lockMs = tonumber(ARGV[5])
if lockMs > 0 then
  redis.call('HSET', KEYS[1], 'lock', ARGV[4], 'lockedUntil', now + lockMs)
  liveFor(lockMs)
end
return {now, ARGV[4]}
`,
  isLook,
)

function isLook(answer: unknown): boolean {
  if (!Array.isArray(answer)) return false
  const [now, quoteOrLock, leftMs = 0] = answer
  return Number.isFinite(now) && Buffer.isBuffer(quoteOrLock) && Number.isFinite(leftMs)
}

/** Keeps ARGV[2] unless it is used, until ARGV[4] and a little; then the lock goes, if it is that of ARGV[6]. */
export const setScript = createScript(`${start}
local used, usedUntil = unpack(redis.call('HMGET', KEYS[1], 'used', 'usedUntil'))
local refused = used and string.find(used, '\\n' .. ARGV[1], 1, true)
  and not (usedUntil and tonumber(ARGV[3]) > tonumber(usedUntil))
if not refused then
  redis.call('HSET', KEYS[1], 'quote', ARGV[2], 'expires', ARGV[3], 'deadline', ARGV[4])
  liveFor(math.max(ARGV[4] - now, 0) + tonumber(ARGV[5]))
end
if redis.call('HGET', KEYS[1], 'lock') == ARGV[6] then redis.call('HDEL', KEYS[1], 'lock', 'lockedUntil') end
return refused and 0 or 1
`)

export const releaseScript = createScript(`
if redis.call('HGET', KEYS[1], 'lock') == ARGV[1] then redis.call('HDEL', KEYS[1], 'lock', 'lockedUntil') end
`)

/**
 * Removes the quote if it is that of ARGV[1], refuses it for ARGV[2] ms from now on, and tells all replicas. ARGV[5] is
 * when it expires; where that is not known, and it is not here either, every quote of its id is refused.
 */
export const forgetScript = createScript(`${start}
local quote, expires, used, usedUntil =
  unpack(redis.call('HMGET', KEYS[1], 'quote', 'expires', 'used', 'usedUntil'))
local held = quote and string.sub(quote, 1, #ARGV[1]) == ARGV[1]
local expiry = tonumber(ARGV[5]) or (held and tonumber(expires)) or 9e15
redis.call('HSET', KEYS[1], 'usedUntil', string.format('%.0f', math.max(expiry, tonumber(usedUntil) or 0)))
if held then redis.call('HDEL', KEYS[1], 'quote', 'expires', 'deadline') end
used = used or '\\n'
if not string.find(used, '\\n' .. ARGV[1], 1, true) then
  redis.call('HSET', KEYS[1], 'used', string.sub('\\n' .. ARGV[1] .. string.sub(used, 2), 1, 4096))
end
liveFor(tonumber(ARGV[2]))
redis.call('PUBLISH', ARGV[3], ARGV[4])
return held and 1 or 0
`)
