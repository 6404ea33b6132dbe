import { open, truncate } from 'node:fs/promises'
import { setImmediate as eventLoop } from 'node:timers/promises'
import { type Clock, lookAt, type Now, orderLeftMs } from '../clock.ts'
import type { JournalReader, JournalRecord } from './journal.ts'
import { decodeEnd, decodeRecord, maxRecordLength } from './records.ts'
import { countRecord, type Segment } from './segments.ts'

interface ReadingOptions {
  clock: Clock
  retentionMs: number
  reader: Pick<JournalReader, 'restore'>
  /** Whether to stop, because the process ends. */
  isOver(): boolean
}

const pieceBytes = 65_536
/** After so long the event loop is left free, also in the middle of a piece. */
const sliceMs = 5
/** A character of a record takes up to four bytes. */
const maxLineBytes = 4 * maxRecordLength
const newline = 0x0a

/** Reads what earlier processes wrote, a segment after the other. */
export class Reading {
  readonly #options: ReadingOptions
  /** The writer's wall clock at the newest line that was read. */
  #lastWallMs = Number.NEGATIVE_INFINITY
  #isEnd = false
  #isTorn = false
  restored = 0
  /** Lines that are damaged. */
  skipped = 0

  constructor(options: ReadingOptions) {
    this.#options = options
  }

  /** All that was written is there, as far as the lines can tell. */
  get isWhole(): boolean {
    return (
      this.skipped === 0 && this.#isEnd && !this.#isTorn && this.#lastWallMs <= this.#options.clock.nowMs()
    )
  }

  /** `passOver`: so many of its records, from the first on, are more than are remembered. */
  async read(
    segment: Segment,
    { passOver, isNewest }: { passOver: number; isNewest: boolean },
  ): Promise<void> {
    // The head has been read.
    let next = -1
    this.#isTorn = false
    this.#isEnd = false
    for await (const piece of piecesOf(segment.path)) {
      if (this.#options.isOver()) return
      const now = lookAt(this.#options.clock)
      const lines = piece.toString('utf8').split('\n')
      this.#isTorn = lines.pop() !== ''
      let beganMs = performance.now()
      for (const line of lines) {
        if (next >= passOver) this.#take(line, segment, now)
        next += 1
        if (performance.now() - beganMs < sliceMs) continue
        await eventLoop()
        beganMs = performance.now()
      }
      if (!this.#isTorn) continue
      // A kill in the middle of a write leaves the newest segment so. At the next start it would be damage.
      if (isNewest) await truncate(segment.path, segment.bytes - piece.length).catch(() => {})
      else this.skipped += 1
    }
  }

  #take(line: string, segment: Segment, now: Now): void {
    const read = decodeRecord(line, now, (wallMs) => Math.max(0, now.nowMs - wallMs))
    const endMs = read === undefined ? decodeEnd(line) : undefined
    this.#isEnd = endMs !== undefined
    this.#lastWallMs = read?.wallMs ?? endMs ?? this.#lastWallMs
    if (read !== undefined) this.#restore(read.record, segment, now)
    else if (endMs === undefined) this.skipped += 1
  }

  #restore(record: JournalRecord, segment: Segment, now: Now): void {
    countRecord(segment, record, now)
    const { kind, quote } = record
    const leftMs = kind === 'noted' ? orderLeftMs(quote, now) : quote.expiresAtMs - now.nowMs
    if (leftMs <= -this.#options.retentionMs) return
    this.#options.reader.restore(record)
    this.restored += 1
  }
}

/** Counts the lines behind the head. */
export async function countLines(path: string): Promise<number> {
  let lines = -1
  for await (const piece of piecesOf(path)) {
    for (let at = piece.indexOf(newline); at !== -1; at = piece.indexOf(newline, at + 1)) lines += 1
  }
  return lines
}

/** A file in pieces of whole lines; a torn last line is a piece of its own. */
async function* piecesOf(path: string): AsyncGenerator<Buffer> {
  const file = await open(path, 'r')
  try {
    const buffer = Buffer.allocUnsafe(maxLineBytes + pieceBytes)
    let kept = 0
    for (;;) {
      const { bytesRead } = await file.read(buffer, kept, pieceBytes, null)
      if (bytesRead === 0) break
      const filled = kept + bytesRead
      const end = buffer.subarray(0, filled).lastIndexOf(newline) + 1
      if (end > 0) yield buffer.subarray(0, end)
      // So long a line was never written. What follows of it will be damaged as well.
      kept = filled - end > maxLineBytes ? 0 : filled - end
      buffer.copyWithin(0, filled - kept, filled)
    }
    if (kept > 0) yield buffer.subarray(0, kept)
  } finally {
    await file.close()
  }
}
