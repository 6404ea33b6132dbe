import { open, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type Clock, type Ending, lookAt, type Now, orderLeftMs, type Timer } from '../clock.ts'
import type { DiskTrouble } from './disk-trouble.ts'
import type { JournalRecord } from './journal.ts'

/*
 * The folder of STATE_DIRECTORY:
 *   journal-<number>.ndjson   a segment: its head, then a line for each record; a clean end adds a line that says so
 *   journal-<number>.part     a segment until its head is written
 *   lock                      folder-lock.ts
 *   set-aside-<date>/         what was found here and nothing reads
 */

export interface Segment {
  readonly number: number
  readonly path: string
  bytes: number
  records: number
  /** The end of its quote that ends last. Undefined: it has none. */
  lastEnd: Ending | undefined
}

export function countRecord(segment: Segment, { kind, quote }: JournalRecord, now: Now): void {
  segment.records += 1
  const end =
    kind === 'noted' ? quote : { refusedFromMs: quote.expiresAtMs, wallAheadMs: now.nowMs - now.steadyMs }
  const { refusedFromMs, wallAheadMs } = end
  if (refusedFromMs > (segment.lastEnd?.refusedFromMs ?? 0)) segment.lastEnd = { refusedFromMs, wallAheadMs }
}

/** What is written to; a `FileHandle` is one. */
export interface DiskFile {
  appendFile(bytes: Buffer): Promise<void>
  truncate(bytes: number): Promise<void>
  datasync(): Promise<void>
  close(): Promise<void>
}
type OpenFile = (path: string, flags: string, mode: number) => Promise<DiskFile>

export interface SegmentsOptions {
  /** STATE_DIRECTORY. */
  directory: string
  /** LEDGER_ENTRIES. */
  maxRecords: number
  /** LEDGER_RETENTION_MS: so long past its end a quote is remembered. */
  retentionMs: number
  clock: Clock
  /** Tests make a disk fail or hang. */
  openFile?: OpenFile
}

/** The segment that is being written. */
interface OpenSegment {
  readonly segment: Segment
  readonly file: DiskFile
  readonly sinceSteadyMs: number
}

/** Syncs cost a disk more than writes. With one that takes as long, what was written is synced within a second. */
const syncAfterMs = 400
const syncAgainAfterMs = 15_000
const maxSegmentBytes = 16 * 2 ** 20
const maxSegmentMs = 3_600_000
const minSegmentMs = 10_000

/**
 * The files of the journal: the newest is written and synced, the oldest are removed once nothing in them is remembered.
 */
export class Segments {
  readonly #options: SegmentsOptions
  readonly #trouble: DiskTrouble
  /** The first line of each. */
  readonly #head: Buffer
  /** The oldest first. */
  readonly #all: Segment[]
  #nextNumber: number
  #current: OpenSegment | undefined
  #isWriting = false
  /** Those that were written since their last sync. */
  readonly #unsynced = new Set<OpenSegment>()
  #isFolderSynced = true
  #writtenUpToMs: number
  #syncedUpToMs: number
  #syncTimer: Timer | undefined
  #syncing: Promise<void> | undefined
  #removing: Promise<void> | undefined
  #isClosed = false

  constructor(
    options: SegmentsOptions,
    trouble: DiskTrouble,
    found: { head: string; segments: Segment[]; nextNumber: number },
  ) {
    this.#options = options
    this.#trouble = trouble
    this.#head = Buffer.from(found.head)
    this.#all = found.segments
    this.#nextNumber = found.nextNumber
    this.#writtenUpToMs = this.#syncedUpToMs = options.clock.nowMs()
  }

  get all(): readonly Segment[] {
    return this.#all
  }

  get bytes(): number {
    return this.#all.reduce((sum, { bytes }) => sum + bytes, 0)
  }

  get isOpen(): boolean {
    return this.#current !== undefined
  }

  /** All that was appended until then is synced. */
  get syncedUpToMs(): number {
    return this.#syncedUpToMs
  }

  /** When all that was ever appended was written: something is about to be. */
  markIdle(): void {
    if (this.isSynced) this.#syncedUpToMs = this.#options.clock.nowMs()
  }

  get isSynced(): boolean {
    return this.#unsynced.size === 0 && this.#syncing === undefined
  }

  /**
   * One at a time. Returns the segment that has the lines now; undefined: they were not written. `upToMs`: they are the
   * last of what was appended until then.
   */
  async write(lines: string, records: number, upToMs?: number): Promise<Segment | undefined> {
    this.#isWriting = true
    const segment = await this.#write(Buffer.from(lines), records)
    this.#isWriting = false
    if (segment !== undefined && upToMs !== undefined) this.#writtenUpToMs = upToMs
    return segment
  }

