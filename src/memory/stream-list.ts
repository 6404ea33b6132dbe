import type { JournalRecord } from './journal.ts'
import {
  firstId,
  isAfter,
  partEntries,
  type StreamEntry,
  type StreamPart,
} from './stream-store.ts'

/** Entries are new if the last whole read began less than this long ago: their quotes have all of their time left. */
const freshForMs = 250

interface ReadPart {
  /** The entries that were not read before. */
  readonly entries: readonly StreamEntry[]
  /** Whether the list ends with these entries. */
  readonly isLast: boolean
  /** Unread entries were dropped. They may be of live quotes. */
  readonly isTrimmed: boolean
  /** The list was read from its beginning, so an earlier loss cannot be seen. */
  readonly provesNothing: boolean
}

/** The list as far as this replica has read it. If the store loses entries, another list begins. */
export class ReadList {
  readonly generation: number
  /** Records that were acknowledged and not read yet, by id. */
  readonly #unseen = new Map<string, JournalRecord>()
  lastId = firstId
  /** How many entries were ever added, as of the last read. Undefined: the end was not read yet. */
  #counted: number | undefined
  #wholeReadBeganMs = Number.NEGATIVE_INFINITY
  isWhole = false
  /** How many entries were there at the last look and are not read yet. */
  behind = 0

  constructor(generation: number) {
    this.generation = generation
  }

  acknowledge(id: string, record: JournalRecord): void {
    if (isAfter(id, this.lastId)) this.#unseen.set(id, record)
  }

  get unseen(): readonly string[] {
    return [...this.#unseen.keys()]
  }

  isFresh(nowMs: number): boolean {
    return nowMs - this.#wholeReadBeganMs <= freshForMs
  }

  /** A part that was read from the last id on. Undefined: the store has lost entries. */
  read(part: StreamPart, added: number): ReadPart | undefined {
    const isLast = part.entries.length < partEntries
    const provesNothing = this.lastId === firstId
    // The last entry comes again, unless it was lost or everything up to it was trimmed.
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
    // Trimmed records of this replica are not lost.
    if (isTrimmed) this.#unseen.clear()
    return { entries, isLast, isTrimmed, provesNothing }
  }

  /** Takes the next entry. Returns its record if this replica appended it. */
  take(id: string): JournalRecord | undefined {
    this.lastId = id
    const record = this.#unseen.get(id)
    this.#unseen.delete(id)
    return record
  }

  /**
   * Records that were acknowledged before this read and did not come are lost, though the count is right. Returns
   * these.
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
