import { type Clock, lookAt } from '../clock.ts'
import { type Hold, type Holds, isLater, keyOf } from './holds.ts'
import { decodeHold, encodeHold } from './records.ts'
import { createScript } from './script.ts'
import type { SharedStore } from './store.ts'

type HoldsReply = [storeNowMs: number, ...fieldsAndTexts: Buffer[]]

/** Returns the whole hash, and the time of the store's clock. */
const readScript = createScript<HoldsReply>(
  `
local time = redis.call('TIME')
local reply = {time[1] * 1000 + math.floor(time[2] / 1000)}
for _, text in ipairs(redis.call('HGETALL', KEYS[1])) do reply[#reply + 1] = text end
return reply
`,
  (answer) => Array.isArray(answer) && Number.isFinite(answer[0]),
)

/** Sets each field ARGV[1] that still has the text ARGV[2] to ARGV[3]. An empty ARGV[3] removes it. */
const writeScript = createScript<number>(
  `
local written = 0
for at = 1, #ARGV - 3, 3 do
  if (redis.call('HGET', KEYS[1], ARGV[at]) or '') == ARGV[at + 1] then
    if ARGV[at + 2] == '' then redis.call('HDEL', KEYS[1], ARGV[at])
    else redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 2]) end
    written = written + 1
  end
end
return written
`,
  Number.isFinite,
)

/** Changes a field of the hash, if it still has the text `before`. Empty: no such field. */
interface Change {
  readonly field: string
  readonly before: string
  readonly after: string
}

type HoldStore = Pick<SharedStore, 'run' | 'insist' | 'up'>

/** Other replicas may write at the same time. */
const maxTries = 3

/** The holds of all replicas: a hash in the shared store, with a field for each scope. */
export class SharedHolds {
  readonly #store: HoldStore
  readonly #key: string
  readonly #clock: Clock

  constructor(store: HoldStore, key: string, clock: Clock) {
    this.#store = store
    this.#key = key
    this.#clock = clock
  }

  async exchange(holds: Holds, insists: boolean): Promise<boolean> {
    const store = this.#store
    if (!insists && !store.up) return false
    const how = insists ? 'insist' : 'run'
    for (let tries = 0; tries < maxTries; tries += 1) {
      const found = await store[how]('hold-read', (client) =>
        readScript(client, this.#key, []),
      )
      if (found === undefined) return false
      const changes = this.#compare(holds, found)
      if (changes.length === 0) return true
      const parameters = changes.flatMap(({ field, before, after }) => [
        field,
        before,
        after,
      ])
      const written = await store[how]('hold-write', (client) =>
        writeScript(client, this.#key, parameters),
      )
      if (written === undefined) return false
      if (written === changes.length) return true
    }
    return false
  }

  #compare(holds: Holds, [storeNowMs, ...fieldsAndTexts]: HoldsReply): Change[] {
    const now = lookAt(this.#clock)
    const texts = new Map<string, string>()
    const known = new Map<string, Hold>()
    for (let at = 0; at + 1 < fieldsAndTexts.length; at += 2) {
      const field = String(fieldsAndTexts[at])
      const text = String(fieldsAndTexts[at + 1])
      texts.set(field, text)
      const hold = decodeHold(text, now, storeNowMs)
      if (hold !== undefined && keyOf(hold) === field) known.set(field, hold)
    }
    for (const hold of known.values()) void holds.take(hold)
    const later = holds.live().filter((hold) => {
      const there = known.get(keyOf(hold))
      return there === undefined || isLater(hold, there)
    })
    const over = [...known].filter(([, { keptSteadyMs }]) => keptSteadyMs <= now.steadyMs)
    const before = (field: string) => texts.get(field) ?? ''
    return [
      ...over.map(([field]) => ({ field, before: before(field), after: '' })),
      ...later.map((hold) => {
        const field = keyOf(hold)
        const after = encodeHold(hold, { ...now, nowMs: storeNowMs })
        return { field, before: before(field), after }
      }),
    ]
  }
}
