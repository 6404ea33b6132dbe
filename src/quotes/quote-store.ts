import type { End } from './ends.ts'

/** A cached quote: the upstream's own bytes, and what is needed to serve them and to know whether they have expired. */
export interface StoredQuote {
  readonly id: string
  /** The body as received, one character a byte (latin1). */
  readonly body: string
  /** The upstream's end-to-end headers that a later answer repeats: names and values alternate. */
  readonly headers: readonly string[]
  /** Time from the fetch to the expiry, by our clock. Whole milliseconds, because V8 needs no object for them. */
  readonly lifeMs: number
  /** The quote's own `expiry`, an instant of the provider's clock. */
  readonly expiresAtMs: number
  readonly end: End
}

/**
 * Keeps quotes. The contract, which test/contract/ tests with every store:
 * - `get` returns the quote that `set` last stored under exactly that key, or nothing. It returns expired quotes
 *   too, since only the caller knows the time. A store drops entries to stay within its bounds, never because of time.
 * - `set` replaces. A quote that does not fit is not stored, but the quote under its key is still dropped,
 *   because it is older.
 * - `forget` removes the entry only if it still holds the quote of that id, and says whether it did. A newer
 *   quote under the same key stays.
 * - No method throws: a store that fails behaves like an empty store.
 */
export interface QuoteStore {
  get(key: string): Awaitable<StoredQuote | undefined>
  set(key: string, quote: StoredQuote): Awaitable<unknown>
  forget(key: string, quoteId: string): Awaitable<boolean>
}

type Awaitable<Value> = Value | Promise<Value>
