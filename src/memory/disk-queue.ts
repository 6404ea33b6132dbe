import type { Now } from '../clock.ts'
import type { JournalRecord } from './journal.ts'
import { encodeRecord, maxRecordLength } from './records.ts'

/** Encoding this many records does not hold up requests. */
const maxBatch = 1_000
const maxBatchLength = 262_144
/** At most this much waits while the disk takes nothing. Beyond it, everything is written from memory later. */
const maxRecords = 100_000
const maxUrgentLength = 33_554_432

export class DiskQueue {
  #records: JournalRecord[] = []
  /** Lines that go first. Unlike records, they do not depend on when they are written. */
  #urgent: string[] = []
  #urgentLength = 0
  /** How many records were left out as too long: readers skip such lines, because a provider's quotes are shorter. */
  tooLong = 0

  get length(): number {
    return this.#records.length + this.#urgent.length
  }

  /** Returns whether the queue has room. */
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

  /** The urgent lines and the first records. `written` drops them from the queue. */
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
        // If the queue was cleared meanwhile, these are not its lists any more.
        records.splice(0, taken)
        const written = urgent.splice(0, urgentTaken)
        if (urgent === this.#urgent)
          for (const { length } of written) this.#urgentLength -= length
      },
    }
  }
}

/** Empty: a reader would skip the line as too long. */
export function lineOf(record: JournalRecord, now: Now): string {
  const line = encodeRecord(record, now)
  return line.length <= maxRecordLength ? `${line}\n` : ''
}
