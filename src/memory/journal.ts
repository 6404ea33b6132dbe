import type { Note, QuoteName } from '../quotes/note.ts'

export type JournalRecord =
  | { readonly kind: 'noted'; readonly quote: Note }
  /** An order used it: it is not handed out again. */
  | { readonly kind: 'used'; readonly quote: QuoteName }

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
  /** How long a client may hold a quote, judged by the lives of the quotes seen last; at most five minutes. */
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
  /** Whether clients may still hold quotes that an earlier process gave out and did not write. */
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
