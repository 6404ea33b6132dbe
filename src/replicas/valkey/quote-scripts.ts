import { createScript } from './script.ts'

/*
 * All that the store has for a cache key is one hash. So each step is one script on one key, in a Cluster too, and a
 * request waits for the store once. The fields:
 *   quote        the encoded quote
 *   expires      the quote's own expiry, by the provider's clock
 *   deadline     the same instant by the store's clock, the one clock that all replicas can read
 *   ends         between which instants the quote ends, by the store's clock, as its own answer tells; and of which quote
 *                that is, because a version that does not know this field leaves it beside its own quote
 *   lock         the token of the call that is asking the provider now
 *   lockedUntil  when the lock ends, by the store's clock
 *   used         the ids of evicted quotes, the latest first, each between line breaks
 *   usedUntil    the latest expiry among the evicted quotes; a quote that expires later is a new quote with a known id
 */

const start = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function liveFor(ms)
  if redis.call('PTTL', KEYS[1]) < ms then redis.call('PEXPIRE', KEYS[1], ms) end
end
`

/** What follows the two instants in `ends`. */
const endsOf = `
local function endsOf(quote, expires) return expires .. ' ' .. (string.match(quote, '^[^\\n]*\\n') or '') end
`

/**
 * Returns the quote if it expires after ARGV[1], has more than ARGV[2] ms left, and does not begin with the id line
 * ARGV[3]; with it, what is left of it, and until the two instants between which it ends. Otherwise returns the lock's
 * token. If the lock was free, token ARGV[4] takes it for ARGV[5] ms.
 */
export const getOrLockScript = createScript<QuoteOrLockReply>(
  `${start}${endsOf}
local quote, expires, deadline, ends, lock, lockedUntil =
  unpack(redis.call('HMGET', KEYS[1], 'quote', 'expires', 'deadline', 'ends', 'lock', 'lockedUntil'))
if quote and tonumber(expires) > tonumber(ARGV[1]) and deadline - now > tonumber(ARGV[2])
  and (ARGV[3] == '' or string.sub(quote, 1, #ARGV[3]) ~= ARGV[3]) then
  local from, till, of = string.match(ends or '', '^(%-?%d+) (%-?%d+) (.*)$')
  if of ~= endsOf(quote, expires) then return {now, quote, deadline - now} end
  return {now, quote, deadline - now, from - now, till - now}
end
if lock and tonumber(lockedUntil) > now then return {now, lock} end
local lockMs = tonumber(ARGV[5])
if lockMs > 0 then
  redis.call('HSET', KEYS[1], 'lock', ARGV[4], 'lockedUntil', now + lockMs)
  liveFor(lockMs)
end
return {now, ARGV[4]}
`,
  isQuoteOrLock,
)

/** With a quote: what is left of it by its deadline, and until the two instants between which it ends. */
export type QuoteOrLockReply = [
  now: number,
  quoteOrLock: Buffer,
  leftMs?: number,
  fromLeftMs?: number,
  untilLeftMs?: number,
]

function isQuoteOrLock(answer: unknown): boolean {
  if (!Array.isArray(answer)) return false
  const [now, quoteOrLock, ...left] = answer
  return Number.isFinite(now) && Buffer.isBuffer(quoteOrLock) && left.every(Number.isFinite)
}

/**
 * Stores the encoded quote ARGV[2] until ARGV[5] ms past its deadline ARGV[4], unless its id line ARGV[1] was evicted
 * with an expiry no earlier than ARGV[3]. Then releases the lock if its token is ARGV[6]. Returns 0 for an evicted
 * quote. The quote ends between ARGV[8] and ARGV[9] ms after this was sent; ARGV[7] is the first of these instants by the
 * store's clock, or earlier. Whatever this took on its way, the start is kept no later than it is, and the end no earlier.
 */
export const setScript = createScript(`${start}${endsOf}
local used, usedUntil = unpack(redis.call('HMGET', KEYS[1], 'used', 'usedUntil'))
local refused = used and string.find(used, '\\n' .. ARGV[1], 1, true)
  and not (usedUntil and tonumber(ARGV[3]) > tonumber(usedUntil))
if not refused then
  redis.call('HSET', KEYS[1], 'quote', ARGV[2], 'expires', ARGV[3], 'deadline', ARGV[4])
  redis.call('HDEL', KEYS[1], 'ends')
  local from = math.min(tonumber(ARGV[7]), now + ARGV[8])
  redis.call('HSET', KEYS[1], 'ends', string.format('%.0f %.0f ', from, now + ARGV[9]) .. endsOf(ARGV[2], ARGV[3]))
  liveFor(math.max(ARGV[4] - now, 0) + tonumber(ARGV[5]))
end
if redis.call('HGET', KEYS[1], 'lock') == ARGV[6] then redis.call('HDEL', KEYS[1], 'lock', 'lockedUntil') end
return refused and 0 or 1
`)

/** Releases the lock if its token is ARGV[1]. */
export const unlockScript = createScript(`
if redis.call('HGET', KEYS[1], 'lock') == ARGV[1] then redis.call('HDEL', KEYS[1], 'lock', 'lockedUntil') end
`)

/**
 * Removes the quote with id line ARGV[1], refuses that quote for ARGV[2] ms, and publishes message ARGV[4] on channel
 * ARGV[3] for all replicas. ARGV[5] is the quote's expiry, or empty if unknown. If it is unknown and the quote is not in
 * the store, every quote with this id is refused. Returns 1 if the quote was in the store.
 */
export const evictScript = createScript(`${start}
local quote, expires, used, usedUntil =
  unpack(redis.call('HMGET', KEYS[1], 'quote', 'expires', 'used', 'usedUntil'))
local held = quote and string.sub(quote, 1, #ARGV[1]) == ARGV[1]
local expiry = tonumber(ARGV[5]) or (held and tonumber(expires)) or 9e15
redis.call('HSET', KEYS[1], 'usedUntil', string.format('%.0f', math.max(expiry, tonumber(usedUntil) or 0)))
if held then redis.call('HDEL', KEYS[1], 'quote', 'expires', 'deadline', 'ends') end
used = used or '\\n'
if not string.find(used, '\\n' .. ARGV[1], 1, true) then
  redis.call('HSET', KEYS[1], 'used', string.sub('\\n' .. ARGV[1] .. string.sub(used, 2), 1, 4096))
end
liveFor(tonumber(ARGV[2]))
redis.call('PUBLISH', ARGV[3], ARGV[4])
return held and 1 or 0
`)
