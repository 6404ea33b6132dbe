import type { Ending } from '../clock.ts'

/** A relayed quote, as the ledger keeps it; or an answer that could not be read, which has no id and no toAmount. */
export interface NotedQuote extends Ending {
  readonly id: string
  readonly pairId: string
  /** App-Name as the upstream receives it. */
  readonly application: string
  /** Who was given it: a digest of the client's partition. Undefined: a client whose address is not known. */
  readonly partition: string | undefined
  /** Amounts are canonical decimals. */
  readonly fromValue: string
  /** The amount in the quote request. An upstream may round it, and an order may state either amount. */
  readonly requestedAmount: string
  readonly toValue: string
  readonly expiresAtMs: number
  /** The quote's cache key, for dropping it from the cache; empty once it is over, and where no store is shared. */
  readonly cacheKey: string
  /** When it was first noted, by our clock. Metrics and the console show how old an order's quote is. */
  readonly notedAtMs: number
}

/** A quote that an order used: it is not handed out again. The same id with a later expiry is another quote. */
export interface UsedQuote {
  readonly id: string
  readonly expiresAtMs: number
}

export type JournalRecord =
  | { readonly kind: 'noted'; readonly quote: NotedQuote }
  | { readonly kind: 'used'; readonly quote: UsedQuote }

/**
 * What outlives the process or reaches the other replicas: a list that is appended to and read in order. Nothing here
 * throws or rejects, whatever the disk or the store does.
 */
export interface Journal {
  /**
   * Settles when every replica will find the record, or when waiting does not help: a client must not have its quote
   * before.
   */
  append(record: JournalRecord): Promise<void> | void
  /** Whether all that any replica appended before is here. */
  caughtUp(): Promise<boolean> | boolean
  close(): Promise<void>
}

/** The memory that the list of all replicas is read into. */
export interface ListReader {
  /** The shared list has it, in the place that `generation` counts: after each loss the list begins again. */
  deliver(record: JournalRecord, generation: number): void
  /** For so long a client may hold a quote, by how long quotes lived that were seen: five minutes at most. */
  readonly longestLifeMs: number
  /** What the list of this generation has not brought, live quotes first; `own`: only what this replica noted itself. */
  missing(generation: number, own: boolean): Iterable<JournalRecord>
}

/** The memory that the file of a folder is read into, and written again from. */
export interface FileReader {
  /**
   * An earlier process noted it. It may refuse less than what this one noted (`orders/guard.ts`). Returns whether it is
   * remembered still.
   */
  restore(record: JournalRecord): boolean
  /** That process did not end as it should, so it may have noted more than what was restored. */
  doubtRestored(): void
  /** Whether that still matters: clients may hold such quotes for as long as quotes live. */
  readonly doubtsRestored: boolean
  /** All that is remembered, in the order of noting. */
  live(): Iterable<JournalRecord>
  /** Drops what is past its time, a part of it where it is much. Returns how many records are left. */
  tidy(): number
}

/** For metrics and the console. */
export interface JournalFacts {
  /** Since the start. */
  readonly appended: number
  readonly waiting: number
  /** What was read and is not a record, or is damaged. */
  readonly skipped: number
  /** Since when the disk or the store fails or hangs, by our wall clock; undefined: it does not. */
  readonly awaySinceMs: number | undefined
}
