/** A quote as it is kept: the upstream's own bytes, with what is needed to serve them and to judge their time. */
export interface StoredQuote {
  readonly id: string
  /** The body as received, one character a byte (latin1). */
  readonly body: string
  /** The upstream's end-to-end headers that a later answer repeats: names and values in turn. */
  readonly headers: readonly string[]
  /** How long it had to live when it was fetched, by our clock: in whole milliseconds, which take no memory. */
  readonly lifeMs: number
  /** The provider's clock: the quote's own `expiry`. */
  readonly expiresAtMs: number
}

/**
 * Where quotes are kept. The contract, which test/contract/ holds every store to:
 * - `get` gives back what `set` was last given under exactly that key, or nothing; expired quotes too, since
 *   only the caller knows the time. A store drops entries to stay within its bounds, never because of time.
 * - `set` replaces. A quote that does not fit is not kept, and what stood under its key is gone all the same:
 *   it was older.
 * - `forget` removes the entry only if it still holds the quote of that id, and says whether it did. A newer
 *   quote under the same key stays.
 * - Nothing throws: a store that fails is a store that holds nothing.
 */
export interface QuoteStore {
  get(key: string): Awaitable<StoredQuote | undefined>
  set(key: string, quote: StoredQuote): Awaitable<void>
  forget(key: string, quoteId: string): Awaitable<boolean>
}

type Awaitable<Value> = Value | Promise<Value>
