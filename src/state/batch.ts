import type { Batch } from './level-state.ts'
import { keyOf, membersOf, recordOf, serialOf } from './record-codec.ts'
import { seal, unseal } from './seal.ts'
import type { RestoredRecord } from './state.ts'
import type { Changes } from './waiting-changes.ts'

/** What each batch says of the whole store. */
export interface BatchMark {
  /** The running number of the batch; 0: nothing was ever written. */
  readonly number: number
  /** How many records the store holds after it. */
  readonly count: number
  /** Of their serials: as many may be lost as come back, when damage makes LevelDB forget a table. */
  readonly sum: number
  /** The serial of the next record. */
  readonly nextSerial: number
  /** Our wall clock. */
  readonly writtenAtMs: number
  /**
   * The entry that has it: the batch's last record, because with an entry that every batch writes again, LevelDB would
   * compact all tables with each other. A batch of nothing but removals has an entry for it.
   */
  readonly key: string
}

const markKey = '!'
export const emptyMark: BatchMark = {
  number: 0,
  count: 0,
  sum: 0,
  nextSerial: 1,
  writtenAtMs: 0,
  key: markKey,
}

export function newestOf<Mark extends BatchMark | undefined>(one: Mark, other: Mark): Mark {
  return (other?.number ?? 0) > (one?.number ?? 0) ? other : one
}

export function markAfter(
  before: BatchMark,
  { changes, ...since }: { changes: Changes } & Pick<BatchMark, 'nextSerial' | 'writtenAtMs'>,
): BatchMark {
  let { count, sum } = before
  let lastNoted: number | undefined
  for (const [serial, to] of changes) {
    if (to === undefined) {
      count -= 1
      sum -= serial
    } else {
      count += 1
      sum += serial
      lastNoted = serial
    }
  }
  const key = lastNoted === undefined ? markKey : keyOf(lastNoted)
  return { number: before.number + 1, count, sum, ...since, key }
}

export function fillBatch(batch: Batch, { changes, after }: { changes: Changes; after: BatchMark }): void {
  for (const [serial, to] of changes) {
    const key = keyOf(serial)
    if (to === undefined) batch.del(key)
    else {
      const members = membersOf(to)
      if (key === after.key) members.push(membersOfMark(after))
      batch.put(key, seal(key, JSON.stringify(members)))
    }
  }
  if (after.key === markKey) putMark(batch, after)
}

/** In an entry of its own. */
export function putMark(batch: Batch, mark: BatchMark): void {
  batch.put(markKey, seal(markKey, JSON.stringify([membersOfMark(mark)])))
}

function membersOfMark({ number, count, sum, nextSerial, writtenAtMs }: BatchMark): WrittenMark {
  return [number, count, sum, nextSerial, writtenAtMs]
}

type WrittenMark = [number: number, count: number, sum: number, nextSerial: number, writtenAtMs: number]

/** What one entry of the store holds: a record, the mark of its batch, or both. */
export interface Entry {
  record: RestoredRecord | undefined
  mark: BatchMark | undefined
}

/** Undefined: the entry is damaged. */
export function decodeEntry(key: string, written: string, wallAheadMs: number): Entry | undefined {
  const members = unseal(key, written) as unknown[] | undefined
  if (members === undefined) return undefined
  const mark = Array.isArray(members.at(-1)) ? markOf(members.pop() as WrittenMark, key) : undefined
  if (key === markKey) return mark && { record: undefined, mark }
  const record = recordOf(members, serialOf(key), wallAheadMs)
  return record && { record, mark }
}

function markOf([number, count, sum, nextSerial, writtenAtMs]: WrittenMark, key: string): BatchMark {
  return { number, count, sum, nextSerial, writtenAtMs, key }
}
