import { createReadStream } from 'node:fs'
import { type Clock, lookAt, type Now } from '../clock.ts'
import type { JournalRecord } from './journal.ts'
import { decodeDiskLine, type HoldRecord, type KeyRecord } from './records.ts'

export type DiskRecord = JournalRecord | KeyRecord | HoldRecord

interface ReadingOptions {
  clock: Clock
  /** Whether to stop, because the process is ending. */
  isOver(): boolean
  take(record: DiskRecord, now: Now): void
}

export interface ReadFile {
  /** The length up to the end of the last whole line. */
  readonly bytes: number
  /** Whether a part of a line follows, as a kill during a write leaves it. */
  readonly isTorn: boolean
  /** How many lines are damaged. */
  readonly skipped: number
  readonly records: number
  /** The length of all lines about keys and holds. */
  readonly keyBytes: number
  /** Whether everything that was written seems to be there. */
  readonly isWhole: boolean
}

const newline = 0x0a

/** Reads the lines behind the head. */
export async function readJournal(
  path: string,
  { clock, isOver, take }: ReadingOptions,
): Promise<ReadFile> {
  let skipped = 0
  let records = 0
  let keyBytes = 0
  let hasEnd = false
  /** The writer's wall clock at the newest line. */
  let lastWallMs = Number.NEGATIVE_INFINITY
  const takeLine = (line: string, now: Now): void => {
    const read = decodeDiskLine(line, now)
    hasEnd = read !== undefined && read.record === undefined
    if (read === undefined) skipped += 1
    else {
      lastWallMs = read.wallMs
      if (read.record === undefined) return
      if (read.record.kind === 'noted' || read.record.kind === 'used') records += 1
      else keyBytes += line.length
      take(read.record, now)
    }
  }
  let isHead = true
  let wholeBytes = 0
  /** The pieces behind the last line break, joined once their line ends. */
  let torn: Buffer[] = []
  // The event loop is free between two pieces.
  for await (const piece of createReadStream(path)) {
    if (isOver()) break
    const end = piece.lastIndexOf(newline) + 1
    if (end === 0) {
      torn.push(piece)
      continue
    }
    const now = lookAt(clock)
    const bytes = Buffer.concat([...torn, piece.subarray(0, end)])
    torn = [piece.subarray(end)]
    wholeBytes += bytes.length
    for (const line of bytes.toString('utf8', 0, bytes.length - 1).split('\n')) {
      if (!isHead) takeLine(line, now)
      isHead = false
    }
  }
  const isTorn = torn.some(({ length }) => length > 0)
  return {
    bytes: wholeBytes,
    isTorn,
    skipped,
    records,
    keyBytes,
    isWhole: hasEnd && !isTorn && skipped === 0 && lastWallMs <= clock.nowMs(),
  }
}
