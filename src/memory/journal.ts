import type { Note, QuoteName } from '../quotes/note.ts'

export type JournalRecord =
  | { readonly kind: 'noted'; readonly quote: Note }
  /** An order used the quote, which is not served again. */
  | { readonly kind: 'used'; readonly quote: QuoteName }

/**
 * A list that is appended to and read in order: on the disk it outlives the process, in the store it reaches the other
 * replicas. Its methods never throw or reject.
 */
export interface Journal {
  /** Settles once every replica will find the record, or once waiting does not help. The quote is not served before. */
  append(record: JournalRecord): Promise<void> | void
  /** Whether everything that any replica appended before is here. */
  caughtUp(): Promise<boolean> | boolean
  close(): Promise<void>
}

export interface ListReader {
  /** The shared list has this record. `generation` counts the lists: each loss begins a new one. */
  deliver(record: JournalRecord, generation: number): void
  /** How long a user may hold a quote, by the lives of the last ones; at most five minutes. */
  readonly longestLifeMs: number
  /** What the list of this generation lacks, live quotes first. `own`: only what this replica noted itself. */
  missing(generation: number, own: boolean): Iterable<JournalRecord>
}

export interface FileReader {
  /**
   * A record of an earlier process may refuse fewer orders (`orders/guard.ts`). Returns whether it is still remembered.
   */
  restore(record: JournalRecord): boolean
  /** The earlier process had no clean end, so it may have noted more than was restored. */
  doubtRestored(): void
  /** Whether users may still hold quotes that an earlier process served and did not write. */
  readonly doubtsRestored: boolean
  /** All that is remembered, in the order of noting. */
  live(): Iterable<JournalRecord>
  /** Drops a bounded part of what is past its time. Returns how many records are left. */
  tidy(): number
}

/** For metrics and the console. */
export interface JournalFacts {
  /** Since startup. */
  readonly appended: number
  readonly waiting: number
  /** Lines that were read and are damaged, or are not records. */
  readonly skipped: number
  /** Since when the disk or the store fails or hangs, by our wall clock. Undefined: it works. */
  readonly awaySinceMs: number | undefined
}
