import type { RestoredRecord } from './state.ts'

/** What is read of a store: no more quotes than memory is meant for, because more could end every start. */
export interface FoundRecords {
  readonly count: number
  /** In the order in which they were added. */
  readonly all: readonly RestoredRecord[]
  /** The sum of the serials of all that were added. */
  readonly serialSum: number
  /** The serials of quotes that were whole and are too many. */
  readonly tooMany: readonly number[]
  add(record: RestoredRecord): void
  /** Returns all and keeps none, so that their memory is freed with the caller's list. */
  take(): readonly RestoredRecord[]
}

/** Sorting each time that one quote is too many would take long. */
const slack = 1.25

export function createFoundRecords(maxQuotes: number): FoundRecords {
  let all: RestoredRecord[] = []
  const tooMany: number[] = []
  let quotes = 0
  let serialSum = 0

  /** As in the ledger, the quotes that were noted first go. */
  function makeRoom(): void {
    const found = all.filter(({ kind }) => kind === 'quote')
    const dropped = new Set(found.slice(0, quotes - maxQuotes).map(({ serial }) => serial))
    all = all.filter(({ serial }) => !dropped.has(serial))
    for (const serial of dropped) tooMany.push(serial)
    quotes = maxQuotes
  }

  return {
    get count() {
      return all.length
    },
    get all() {
      return all
    },
    get serialSum() {
      return serialSum
    },
    tooMany,
    add(record) {
      all.push(record)
      serialSum += record.serial
      if (record.kind !== 'quote') return
      quotes += 1
      if (quotes > slack * maxQuotes) makeRoom()
    },
    take() {
      const taken = all
      all = []
      return taken
    },
  }
}
