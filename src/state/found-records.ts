import type { RestoredRecord } from './state.ts'

/** What is read of a store: no more quotes than memory is meant for, because more could end every start. */
export interface FoundRecords {
  readonly count: number
  /** In the order in which they were added. */
  all(): Iterable<readonly [serial: number, record: RestoredRecord]>
  /** The serials of quotes that were whole and are too many. */
  readonly tooMany: readonly number[]
  add(serial: number, record: RestoredRecord): void
  /** Frees their memory. */
  clear(): void
}

/** Sorting each time that one quote is too many would take long. */
const slack = 1.25

export function createFoundRecords(maxQuotes: number): FoundRecords {
  // Two lists instead of one of pairs, because so many pairs take long to collect.
  let serials: number[] = []
  let records: RestoredRecord[] = []
  const tooMany: number[] = []
  let quotes = 0

  function* all(): Iterable<readonly [serial: number, record: RestoredRecord]> {
    for (let index = 0; index < records.length; index += 1) {
      const record = records[index]
      if (record !== undefined) yield [serials[index] ?? 0, record]
    }
  }

  /** As in the ledger, the quotes that expire first go: no live one goes while there is one that has expired. */
  function makeRoom(): void {
    const expiries: [serial: number, expiresAtMs: number][] = []
    for (const [serial, { kind, value }] of all()) {
      if (kind === 'quote') expiries.push([serial, value.expiresAtMs])
    }
    expiries.sort(([, left], [, right]) => left - right)
    const dropped = new Set(expiries.slice(0, quotes - maxQuotes).map(([serial]) => serial))
    records = records.filter((_, index) => !dropped.has(serials[index] ?? 0))
    serials = serials.filter((serial) => !dropped.has(serial))
    for (const serial of dropped) tooMany.push(serial)
    quotes = maxQuotes
  }

  return {
    get count() {
      return records.length
    },
    all,
    tooMany,
    add(serial, record) {
      serials.push(serial)
      records.push(record)
      if (record.kind !== 'quote') return
      quotes += 1
      if (quotes > slack * maxQuotes) makeRoom()
    },
    clear() {
      serials = []
      records = []
    },
  }
}
