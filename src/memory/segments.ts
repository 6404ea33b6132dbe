import { open, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type Clock, lookAt, type Now } from '../clock.ts'
import { type Ending, orderLeftMs } from '../quotes/ends.ts'
import { fileAt } from './folder-lock.ts'
import type { JournalRecord } from './journal.ts'

/** The folder of STATE_DIRECTORY, as far as it is the journal's: */
export interface Folder {
  readonly salt: string
  /** `journal-<number>.ndjson`: a head, then a line for each record; a clean end adds a line. The oldest first. */
  readonly segments: Segment[]
  /** The first line of every segment. */
  readonly head: Buffer
  nextNumber: number
  /** False: records are missing that were once written, or that a process was about to write when it was killed. */
  readonly isWhole: boolean
  /** How often something was found in it that nothing reads: `set-aside-<date>`. */
  setAside: number
}

export interface Segment {
  readonly number: number
  readonly path: string
  bytes: number
  records: number
  /** The end of its quote that ends last. Undefined: it has none. */
  lastEnd: Ending | undefined
}

/** What is written to; a `FileHandle` is one. */
export interface DiskFile {
  appendFile(bytes: Buffer): Promise<void>
  truncate(bytes: number): Promise<void>
  datasync(): Promise<void>
  close(): Promise<void>
}

export interface SegmentsOptions {
  /** STATE_DIRECTORY. */
  directory: string
  /** LEDGER_ENTRIES. */
  maxRecords: number
  /** LEDGER_RETENTION_MS: so long past its end a quote is remembered. */
  retentionMs: number
  clock: Clock
  /** Tests make a disk fail or hang. */
  openFile?: (path: string, flags: string, mode: number) => Promise<DiskFile>
}

const maxSegmentBytes = 16 * 2 ** 20
const maxSegmentMs = 3_600_000
const minSegmentMs = 10_000

/** The newest segment of the folder, while it is written to. */
export class OpenSegment {
  readonly segment: Segment
  readonly file: DiskFile
  readonly #options: SegmentsOptions
  readonly #sinceSteadyMs: number
  /** Which file it is (`fileAt`). */
  readonly #id: string | undefined
  #hasName = false

  private constructor(
    segment: Segment,
    { file, id }: { file: DiskFile; id: string | undefined },
    options: SegmentsOptions,
  ) {
    this.segment = segment
    this.file = file
    this.#id = id
    this.#options = options
    this.#sinceSteadyMs = options.clock.steadyMs()
  }

  static async open(folder: Folder, options: SegmentsOptions): Promise<OpenSegment> {
    const { directory, openFile = open } = options
    const { head, nextNumber: number } = folder
    // Under another name until its head is written, so that a segment without a head is always damage.
    const part = join(directory, `journal-${number}.part`)
    const path = join(directory, `journal-${number}.ndjson`)
    const file = await openFile(part, 'w', 0o600)
    try {
      await file.appendFile(head)
      await rename(part, path)
    } catch (error) {
      await file.close().catch(() => {})
      await rm(part, { force: true }).catch(() => {})
      throw error
    }
    folder.nextNumber += 1
    const segment = { number, path, bytes: head.length, records: 0, lastEnd: undefined }
    folder.segments.push(segment)
    return new OpenSegment(segment, { file, id: await fileAt(path) }, options)
  }

  /** Whether its path still leads to it. */
  async isThere(): Promise<boolean> {
    return (await fileAt(this.segment.path)) === this.#id
  }

  isFullFor(bytes: number, records: number): boolean {
    const { maxRecords, retentionMs, clock } = this.#options
    // So that a segment does not keep records for much longer than they are remembered.
    const maxMs = Math.min(maxSegmentMs, Math.max(minSegmentMs, retentionMs))
    return (
      this.segment.records + records > Math.max(maxRecords / 4, records) ||
      this.segment.bytes + bytes > maxSegmentBytes ||
      clock.steadyMs() - this.#sinceSteadyMs > maxMs
    )
  }

  async sync(): Promise<void> {
    await this.file.datasync()
    if (this.#hasName || process.platform === 'win32') return
    // Else a file of which all is on the disk could have no name after a loss of power.
    this.#hasName = true
    const folder = await open(this.#options.directory, 'r')
    await folder.sync().finally(() => folder.close())
  }
}

export function countRecord(
  segment: Segment,
  { kind, quote }: JournalRecord,
  now: Now,
): void {
  segment.records += 1
  const end =
    kind === 'noted'
      ? quote
      : { refusedFromMs: quote.expiresAtMs, wallAheadMs: now.nowMs - now.steadyMs }
  const { refusedFromMs, wallAheadMs } = end
  if (refusedFromMs > (segment.lastEnd?.refusedFromMs ?? 0))
    segment.lastEnd = { refusedFromMs, wallAheadMs }
}

/** The oldest of which nothing is remembered: they are past their time, or there are enough younger records. */
export function forgottenOf({ segments }: Folder, options: SegmentsOptions): Segment[] {
  const { maxRecords, retentionMs, clock } = options
  const now = lookAt(clock)
  let younger = segments.reduce((sum, { records }) => sum + records, 0)
  const firstKept = segments.findIndex(({ records, lastEnd }) => {
    younger -= records
    const isPast = lastEnd === undefined || orderLeftMs(lastEnd, now) <= -retentionMs
    return !isPast && younger < maxRecords
  })
  return segments.slice(0, firstKept === -1 ? segments.length : firstKept)
}

export async function removeSegment(
  { segments }: Folder,
  segment: Segment,
): Promise<void> {
  segments.splice(segments.indexOf(segment), 1)
  await rm(segment.path, { force: true }).catch(() => {})
}
