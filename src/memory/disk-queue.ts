import type { Now } from '../clock.ts'
import type { JournalRecord } from './journal.ts'
import { encodeRecord, maxRecordLength } from './records.ts'

/** So few that encoding them holds up no request. */
const maxBatch = 1_000
const maxBatchLength = 262_144
/** While the disk takes nothing, at most this much waits. Past it, everything is written from memory later. */
const maxRecords = 100_000
const maxUrgentLength = 33_554_432

/** What waits to be written to the disk. */
export class DiskQueue {
  #records: JournalRecord[] = []
  /** Lines that go first. Unlike a record's, they do not depend on when they are written. */
  #urgent: string[] = []
  #urgentLength = 0
  /** How many records were left out: a reader skips lines that are longer than any provider's quote. */
  tooLong = 0

  get length(): number {
    return this.#records.length + this.#urgent.length
  }

  /** Returns whether it has room. */
  add(record: JournalRecord): boolean {
    this.#records.push(record)
    return this.#records.length <= maxRecords
  }

  addUrgent(line: string): boolean {
    this.#urgent.push(`${line}\n`)
    this.#urgentLength += line.length + 1
    return this.#urgentLength <= maxUrgentLength
  }

  clear(): void {
    this.#records = []
    this.#urgent = []
    this.#urgentLength = 0
  }

  /** The first of what waits, those that go first before all else, and how to drop it once it is written. */
  next(now: Now): { lines: Buffer; isAll: boolean; written(): void } {
    const [records, urgent] = [this.#records, this.#urgent]
    const urgentTaken = urgent.length
    let lines = urgent.join('')
    let taken = 0
    for (const record of records) {
      if (taken >= maxBatch || lines.length >= maxBatchLength) break
      taken += 1
      const line = lineOf(record, now)
      if (line === '') this.tooLong += 1
      lines += line
    }
    return {
      lines: Buffer.from(lines),
      isAll: taken === records.length,
      written: () => {
        // If all was cleared meanwhile, these lists are not what waits now.
        records.splice(0, taken)
        const written = urgent.splice(0, urgentTaken)
        if (urgent === this.#urgent)
          for (const { length } of written) this.#urgentLength -= length
      },
    }
  }
}

/** Empty for a record whose line a reader would skip as too long. */
export function lineOf(record: JournalRecord, now: Now): string {
  const line = encodeRecord(record, now)
  return line.length <= maxRecordLength ? `${line}\n` : ''
}