  async #write(bytes: Buffer, records: number): Promise<Segment | undefined> {
    if (this.#current !== undefined && this.#isFull(this.#current, bytes.length, records))
      this.#leave(this.#current)
    if (this.#current === undefined && !(await this.#trouble.watch('open', this.#open()))) return undefined
    const current = this.#current
    if (current === undefined) return undefined
    const { segment, file } = current
    this.#unsynced.add(current)
    if (!(await this.#trouble.watch('write', file.appendFile(bytes)))) {
      await this.#leaveTorn(current)
      return undefined
    }
    segment.bytes += bytes.length
    this.#scheduleSync()
    return segment
  }

  #isFull({ segment, sinceSteadyMs }: OpenSegment, bytes: number, records: number): boolean {
    const { maxRecords, retentionMs, clock } = this.#options
    // So that a segment does not keep records for much longer than they are remembered.
    const maxMs = Math.min(maxSegmentMs, Math.max(minSegmentMs, retentionMs))
    return (
      segment.records + records > Math.max(maxRecords / 4, records) ||
      segment.bytes + bytes > maxSegmentBytes ||
      clock.steadyMs() - sinceSteadyMs > maxMs
    )
  }

  async #open(): Promise<void> {
    const { directory, clock, openFile = open } = this.#options
    const number = this.#nextNumber
    // Under another name until its head is written, so that a segment without a head is always damage.
    const part = join(directory, `journal-${number}.part`)
    const path = join(directory, `journal-${number}.ndjson`)
    const file = await openFile(part, 'w', 0o600)
    try {
      await file.appendFile(this.#head)
      await rename(part, path)
    } catch (error) {
      await file.close().catch(() => {})
      await rm(part, { force: true }).catch(() => {})
      throw error
    }
    const segment = { number, path, bytes: this.#head.length, records: 0, lastEnd: undefined }
    this.#nextNumber += 1
    this.#all.push(segment)
    this.#current = { segment, file, sinceSteadyMs: clock.steadyMs() }
    this.#isFolderSynced = false
    this.removeOldest()
  }

  /** It is synced once more, and closed behind that. */
  #leave(current: OpenSegment): void {
    this.#current = undefined
    this.#unsynced.add(current)
    this.#scheduleSync()
  }

  async #leaveTorn(current: OpenSegment): Promise<void> {
    const { segment, file } = current
    this.#leave(current)
    if (segment.records > 0) {
      // What was written of these lines would look like damage.
      await file.truncate(segment.bytes).catch(() => {})
      return
    }
    await rm(segment.path, { force: true }).catch(() => {})
    this.#all.splice(this.#all.indexOf(segment), 1)
    // A missing number looks like a missing segment.
    this.#nextNumber = segment.number
  }

  #scheduleSync(afterMs = syncAfterMs): void {
    if (this.#syncing !== undefined || this.#isClosed) return
    this.#syncTimer ??= this.#options.clock.timers.setTimeout(() => this.#sync(), afterMs).unref()
  }

  #sync(): Promise<void> {
    this.#options.clock.timers.clear(this.#syncTimer)
    this.#syncTimer = undefined
    const writtenUpToMs = this.#writtenUpToMs
    this.#syncing ??= this.#trouble.watch('sync', this.#syncAll()).then((isSynced) => {
      this.#syncing = undefined
      if (isSynced) this.#syncedUpToMs = writtenUpToMs
      if (this.#unsynced.size > 0) this.#scheduleSync(isSynced ? syncAfterMs : syncAgainAfterMs)
    })
    return this.#syncing
  }

  async #syncAll(): Promise<void> {
    for (const written of [...this.#unsynced]) {
      // What is written meanwhile is for the next sync.
      this.#unsynced.delete(written)
      await written.file.datasync().catch((error) => {
        this.#unsynced.add(written)
        throw error
      })
      if (written !== this.#current && !this.#unsynced.has(written)) await written.file.close()
    }
    if (!this.#isFolderSynced) await this.#syncFolder()
  }

  /** Else a file of which all is on the disk could have no name after a loss of power. */
  async #syncFolder(): Promise<void> {
    this.#isFolderSynced = true
    if (process.platform === 'win32') return
    const folder = await open(this.#options.directory, 'r')
    await folder.sync().finally(() => folder.close())
  }

  /**
   * Removes the oldest while nothing in them is remembered: they are past their time, or there are enough younger
   * records.
   */
  removeOldest(): void {
    this.#removing ??= this.#removeOldest().finally(() => {
      this.#removing = undefined
    })
  }

  async #removeOldest(): Promise<void> {
    const { maxRecords, retentionMs, clock } = this.#options
    let younger = this.#all.reduce((sum, { records }) => sum + records, 0)
    for (const segment of [...this.#all]) {
      younger -= segment.records
      const isPast =
        segment.lastEnd === undefined || orderLeftMs(segment.lastEnd, lookAt(clock)) <= -retentionMs
      if (!isPast && younger < maxRecords) return
      if (segment === this.#current?.segment) {
        if (this.#isWriting) return
        this.#leave(this.#current)
      }
      await this.remove(segment)
    }
  }

  async remove(segment: Segment): Promise<void> {
    this.#all.splice(this.#all.indexOf(segment), 1)
    await rm(segment.path, { force: true }).catch(() => {})
  }

  /** Syncs what was written. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#options.clock.timers.clear(this.#syncTimer)
    await this.#syncing
    await this.#sync()
    if (this.#current !== undefined) this.#unsynced.add(this.#current)
    for (const { file } of this.#unsynced) await file.close().catch(() => {})
    await this.#removing
  }
}
