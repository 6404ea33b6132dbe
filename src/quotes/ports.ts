import type { Now } from '../clock.ts'
import type { Ask } from './ask.ts'
import type { GivenQuote, QuoteLookalike, StoredQuote } from './quote.ts'

/** The memory of quotes that clients were given, which orders are judged by. */
export interface QuoteNotes {
  /**
   * Notes a quote that came then, even if it is over. Settles when every replica can judge an order for it: no client
   * has it before.
   */
  note(given: GivenQuote, ask: Ask, at: Now): Promise<void> | void
  /** Notes an answer that its client may take for a quote and that cannot be read. No client has it before, either. */
  noteUnreadable(lookalike: QuoteLookalike, ask: Ask): Promise<void>
  /** Notes a quote that another replica has fetched, and has noted for all replicas. */
  noteFound(quote: StoredQuote, ask: Ask): void
  /** Whether an order used this quote, here or at another replica: no client may have it any more. */
  wasUsed(quote: StoredQuote): boolean
}

/** The quotes that all replicas have, and the lock by which they make one call. */
export interface SharedQuotes {
  quoteOrLock(key: string, look: SharedLook): Promise<QuoteOrLock>
  /** Removes the quote of this id from all of these keys. */
  forget(keys: readonly string[], id: string): Promise<void>
}

export interface SharedLook {
  /** `left`: no client waits for it any more. */
  readonly flight: { readonly left: Error | undefined }
  /** Whether a call that another replica makes is waited for. */
  readonly waits: boolean
  /** The quote that is to be replaced: one with a later expiry is looked for. */
  readonly known: StoredQuote | undefined
}

/** A quote that another replica has fetched, or else leave to fetch it. */
export interface QuoteOrLock {
  readonly quote: StoredQuote | undefined
  /** In its place, one that is close to its end: for when no younger one can be had. */
  readonly spare?: StoredQuote | undefined
  /** Whether another replica's call was waited for. */
  readonly waited: boolean
  /** Gives the quote to all replicas, and the lock back. */
  put(quote: StoredQuote): void
  /** Gives back the lock, if it was taken and no quote was put. */
  release(): void
}
