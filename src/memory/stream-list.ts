import type { JournalRecord } from './journal.ts'
import {
  firstId,
  isAfter,
  partEntries,
  type StreamEntry,
  type StreamPart,
} from './stream-store.ts'

/** An entry that came since a read less than this long ago is new: its quote has all of its time left. */
const freshForMs = 250

/** A part of the list that was read in one go. */
interface ReadPart {
  /** The entries that were not read before. */
  readonly entries: readonly StreamEntry[]
  /** Whether the list ends with these entries. */
  readonly isLast: boolean
  /** Entries were dropped that this replica had not read. They may be of quotes that live. */
  readonly isTrimmed: boolean
  /** The list was read from its beginning, so a loss before that could not be seen. */
  readonly provesNothing: boolean
}

/** The list as far as this replica has read it: until the store loses entries, and then another one from its beginning. */
export class ReadList {
  readonly generation: number
  /** What was acknowledged and not read yet, by id. */
  readonly #unseen = new Map<string, JournalRecord>()
  lastId = firstId
  /** Entries that were ever added, as far as this replica has read; undefined: not read to the end yet. */
  #counted: number | undefined
  #wholeReadBeganMs = Number.NEGATIVE_INFINITY
  /** Whether it was read to its end. */
  isWhole = false
  /** Entries that were there at the last look and are not read yet. */
  behind = 0

  constructor(generation: number) {
    this.generation = generation
  }

  acknowledge(id: string, record: JournalRecord): void {
    if (isAfter(id, this.lastId)) this.#unseen.set(id, record)
  }

  /** The ids of what was acknowledged and not read yet. */
  get unseen(): readonly string[] {
    return [...this.#unseen.keys()]
  }

  isFresh(nowMs: number): boolean {
    return nowMs - this.#wholeReadBeganMs <= freshForMs
  }

  /** Takes a part that was read from the last id on. Undefined: the store has lost entries. */
  read(part: StreamPart, added: number): ReadPart | undefined {
    const isLast = part.entries.length < partEntries
    const provesNothing = this.lastId === firstId
    // The last entry that was read comes again, unless it was lost, and others with it; or all up to it was trimmed.
    const isThere = !provesNothing && part.entries[0]?.id === this.lastId
    const mayBeTrimmed = provesNothing || isAfter(part.oldestId, this.lastId)
    if (!isThere && !mayBeTrimmed) return undefined
    const entries = isThere ? part.entries.slice(1) : part.entries
    if (this.#counted === undefined) {
      this.behind = isLast ? 0 : part.length
      if (isLast) this.#counted = added
      return { entries, isLast, isTrimmed: false, provesNothing }
    }
    const expected = this.#counted + entries.length
    if (isLast && added < expected) return undefined
    const isTrimmed = isLast && added > expected
    this.behind = isLast ? 0 : Math.max(0, added - expected)
    this.#counted = isLast ? added : expected
    // Its own are not lost.
    if (isTrimmed) this.#unseen.clear()
    return { entries, isLast, isTrimmed, provesNothing }
  }

  /** The next entry. Returns its record if this replica appended it. */
  take(id: string): JournalRecord | undefined {
    this.lastId = id
    const record = this.#unseen.get(id)
    this.#unseen.delete(id)
    return record
  }

  /**
   * It was read to its end. What was acknowledged before this read and not brought by it is lost, and the count happened
   * to be right. Returns these records.
   */
  end(beganMs: number, acknowledged: readonly string[]): readonly JournalRecord[] {
    this.#wholeReadBeganMs = beganMs
    this.isWhole = true
    const lost = acknowledged
      .map((id) => this.#unseen.get(id))
      .filter((record) => record !== undefined)
    for (const id of acknowledged) this.#unseen.delete(id)
    return lost
  }
}
