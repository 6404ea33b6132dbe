import { createReadStream } from 'node:fs'
import { truncate } from 'node:fs/promises'
import { lookAt, type Now } from '../clock.ts'
import { orderLeftMs } from '../quotes/ends.ts'
import type { JournalReader, JournalRecord } from './journal.ts'
import { decodeLine } from './records.ts'
import { countRecord, type Segment, type SegmentsOptions } from './segments.ts'

interface ReadingOptions extends Pick<SegmentsOptions, 'clock' | 'retentionMs'> {
  reader: Pick<JournalReader, 'restore'>
  /** Whether to stop, because the process ends. */
  isOver(): boolean
}

const newline = 0x0a

/** Reads what earlier processes wrote, a segment after the other. */
export class Reading {
  readonly #options: ReadingOptions
  /** The writer's wall clock at the newest line that was read. */
  #lastWallMs = Number.NEGATIVE_INFINITY
  #isEnd = true
  restored = 0
  /** Lines that are damaged. */
  skipped = 0

  constructor(options: ReadingOptions) {
    this.#options = options
  }

  /** All that was written is there, as far as the lines can tell. */
  get isWhole(): boolean {
    return (
      this.skipped === 0 && this.#isEnd && this.#lastWallMs <= this.#options.clock.nowMs()
    )
  }

  /** `passOver`: so many of its records, from the first on, are more than are remembered. */
  async read(
    segment: Segment,
    { passOver, isNewest }: { passOver: number; isNewest: boolean },
  ): Promise<void> {
    // The head has been read.
    let at = -1
    let wholeBytes = 0
    let torn: Buffer = Buffer.alloc(0)
    this.#isEnd = false
    // In pieces, between which the event loop is free.
    for await (const piece of createReadStream(segment.path)) {
      if (this.#options.isOver()) return
      const now = lookAt(this.#options.clock)
      const bytes = Buffer.concat([torn, piece])
      const end = bytes.lastIndexOf(newline) + 1
      torn = bytes.subarray(end)
      wholeBytes += end
      if (end === 0) continue
      for (const line of bytes.toString('utf8', 0, end - 1).split('\n'))
        if (at++ >= passOver) this.#take(line, segment, now)
    }
    if (torn.length === 0) return
    this.#isEnd = false
    // A kill in the middle of a write leaves the newest segment so. At the next start it would be damage.
    if (isNewest) await truncate(segment.path, wholeBytes).catch(() => {})
    else this.skipped += 1
  }

  #take(line: string, segment: Segment, now: Now): void {
    const read = decodeLine(line, now, (wallMs) => Math.max(0, now.nowMs - wallMs))
    if (read === undefined) this.skipped += 1
    else {
      this.#lastWallMs = read.wallMs
      if (read.record !== undefined) this.#restore(read.record, segment, now)
    }
    this.#isEnd = read !== undefined && read.record === undefined
  }

  #restore(record: JournalRecord, segment: Segment, now: Now): void {
    countRecord(segment, record, now)
    const { kind, quote } = record
    const leftMs =
      kind === 'noted' ? orderLeftMs(quote, now) : quote.expiresAtMs - now.nowMs
    if (leftMs <= -this.#options.retentionMs) return
    this.#options.reader.restore(record)
    this.restored += 1
  }
}

/** Counts the lines behind the head. */
export async function countLines(path: string): Promise<number> {
  let lines = -1
  for await (const piece of createReadStream(path))
    for (let at = piece.indexOf(newline); at !== -1; at = piece.indexOf(newline, at + 1))
      lines += 1
  return lines
}
