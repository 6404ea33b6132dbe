import { randomBytes } from 'node:crypto'
import { createScript } from './script.ts'
import type { SharedStore } from './store.ts'

/** A value begins with the token of the process that claimed the key. */
const tokenLength = 22

/**
 * Claims a free key with the value ARGV[1], for ARGV[2] ms. Of a key that is not free: its text, and what is left of its
 * time.
 */
const claimScript = createScript<[text: Buffer, leftMs: number] | null>(
  `
local kept = redis.call('GET', KEYS[1])
if kept then return {string.sub(kept, ${tokenLength + 1}), redis.call('PTTL', KEYS[1])} end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return false
`,
  (answer) => answer === null || (Array.isArray(answer) && Buffer.isBuffer(answer[0])),
)

/**
 * Replaces the value of a key that is still the claim of token ARGV[1], or is lost. Without a value ARGV[2] it is
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
/** Of outcomes that did not reach the store. The keys of the others have no known outcome there. */
const maxUnsettled = 1_000

/** The keys of orders, where all replicas find them. Of two replicas that claim one, one gets it. */
export class SharedOrderKeys {
  readonly #store: Pick<SharedStore, 'keyPrefix' | 'insist'>
  readonly #keptForMs: number
  readonly #token = randomBytes(16).toString('base64url')
  /** Outcomes of keys that the store has as claimed. */
  readonly #unsettled = new Map<string, string | undefined>()

  constructor(store: Pick<SharedStore, 'keyPrefix' | 'insist'>, keptForMs: number) {
    this.#store = store
    this.#keptForMs = keptForMs
  }

  async claim(id: string, text: string): Promise<{ text: string; ageMs: number } | undefined> {
    const parameters = [this.#token + text, this.#keptForMs]
    const found = await this.#store.insist('key-claim', (client) =>
      claimScript(client, this.#keyOf(id), parameters),
    )
    if (!found) return undefined
    const [kept, leftMs] = found
    return { text: kept.toString(), ageMs: this.#keptForMs - leftMs }
  }

  async settle(id: string, text: string | undefined): Promise<void> {
    if (await this.#settle(id, text)) return
    this.#unsettled.set(id, text)
    const [oldest = id] = this.#unsettled.keys()
    if (this.#unsettled.size > maxUnsettled) this.#unsettled.delete(oldest)
    else if (this.#unsettled.size === 1) this.#retryLater()
  }

  async #settle(id: string, text: string | undefined): Promise<boolean> {
    const value = text === undefined ? '' : this.#token + text
    const parameters = [this.#token, value, this.#keptForMs]
    const settled = await this.#store.insist('key-settle', (client) =>
      settleScript(client, this.#keyOf(id), parameters),
    )
    return settled !== undefined
  }

  #retryLater(): void {
    setTimeout(async () => {
      for (const [id, text] of this.#unsettled) {
        if (!(await this.#settle(id, text))) break
        if (this.#unsettled.get(id) === text) this.#unsettled.delete(id)
      }
      if (this.#unsettled.size > 0) this.#retryLater()
    }, retryAfterMs).unref()
  }

  #keyOf(id: string): string {
    return `${this.#store.keyPrefix}order:${id}`
  }
}
