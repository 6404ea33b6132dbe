import type { NotedQuote, UnreadableQuote } from '../orders/noted-quote.ts'
import type { Logger } from '../process/logger.ts'

/** A quote that an order used. It is not handed out again before it expires. */
export interface UsedQuote {
  readonly id: string
  readonly expiresAtMs: number
}

/** What survives the process. */
export type StateRecord =
  | { readonly kind: 'quote'; readonly value: NotedQuote }
  | { readonly kind: 'use'; readonly value: UsedQuote }
  | { readonly kind: 'unreadable'; readonly value: UnreadableQuote }

/** What was read. */
export type RestoredRecord = { readonly serial: number } & StateRecord

/** A record with the number by which it is forgotten. Numbers only grow. */
export type NumberedRecord = readonly [serial: number, record: StateRecord]

/** What earlier processes left. */
export interface Restored {
  /** In the order of their serials, which is that in which they were noted. */
  readonly records: readonly RestoredRecord[]
  /** No record has a higher serial. */
  readonly lastSerial: number
  /** False: the last process did not close the store, so what it noted last may be missing. */
  readonly isClean: boolean
  /** Our wall clock at the last write; 0: nothing was ever written. */
  readonly writtenAtMs: number
}

/** The memory that the store mirrors. */
export interface MirroredMemory {
  /** All that is noted and not forgotten; for a store that has to be written from the beginning. */
  everything(): Iterable<NumberedRecord>
  /** Our wall clock contradicts that of the last write, and nothing has told yet which is right. */
  isTimeDoubted(): boolean
}

/**
 * A folder on this machine that holds what memory holds. Memory decides: the folder is read once, at the start, and
 * nothing ever waits for it.
 */
export interface State {
  /** Keeps a record: it is written within 100 ms and synced within a second. It must not change from now on. */
  note(record: StateRecord): number
  forget(serial: number): void
  /** Called once, before the first `note`. */
  restore(memory: MirroredMemory): Restored
  /** Writes what waits, and marks the end as clean. */
  close(): Promise<void>
  /** For digests of what identifies people. */
  readonly salt: string
  readonly facts: StateFacts
}

/** For metrics and the console. */
export interface StateFacts {
  readonly records: number
  readonly bytes: number
  /** Records and removals that are not written yet. */
  readonly backlog: number
  /** False from a failed write or sync until the next one that succeeds, and while one takes longer than five seconds. */
  readonly isWriting: boolean
  /** When the disk had all that was noted, by our wall clock: now, unless something waits to be written or synced. */
  readonly syncedAtMs: number
  readonly restored: number
  /** How many records were missing or damaged at the start. */
  readonly missing: number
  /** Folders that were set aside and that nothing reads: of a damaged store, another SWAP_BASE_URL or another salt. */
  readonly setAside: number
}

export interface StateObserver {
  failed(operation: 'open' | 'write' | 'sync'): void
}

/** What the parts of the state are given. */
export interface StateTools {
  /** Our wall clock. */
  nowMs(): number
  observer: StateObserver
  log: Logger
}
