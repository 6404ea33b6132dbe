import { decodeRecord } from './record-codec.ts'
import type { StateRecord } from './state.ts'

/** A record as it is written, because a text is far cheaper to keep than the objects that it becomes. */
export type WrittenRecord = readonly [serial: number, written: string]

/** What is read of a store: no more quotes than memory is meant for, because more could end every start. */
export interface FoundRecords {
  /** In the order in which they were added. */
  readonly whole: WrittenRecord[]
  /** The serials of quotes that were whole and are too many. */
  readonly tooMany: readonly number[]
  add(serial: number, found: { kind: StateRecord['kind']; written: string }): void
}

/** Sorting each time that one quote is too many would take long. */
const slack = 1.25

export function createFoundRecords(maxQuotes: number): FoundRecords {
  let whole: WrittenRecord[] = []
  const tooMany: number[] = []
  let quotes = 0

  /** As in the ledger, the quotes that expire first go: no live one goes while there is one that has expired. */
  function makeRoom(): void {
    const expiries: [serial: number, expiresAtMs: number][] = []
    for (const [serial, written] of whole) {
      const { kind, value } = decodeRecord(written, 0)
      if (kind === 'quote') expiries.push([serial, value.expiresAtMs])
    }
    expiries.sort(([, left], [, right]) => left - right)
    const dropped = new Set(expiries.slice(0, quotes - maxQuotes).map(([serial]) => serial))
    whole = whole.filter(([serial]) => !dropped.has(serial))
    for (const serial of dropped) tooMany.push(serial)
    quotes = maxQuotes
  }

  return {
    get whole() {
      return whole
    },
    tooMany,
    add(serial, { kind, written }) {
      whole.push([serial, written])
      if (kind !== 'quote') return
      quotes += 1
      if (quotes > slack * maxQuotes) makeRoom()
    },
  }
}
