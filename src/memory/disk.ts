import { lookAt, type Now, type Timer, type Timers } from '../clock.ts'
import type { Events } from '../events.ts'
import { StateError } from '../process/errors.ts'
import { makeFolders } from '../process/folders.ts'
import { type DiskOperation, DiskTrouble, patienceMs } from './disk-trouble.ts'
import { type FolderLock, lockFolder } from './folder-lock.ts'
import { type FolderOptions, findFolder, setAsideSegments } from './found-segments.ts'
import type { JournalFacts, JournalRecord, RewritingReader } from './journal.ts'
import type { KeyFile } from './key-file.ts'
import { countLines, Reading } from './read-segments.ts'
import { encodeEnd, encodeRecord, maxRecordLength } from './records.ts'
import {
  countRecord,
  type Folder,
  forgottenOf,
  OpenSegment,
  removeSegment,
  type Segment,
} from './segments.ts'

export interface DiskOptions extends FolderOptions {
  events: Events
}

/** For metrics and the console. */
export interface DiskFacts extends JournalFacts {
  readonly bytes: number
  /** Records that were read at the start. */
  readonly restored: number
  /** Folders in STATE_DIRECTORY that were set aside and that nothing reads. */
  readonly setAside: number
  /** When the disk had all that was appended, by our wall clock: now, unless something waits to be written or synced. */
  readonly syncedAtMs: number
  readonly failures: Readonly<Record<DiskOperation, number>>
}

const writeAfterMs = 50
/** On a disk that has failed. */
const retryAfterMs = 2_000
/** Syncs cost a disk more than writes. With one that takes as long, what was written is synced within a second. */
const syncAfterMs = 400
/** At the folder, which may be gone, and for files of which nothing is remembered any more. */
const lookEveryMs = 1_000
/** So few that encoding them holds up no request. */
const maxBatch = 1_000
const maxBatchLength = 262_144
/** Of a disk that takes nothing. */
const maxWaiting = 100_000
/** Dropped at once where more wait, because removing the first of a long list moves all others. */
const droppedAtOnce = 1_000

/** The journal in a folder on this machine. One process writes it, and reads it once, when it starts. */
export class DiskJournal {
  readonly trouble: DiskTrouble
  readonly #options: DiskOptions
  readonly #timers: Timers
  /** In the same folder, and made again with it. */
  keyFile: Pick<KeyFile, 'isThere' | 'read' | 'writeAgain'> | undefined
  #lock: FolderLock
  readonly #folder: Folder
  #lookedAtMs = Number.NEGATIVE_INFINITY
  /** The folder or a file of it was lost: all that is remembered has to be written again. */
  #isLost = false
  #current: OpenSegment | undefined
  /** The newest segment ends with a clean end, or there is none. */
  #isEndSaid = true
  /** Once all is read. */
  #reader: RewritingReader | undefined
  /** The first of them may be under way to the disk. */
  readonly #waiting: JournalRecord[] = []
  #dropped = 0
  #appended = 0
  #restored = 0
  #skipped = 0
  #turn: Promise<void> | undefined
  #turnTimer: Timer | undefined
  /** Writes, and how many of them are synced; and until when all is that was appended. */
  #writes = 0
  #synced = 0
  #writtenUpToMs: number
  #syncedUpToMs: number
  #syncing: Promise<void> | undefined
  /** All segments that were left are closed. */
  #left: Promise<unknown> = Promise.resolve()
  #syncTimer: Timer | undefined
  #closing: Promise<void> | undefined

  private constructor(options: DiskOptions, lock: FolderLock, folder: Folder) {
    this.#options = options
    this.#timers = options.clock.timers
    this.#lock = lock
    this.#folder = folder
    this.trouble = new DiskTrouble(options.clock, options.events)
    this.#writtenUpToMs = this.#syncedUpToMs = options.clock.nowMs()
  }

  /** Throws a StateError where the start has to be refused. */
  static async open(options: DiskOptions): Promise<DiskJournal> {
    const { directory } = options
    try {
      makeFolders(directory)
      const lock = await lockFolder(directory)
      try {
        return new DiskJournal(options, lock, await findFolder(options))
      } catch (error) {
        await lock.release()
        throw error
      }
    } catch (cause) {
      if (cause instanceof StateError) throw cause
      const { message } = cause as Error
      throw new StateError(`STATE_DIRECTORY=${directory} cannot be used: ${message}`, {
        cause,
      })
    }
  }

