import type { Now } from '../clock.ts'
import type { Problem } from '../http/problem.ts'
import type { Lookalike, Quote } from './quote.ts'
import type { QuoteRequest } from './request.ts'

/** The served quotes that orders are judged by. */
export interface QuoteNotes {
  /**
   * Notes a quote that came at `at`, even if it is over. Settles once every replica can judge an order for the quote:
   * it is not served before.
   */
  note(quote: Quote, request: QuoteRequest, at: Now): Promise<void> | void
  /** For an unreadable answer that a caller may take for a quote. It is not relayed before, either. */
  noteUnreadable(lookalike: Lookalike, request: QuoteRequest): Promise<void>
  /** Notes a quote that another replica has fetched and noted for all. */
  noteFound(quote: Quote, request: QuoteRequest): void
  /** Whether an order used this quote anywhere, so that it must not be served again. */
  wasUsed(quote: Quote): boolean
}

export interface QuoteHolds {
  /** Throws if the request is held. */
  refuse(request: HoldableQuote): void
  /** Calls `refuse` as soon as a hold on the request begins. Returns a function that stops this. */
  whenHeld(request: HoldableQuote, refuse: (problem: Problem) => void): () => void
}

interface HoldableQuote extends Pick<QuoteRequest, 'pair' | 'application'> {
  readonly what: 'quote'
}

/** The shared cache of all replicas, and the lock that lets one of them call the provider. */
export interface SharedQuotes {
  look(key: string, options: LookOptions): Promise<Look>
  /** Removes the quote of this id from all of these keys. */
  forget(keys: readonly string[], id: string): Promise<void>
}

export interface LookOptions {
  /** `left`: set once no request waits any more. */
  readonly flight: { readonly left: Error | undefined }
  /** Whether to wait for another replica's call. */
  readonly waits: boolean
  /** The quote to replace: only one with a later expiry is found. */
  readonly known: Quote | undefined
}

/** A quote of another replica, or this replica's turn to fetch one. */
export type Look = { readonly kind: 'found'; readonly quote: Quote } | Turn

/** With the store's lock, or without it if the store is away or another replica has held the lock for too long. */
export interface Turn {
  readonly kind: 'turn'
  /** A quote close to its end, for when a younger one cannot be fetched. */
  readonly spare: Quote | undefined
  /** Whether this look waited for another replica's call. */
  readonly waited: boolean
  /** Gives the quote to all replicas, and releases the lock. */
  put(quote: Quote): void
  /** Releases the lock, if it was taken and no quote was put. */
  release(): void
}
