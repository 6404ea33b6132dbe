import type { Clock } from '../../../src/clock.ts'
import { QuoteCopies } from '../../../src/memory/quote-copies.ts'
import type { SharedStore } from '../../../src/memory/store.ts'
import type { Quote } from '../../../src/quotes/quote.ts'

interface CopyOf {
  store: SharedStore
  clock: Clock
  key?: string
  token?: string
}

/** The copy of a quote in the store, and the lock on it, for a call with this token. */
export function copyOf({ store, clock, key = 'key', token = 'a' }: CopyOf) {
  const copies = new QuoteCopies(store, clock)
  return {
    /** Undefined: the store failed. */
    look: (changes: { expiresAfterMs?: number; lockMs?: number } = {}) =>
      copies.look(key, token, { expiresAfterMs: 0, lockMs: 10_000, ...changes }),
    /** Puts a quote with a later expiry than that in the store. False: it was not put. */
    async put(quote: Quote): Promise<boolean> {
      const wanted = { expiresAfterMs: quote.expiresAtMs, lockMs: 10_000 }
      const seen = await copies.look(key, token, wanted)
      if (seen?.kind !== 'lock') return false
      return copies.put(key, token, { quote, storeAheadMs: seen.storeAheadMs })
    },
    unlock: () => copies.unlock(key, token),
    forget: (id: string) => copies.forget(key, id),
    copies,
    key,
    token,
  }
}
