import { createScript } from './script.ts'

/** What is noted in a hash, and when that was by the store's clock. */
export const recallScript = createScript<[storeNowMs: number, notes: Buffer[]]>(
  `
local time = redis.call('TIME')
return {time[1] * 1000 + math.floor(time[2] / 1000), redis.call('HVALS', KEYS[1])}
`,
  isRecall,
)

function isRecall(answer: unknown): boolean {
  if (!Array.isArray(answer)) return false
  const [storeNowMs, notes] = answer
  return Number.isFinite(storeNowMs) && Array.isArray(notes) && notes.every(Buffer.isBuffer)
}

/** Only amounts that share a double meet under one key, so an honest client never fills one. */
export const fieldsMost = 64

/**
 * Keeps ARGV[2] in field ARGV[1] of a hash, unless what is there expires later than ARGV[3]: whichever replica
 * writes last, the latest expiry stays. Then what expired by ARGV[4] goes, and past ARGV[6] fields what expires
 * first. The hash lives ARGV[5] ms from now on, or as long as it would have anyway. ARGV[7] is the provider's
 * time, if known. How far that is behind the store's clock is kept and dropped as a note is, if it is more than
 * two clocks of one machine may differ by.
 */
export const noteScript = createScript(`
local function expiryOf(note) return tonumber(string.match(note, '^%d+') or 0) end
local key, expires = KEYS[1], tonumber(ARGV[3])
local held = redis.call('HGET', key, ARGV[1])
if held and expiryOf(held) > expires then return 0 end
redis.call('HSET', key, ARGV[1], ARGV[2])
if ARGV[7] ~= '' then
  local time = redis.call('TIME')
  local behind = time[1] * 1000 + math.floor(time[2] / 1000) - tonumber(ARGV[7])
  if behind > 100 then redis.call('HSET', key, 'clock', string.format('%s %.0f', ARGV[3], behind)) end
end
if redis.call('HLEN', key) > 1 then
  local all, kept = redis.call('HGETALL', key), {}
  for at = 1, #all, 2 do
    local expiry = expiryOf(all[at + 1])
    if expiry <= tonumber(ARGV[4]) then redis.call('HDEL', key, all[at])
    else kept[#kept + 1] = {all[at], expiry} end
  end
  table.sort(kept, function(left, right) return left[2] > right[2] end)
  for at = tonumber(ARGV[6]) + 1, #kept do redis.call('HDEL', key, kept[at][1]) end
end
if redis.call('PTTL', key) < tonumber(ARGV[5]) then redis.call('PEXPIRE', key, ARGV[5]) end
return 1
`)