  get salt(): string {
    return this.#folder.salt
  }

  get facts(): DiskFacts {
    return {
      appended: this.#appended,
      waiting: this.#waiting.length,
      skipped: this.#skipped,
      awaySinceMs: this.trouble.sinceMs,
      bytes: this.#folder.segments.reduce((sum, { bytes }) => sum + bytes, 0),
      restored: this.#restored,
      setAside: this.#folder.setAside,
      syncedAtMs: this.#isIdle ? this.#options.clock.nowMs() : this.#syncedUpToMs,
      failures: this.trouble.failures,
    }
  }

  get #isIdle(): boolean {
    return this.#waiting.length === 0 && this.#synced === this.#writes
  }

  /** Reads what earlier processes wrote, before anything is appended. */
  async read(reader: RewritingReader): Promise<void> {
    const { clock, retentionMs, log } = this.#options
    const { segments } = this.#folder
    const isOver = () => this.#closing !== undefined
    const reading = new Reading({ clock, retentionMs, reader, isOver })
    let passOver = await this.#leaveOutOldest()
    for (const segment of segments) {
      await reading
        .read(segment, { passOver, isNewest: segment === segments.at(-1) })
        .catch((cause) => {
          reading.skipped += 1
          log.error({ file: segment.path, cause }, 'STATE_DIRECTORY could not be read')
        })
      if (isOver()) return
      passOver = 0
    }
    this.#restored = reading.restored
    this.#skipped = reading.skipped
    if (reading.skipped > 0) {
      log.error(
        { lines: reading.skipped, restored: reading.restored },
        'STATE_DIRECTORY was damaged: these lines could not be read, all others were',
      )
    }
    this.#isEndSaid = this.#folder.isWhole && reading.isWhole
    if (!this.#isEndSaid && this.#restored > 0) reader.doubtRestored()
    this.#reader = reader
    void this.#takeTurn()
  }

  /**
   * Of more records than are remembered the newest are read. Returns how many of the oldest segment's are too many: they
   * were written under a higher LEDGER_ENTRIES.
   */
  async #leaveOutOldest(): Promise<number> {
    const { maxRecords, log } = this.#options
    let records = 0
    let leftOut = 0
    for (const segment of this.#folder.segments.toReversed()) {
      if (records < maxRecords) {
        records += await countLines(segment.path).catch(() => 0)
        continue
      }
      leftOut += 1
      await removeSegment(this.#folder, segment)
    }
    if (leftOut > 0) {
      log.warn(
        { files: leftOut },
        'STATE_DIRECTORY has more quotes than LEDGER_ENTRIES: those that were noted first are removed, and late orders ' +
          'for them are sent',
      )
    }
    return Math.max(0, records - maxRecords)
  }

  append(record: JournalRecord): void {
    if (this.#isIdle) this.#syncedUpToMs = this.#options.clock.nowMs()
    this.#appended += 1
    this.#waiting.push(record)
    if (this.#waiting.length > maxWaiting)
      this.#dropped += this.#waiting.splice(maxBatch, droppedAtOnce).length
    // The first one is not kept waiting: until it is written, a kill leaves no trace of this process.
    if (this.#waiting.length === 1)
      this.#schedule(this.#current === undefined ? 0 : writeAfterMs)
  }

  #schedule(afterMs: number): void {
    if (this.#turn !== undefined || this.#closing !== undefined) return
    this.#timers.clear(this.#turnTimer)
    this.#turnTimer = this.#timers.setTimeout(() => this.#takeTurn(), afterMs).unref()
  }

  /** Writes what waits, and removes what is not remembered any more. One turn at a time. */
  #takeTurn(): Promise<void> {
    this.#turn ??= this.#writeAll().then(async (isWritten) => {
      if (isWritten) await this.#removeForgotten()
      this.#turn = undefined
      if (!isWritten) this.#schedule(retryAfterMs)
      else this.#schedule(this.#waiting.length > 0 ? writeAfterMs : lookEveryMs)
    })
    return this.#turn
  }

  /** Returns whether all was written. */
  async #writeAll(): Promise<boolean> {
    const nowMs = this.#timers.steadyMs()
    // While there is much to write, there are twenty turns a second.
    if (!this.#isLost && nowMs - this.#lookedAtMs >= lookEveryMs / 2) {
      this.#lookedAtMs = nowMs
      this.#isLost = !(await this.trouble.watch('folder', this.#look()))
    }
    if (this.#isLost) {
      this.#isLost = !(await this.trouble.watch('folder', this.#makeAgain()))
      if (this.#isLost) return false
    }
    return this.#writeWaiting()
  }

  /** Throws if what is written would not be found by the next process. */
  async #look(): Promise<void> {
    await this.mustBeOurs()
    const isThere =
      (await this.#current?.isThere()) !== false &&
      (await this.keyFile?.isThere()) !== false
    if (isThere) return
    throw new StateError(
      `files of STATE_DIRECTORY=${this.#options.directory} were removed or replaced`,
    )
  }

  /** Throws if the folder is another process's by now, or another folder. */
  async mustBeOurs(): Promise<void> {
    const why = await this.#lock.whyLost()
    if (why !== undefined) throw new StateError(why)
  }

  /** Takes the folder that is there now, and writes all that is remembered. */
  async #makeAgain(): Promise<void> {
    const { directory } = this.#options
    const before = [...this.#folder.segments]
    const isFolderOurs = (await this.#current?.isThere()) === true
    this.#leave()
    if ((await this.#lock.whyLost()) !== undefined) {
      makeFolders(directory)
      const lock = await lockFolder(directory)
      await this.#lock.release()
      this.#lock = lock
      if (!isFolderOurs) await setAsideSegments(this.#options, this.#folder)
    }
    await this.keyFile?.writeAgain()
    await this.#writeRemembered()
    for (const segment of before) await removeSegment(this.#folder, segment)
    this.#dropped = 0
  }

  async #writeRemembered(): Promise<void> {
    const batch: JournalRecord[] = []
    const write = async () => {
      if (!(await this.#writeBatch(batch.splice(0)))) throw new Error('not written')
    }
    for (const record of this.#reader?.live() ?? []) {
      batch.push(record)
      if (batch.length === maxBatch) await write()
    }
    // Where nothing is remembered, too: there has to be a file that can be looked at.
    await write()
  }

  async #writeBatch(batch: readonly JournalRecord[]): Promise<boolean> {
    const now = lookAt(this.#options.clock)
    const lines = batch.map((record) => this.#encode(record, now)).join('')
    const segment = await this.#write(lines, batch.length)
    if (segment === undefined) return false
    for (const record of batch) countRecord(segment, record, now)
    this.#isEndSaid = false
    return true
  }

  async #writeWaiting(): Promise<boolean> {
    // A few wait for more to come, because a write of one takes the time of many.
    for (
      let least = 1;
      this.#waiting.length >= least;
      least = this.#closing === undefined ? maxBatch : 1
    ) {
      const now = lookAt(this.#options.clock)
      const { lines, batch } = this.#nextBatch(now)
      const isAll = batch.length === this.#waiting.length
      const segment = await this.#write(lines, batch.length)
      if (segment === undefined) return false
      this.#waiting.splice(0, batch.length)
      for (const record of batch) countRecord(segment, record, now)
      if (isAll) this.#writtenUpToMs = now.nowMs
      this.#isEndSaid = false
    }
    return true
  }

  #nextBatch(now: Now): { lines: string; batch: JournalRecord[] } {
    let lines = ''
    let taken = 0
    for (const record of this.#waiting) {
      if (taken >= maxBatch || lines.length >= maxBatchLength) break
      taken += 1
      lines += this.#encode(record, now)
    }
    return { lines, batch: this.#waiting.slice(0, taken) }
  }

  #encode(record: JournalRecord, now: Now): string {
    const line = encodeRecord(record, now)
    if (line.length <= maxRecordLength) return `${line}\n`
    // No provider's quote is so long. It would not be read.
    this.#skipped += 1
    return ''
  }

  /** Returns the segment that has the lines now; undefined: they were not written. */
  async #write(lines: string, records: number): Promise<Segment | undefined> {
    const bytes = Buffer.from(lines)
    if (this.#current?.isFullFor(bytes.length, records)) this.#leave()
    if (this.#current === undefined && !(await this.trouble.watch('open', this.#open())))
      return undefined
    const current = this.#current
    if (current === undefined) return undefined
    const { segment, file } = current
    this.#writes += 1
    if (await this.trouble.watch('write', file.appendFile(bytes))) {
      segment.bytes += bytes.length
      this.#scheduleSync(syncAfterMs)
      return segment
    }
    // What was written of these lines would look like damage.
    await file.truncate(segment.bytes).catch(() => {})
    this.#leave()
    if (segment.records === 0) {
      await removeSegment(this.#folder, segment)
      // A missing number looks like a missing segment.
      this.#folder.nextNumber = segment.number
    }
    return undefined
  }

  async #open(): Promise<void> {
    await this.mustBeOurs()
    this.#current = await OpenSegment.open(this.#folder, this.#options)
  }

  /** No more is written to the current segment. It is synced once more and closed, which no write waits for. */
  #leave(): void {
    const current = this.#current
    if (current === undefined) return
    this.#current = undefined
    this.#left = Promise.all([this.#left, this.#syncing]).then(async () => {
      await this.trouble.watch('sync', current.sync())
      await current.file.close().catch(() => {})
    })
  }

  #scheduleSync(afterMs: number): void {
    if (this.#syncing !== undefined || this.#closing !== undefined) return
    this.#syncTimer ??= this.#timers.setTimeout(() => this.#sync(), afterMs).unref()
  }

  #sync(): void {
    this.#syncTimer = undefined
    this.#syncing = this.#syncCurrent().then((isSynced) => {
      this.#syncing = undefined
      if (this.#synced < this.#writes)
        this.#scheduleSync(isSynced ? syncAfterMs : retryAfterMs)
    })
  }

  /** Behind the segments that were left. */
  async #syncCurrent(): Promise<boolean> {
    await this.#left
    const current = this.#current
    if (current === undefined) {
      // What was written is forgotten, and its segment removed.
      this.#synced = this.#writes
      return true
    }
    // What is written meanwhile is for the next sync.
    const writes = this.#writes
    const upToMs = this.#writtenUpToMs
    const isSynced = await this.trouble.watch('sync', current.sync())
    if (isSynced) {
      this.#synced = writes
      this.#syncedUpToMs = upToMs
    }
    return isSynced
  }

  async #removeForgotten(): Promise<void> {
    for (const segment of forgottenOf(this.#folder, this.#options)) {
      // Another process may have a file of that name by now.
      if ((await this.#lock.whyLost().catch(String)) !== undefined) return
      if (segment === this.#current?.segment) this.#leave()
      await removeSegment(this.#folder, segment)
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#end()
    return this.#closing
  }

  async #end(): Promise<void> {
    const { log } = this.#options
    this.#timers.clear(this.#turnTimer)
    this.#timers.clear(this.#syncTimer)
    const warning = this.#timers.setTimeout(
      () => log.warn({}, 'stopping: waiting for the disk of STATE_DIRECTORY'),
      patienceMs,
    )
    await this.#turn
    if (this.#waiting.length > 0 || this.#isLost) await this.#takeTurn()
    const lost = this.#isLost
      ? this.#appended + this.#restored
      : this.#waiting.length + this.#dropped
    if (lost === 0) await this.#sayEnd()
    else {
      log.error(
        { records: lost },
        'stopped before these records of the ledger were written to STATE_DIRECTORY: late orders for them will be sent',
      )
    }
    this.#leave()
    await this.#left
    await this.#lock.release()
    this.#timers.clear(warning)
  }

  /** Unless the next start has to doubt what it reads. */
  async #sayEnd(): Promise<void> {
    const hasDoubts = this.#reader?.doubtsRestored !== false
    if (this.#isEndSaid || this.#folder.segments.length === 0 || hasDoubts) return
    await this.#write(`${encodeEnd(this.#options.clock.nowMs())}\n`, 0)
  }
}
