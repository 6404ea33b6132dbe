import { createScript } from './script.ts'

/** Reads all notes of a hash, and the time of the store's clock. */
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

/** As many as the ledger itself keeps. */
export const maxFields = 64

/**
 * Stores a note in field ARGV[1] of a hash: its expiry ARGV[3], the store's time and its members ARGV[2], unless the
 * field's note expires later than ARGV[3]: whichever replica writes last, the latest expiry stays. Then removes notes
 * that expired by ARGV[4]; and, if more than ARGV[6] fields are left, those that expire first. The hash is kept for
 * ARGV[5] ms, or longer if its TTL is longer.
 */
export const noteScript = createScript(`
local function expiryOf(note) return tonumber(string.match(note, '^%d+') or 0) end
local key, expires = KEYS[1], tonumber(ARGV[3])
local held = redis.call('HGET', key, ARGV[1])
if held and expiryOf(held) > expires then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', key, ARGV[1], string.format('%s %.0f %s', ARGV[3], now, ARGV[2]))
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
