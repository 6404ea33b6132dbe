import type { LedgerEntry, NotedQuote } from './ledger.ts'
import type { UnreadableQuote } from './unreadable-quotes.ts'

/** What the ledger remembers. */
export type LedgerRecord =
  | { readonly kind: 'quote'; readonly value: NotedQuote }
  | { readonly kind: 'unreadable'; readonly value: UnreadableQuote }

/** What was in the mirror. The ledger keeps these objects, because copies of so many would take long. */
export type RestoredRecord = { readonly serial: number } & (
  | { readonly kind: 'quote'; readonly value: LedgerEntry }
  | Exclude<LedgerRecord, { kind: 'quote' }>
)

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
