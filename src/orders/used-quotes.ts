import type { UsedQuote } from '../journal/journal.ts'

/** So many are not used while one of them lives. */
const maxUsed = 10_000

interface Use {
  readonly expiresAtMs: number
  /** The last generation of the journal that has it. */
  generation: number
}

/** Quotes that an order used. They are not handed out again before they expire. */
export class UsedQuotes {
  /** By id, the oldest use first. */
  readonly #uses = new Map<string, Use>()

  /** Returns whether it was not known. */
  mark({ id, expiresAtMs }: UsedQuote, generation = 0): boolean {
    const known = this.#uses.get(id)
    const isNew = known === undefined || expiresAtMs > known.expiresAtMs
    if (!isNew) {
      known.generation = Math.max(known.generation, generation)
      return false
    }
    this.#uses.set(id, { expiresAtMs, generation })
    const [oldest = id] = this.#uses.keys()
    if (this.#uses.size > maxUsed) this.#uses.delete(oldest)
    return true
  }

  /** The same id with a later expiry is a different quote. */
  has({ id, expiresAtMs }: UsedQuote): boolean {
    const use = this.#uses.get(id)
    return use !== undefined && expiresAtMs <= use.expiresAtMs
  }

  /** Those that this generation of the journal has not brought. */
  missing(generation: number): UsedQuote[] {
    return [...this.#uses]
      .filter(([, use]) => use.generation !== generation)
      .map(([id, { expiresAtMs }]) => ({ id, expiresAtMs }))
  }
}
