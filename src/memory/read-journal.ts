import { createReadStream } from 'node:fs'
import { type Clock, lookAt, type Now } from '../clock.ts'
import type { JournalRecord } from './journal.ts'
import { decodeDiskLine, type HoldRecord, type KeyRecord } from './records.ts'

export type DiskRecord = JournalRecord | KeyRecord | HoldRecord

interface ReadingOptions {
  clock: Clock
  /** Whether to stop, because the process ends. */
  isOver(): boolean
  take(record: DiskRecord, now: Now): void
}

/** What a file of the journal has. */
export interface ReadFile {
  /** Up to the end of its last whole line. */
  readonly bytes: number
  /** Behind that it has a part of a line, as a kill in the middle of a write leaves it. */
  readonly isTorn: boolean
  /** Lines that are damaged. */
  readonly skipped: number
  readonly records: number
  /** How long the lines are that say something of a key or a hold. */
  readonly keyBytes: number
  /** All that its process wrote is there, as far as the lines can tell. */
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
  /** Pieces behind the last line: those of one without an end are not put together again and again. */
  let torn: Buffer[] = []
  // In pieces, between which the event loop is free.
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
