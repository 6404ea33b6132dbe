import type { NotedQuote, UnreadableQuote } from './noted-quote.ts'

/** What the ledger remembers. */
export type LedgerRecord =
  | { readonly kind: 'quote'; readonly value: NotedQuote }
  | { readonly kind: 'unreadable'; readonly value: UnreadableQuote }

/** What was in the mirror. */
export type RestoredRecord = { readonly serial: number } & LedgerRecord

/** By its serial a record is forgotten. Serials only grow. */
export type SerialRecord = readonly [serial: number, record: LedgerRecord]

/** A copy of the ledger that outlives the process. */
export interface LedgerMirror {
  note(record: LedgerRecord): number
  forget(serial: number): void
}

/** The serial of what is in no mirror. */
export const noSerial = 0

export const noMirror: LedgerMirror = { note: () => noSerial, forget: () => {} }
