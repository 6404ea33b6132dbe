import type { Now } from '../clock.ts'
import type { Problem } from '../http/problem.ts'
import type { Lookalike, Quote } from './quote.ts'
import type { QuoteRequest } from './request.ts'

/** The memory of quotes that clients were given, which orders are judged by. */
export interface QuoteNotes {
  /**
   * Notes a quote that came then, even if it is over. Settles when every replica can judge an order for it: no client
   * has it before.
   */
  note(quote: Quote, request: QuoteRequest, at: Now): Promise<void> | void
  /** Notes an answer that its client may take for a quote and that cannot be read. No client has it before, either. */
  noteUnreadable(lookalike: Lookalike, request: QuoteRequest): Promise<void>
  /** Notes a quote that another replica has fetched, and has noted for all replicas. */
  noteFound(quote: Quote, request: QuoteRequest): void
  /** Whether an order used this quote, here or at another replica: no client may have it any more. */
  wasUsed(quote: Quote): boolean
}

/** What operators hold. */
export interface QuoteHolds {
  /** Throws where the request is held. */
  refuse(request: HeldQuote): void
  /** Calls back as soon as a hold begins that holds the request. Returns how to stop that. */
  whenHeld(request: HeldQuote, refuse: (problem: Problem) => void): () => void
}

interface HeldQuote extends Pick<QuoteRequest, 'pair' | 'application'> {
  readonly what: 'quote'
}

/** The shared cache of all replicas, and the lock that lets one of them call the provider. */
export interface SharedQuotes {
  look(key: string, options: LookOptions): Promise<Look>
  /** Removes the quote of this id from all of these keys. */
  forget(keys: readonly string[], id: string): Promise<void>
}

export interface LookOptions {
  /** `left`: no client waits for it any more. */
  readonly flight: { readonly left: Error | undefined }
  /** Whether a call that another replica makes is waited for. */
  readonly waits: boolean
  /** The quote that is to be replaced: one with a later expiry is looked for. */
  readonly known: Quote | undefined
}

/** What a look finds: a quote that another replica has fetched, or else it is this replica's turn to fetch one. */
export type Look = { readonly kind: 'found'; readonly quote: Quote } | Turn

export interface Turn {
  readonly kind: 'turn'
  /** A quote that is close to its end: for when no younger one can be had. */
  readonly spare: Quote | undefined
  /** Whether another replica's call was waited for. */
  readonly waited: boolean
  /** Gives the quote to all replicas, and the lock back. */
  put(quote: Quote): void
  /** Gives back the lock, if it was taken and no quote was put. */
  release(): void
}
