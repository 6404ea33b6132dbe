import { randomBytes } from 'node:crypto'
import { systemTimers } from '../clock.ts'
import { createScript } from './script.ts'
import type { SharedStore } from './store.ts'
import { WriteQueue } from './write-queue.ts'

/** A value begins with the token of its claim. */
const tokenLength = 22

/**
 * Claims a free key with the value ARGV[1], for ARGV[2] ms; without a value it stays free. For a used key, returns its
 * text and what is left of its time. If a connection ends, the client of a Cluster runs this again, perhaps after the
 * outcome was written.
 */
const claimScript = createScript<[text: Buffer, leftMs: number] | null>(
  `
local kept = redis.call('GET', KEYS[1])
if kept and string.sub(kept, 1, ${tokenLength}) ~= string.sub(ARGV[1], 1, ${tokenLength}) then
  return {string.sub(kept, ${tokenLength + 1}), redis.call('PTTL', KEYS[1])}
end
if not kept and ARGV[1] ~= '' then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) end
return false
`,
  (answer) => answer === null || (Array.isArray(answer) && Buffer.isBuffer(answer[0])),
)

/**
 * Replaces the value of a key by ARGV[2], unless its claim has another token than ARGV[1]. Without ARGV[2] it is
 * removed.
 */
const settleScript = createScript(`
local kept = redis.call('GET', KEYS[1])
if kept and string.sub(kept, 1, ${tokenLength}) ~= ARGV[1] then return 0 end
if ARGV[2] == '' then return redis.call('DEL', KEYS[1]) end
local leftMs = redis.call('PTTL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[2], 'PX', leftMs > 0 and leftMs or ARGV[3])
return 1
`)

const retryAfterMs = 1_000
/** The length of all outcomes that wait for the store. If one is dropped, the store says unknown for its key. */
const maxUnsettledLength = 8_388_608
/** The length of all outcomes that are sent again at once: a store that is back must not keep callers waiting. */
const maxRetriedLength = 262_144

interface Outcome {
  readonly id: string
  readonly token: string
  /** Undefined: the key is free again. */
  readonly text: string | undefined
}

/** The keys of orders in the shared store. If two replicas claim the same key, one of them gets it. */
export class SharedOrderKeys {
  readonly #store: Pick<SharedStore, 'keyPrefix' | 'insist'>
  readonly #keptForMs: number
  /** The token of each key claimed here: a late answer to an earlier claim must not change a newer one. */
  readonly #tokens = new Map<string, string>()
  readonly #outcomes: WriteQueue<Outcome>

  constructor(
    store: Pick<SharedStore, 'keyPrefix' | 'insist'>,
    keptForMs: number,
    timers = systemTimers,
  ) {
    this.#store = store
    this.#keptForMs = keptForMs
    this.#outcomes = new WriteQueue({
      timers,
      maxSize: maxUnsettledLength,
      maxInFlight: maxRetriedLength,
      retryAfterMs,
      sizeOf: lengthOf,
      send: (outcome) => this.#tell(outcome),
    })
  }

  async claim(
    id: string,
    text: string,
  ): Promise<{ text: string; ageMs: number } | undefined> {
    const token = randomBytes(16).toString('base64url')
    this.#tokens.set(id, token)
    const found = await this.#ask(id, token + text)
    if (found !== undefined) this.#tokens.delete(id)
    return found
  }

  find(id: string): Promise<{ text: string; ageMs: number } | undefined> {
    return this.#ask(id, '')
  }

  async #ask(
    id: string,
    value: string,
  ): Promise<{ text: string; ageMs: number } | undefined> {
    const found = await this.#store.insist('key-claim', (client) =>
      claimScript(client, this.#keyOf(id), [value, this.#keptForMs]),
    )
    if (!found) return undefined
    const [kept, leftMs] = found
    return { text: kept.toString(), ageMs: this.#keptForMs - leftMs }
  }

  async settle(id: string, text: string | undefined): Promise<void> {
    const token = this.#tokens.get(id)
    if (token === undefined) return
    this.#tokens.delete(id)
    await this.#outcomes.put({ id, token, text })
  }

  async close(): Promise<void> {
    this.#outcomes.close()
  }

  /** Returns whether the store has the outcome. */
  async #tell({ id, token, text }: Outcome): Promise<boolean> {
    const parameters = [token, text === undefined ? '' : token + text, this.#keptForMs]
    const settled = await this.#store.insist('key-settle', (client) =>
      settleScript(client, this.#keyOf(id), parameters),
    )
    return settled !== undefined
  }

  #keyOf(id: string): string {
    return `${this.#store.keyPrefix}order:${id}`
  }
}

function lengthOf({ text = '' }: Outcome): number {
  return text.length + tokenLength
}
