import type { NumberedRecord, StateRecord } from './state.ts'

/** What is read of a store: no more quotes than memory is meant for, because more could end every start. */
export interface FoundRecords {
  readonly whole: ReadonlyMap<number, StateRecord>
  /** The serials of quotes that were whole and are too many. */
  readonly tooMany: readonly number[]
  add(serial: number, record: StateRecord): void
}

/** Sorting each time that one quote is too many would take long. */
const slack = 1.25

export function createFoundRecords(maxQuotes: number): FoundRecords {
  const whole = new Map<number, StateRecord>()
  const tooMany: number[] = []
  let quotes = 0

  /** As in the ledger, the quotes that expire first go: no live one goes while there is one that has expired. */
  function makeRoom(): void {
    const expiries: [serial: number, expiresAtMs: number][] = []
    for (const [serial, { kind, value }] of whole)
      if (kind === 'quote') expiries.push([serial, value.expiresAtMs])
    expiries.sort(([, left], [, right]) => left - right)
    for (const [serial] of expiries.slice(0, quotes - maxQuotes)) {
      whole.delete(serial)
      tooMany.push(serial)
    }
    quotes = maxQuotes
  }

  return {
    whole,
    tooMany,
    add(serial, record) {
      whole.set(serial, record)
      if (record.kind !== 'quote') return
      quotes += 1
      if (quotes > slack * maxQuotes) makeRoom()
    },
  }
}

export function inOrder(records: ReadonlyMap<number, StateRecord>): NumberedRecord[] {
  const numbered = [...records]
  return numbered.sort(([left], [right]) => left - right)
}
