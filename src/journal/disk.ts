import { type Clock, lookAt, type Now, type Timer, type Timers } from '../clock.ts'
import type { Events } from '../events.ts'
import { StateError } from '../process/errors.ts'
import { makeFolders } from '../process/folders.ts'
import type { Logger } from '../process/logger.ts'
import { type DiskOperation, DiskTrouble, patienceMs } from './disk-trouble.ts'
import { FolderLock } from './folder-lock.ts'
import { type FoundFolder, findFolder } from './found-segments.ts'
import type { Journal, JournalFacts, JournalReader, JournalRecord } from './journal.ts'
import { countLines, Reading } from './read-segments.ts'
import { encodeEnd, encodeRecord, maxRecordLength } from './records.ts'
import { countRecord, Segments, type SegmentsOptions } from './segments.ts'

export interface DiskOptions extends SegmentsOptions {
  swapBaseUrl: string
  /** The shared store's, if there is one; else the folder has its own. */
  salt: string | undefined
  clock: Clock
  log: Logger
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
const firstRetryAfterMs = 1_000
const maxRetryAfterMs = 15_000
const tidyEveryMs = 30_000
/** So few that encoding them holds up no request. */
const maxBatch = 1_000
const maxBatchLength = 262_144
/** Of a disk that takes nothing. */
const maxWaiting = 100_000
/** Dropped at once where more wait, because removing the first of a long list moves all others. */
const droppedAtOnce = 1_000

/** The journal in a folder on this machine. One process writes it, and reads it once, when it starts. */
export class DiskJournal implements Journal {
  readonly salt: string
  readonly #options: DiskOptions
  readonly #timers: Timers
  readonly #lock: FolderLock
  readonly trouble: DiskTrouble
  readonly #segments: Segments
  readonly #setAside: number
  /** All that earlier processes wrote was found. */
  #isWhole: boolean
  /** The newest segment ends with a clean end, or there is none. */
  #isEndSaid = true
  /** Once all is read. */
  #reader: JournalReader | undefined
  #waiting: JournalRecord[] = []
  #underWay = 0
  #dropped = 0
  #appended = 0
  #restored = 0
  #skipped = 0
  #writing: Promise<void> | undefined
  #writeTimer: Timer | undefined
  #tidyTimer: Timer | undefined
  #retryAfterMs = firstRetryAfterMs
  #closing: Promise<void> | undefined

  private constructor(options: DiskOptions, lock: FolderLock, found: FoundFolder) {
    this.#options = options
    this.#timers = options.clock.timers
    this.#lock = lock
    this.trouble = new DiskTrouble(options.clock, options.events)
    this.#segments = new Segments(options, this.trouble, found)
    this.salt = found.salt
    this.#setAside = found.setAside
    this.#isWhole = found.isWhole
  }

  /** Throws a StateError where the start has to be refused. */
  static async open(options: DiskOptions): Promise<DiskJournal> {
    const { directory } = options
    try {
      makeFolders(directory)
      const lock = await FolderLock.take(directory)
      try {
        return new DiskJournal(options, lock, await findFolder(options, options.clock.nowMs()))
      } catch (error) {
        await lock.release()
        throw error
      }
    } catch (cause) {
      if (cause instanceof StateError) throw cause
      const { message } = cause as Error
      throw new StateError(`STATE_DIRECTORY=${directory} cannot be used: ${message}`, { cause })
    }
  }

  get facts(): DiskFacts {
    const waiting = this.#waiting.length + this.#underWay
    const { isSynced, syncedUpToMs, bytes } = this.#segments
    return {
      appended: this.#appended,
      waiting,
      skipped: this.#skipped,
      awaySinceMs: this.trouble.sinceMs,
      bytes,
      restored: this.#restored,
      setAside: this.#setAside,
      syncedAtMs: isSynced && waiting === 0 ? this.#options.clock.nowMs() : syncedUpToMs,
      failures: this.trouble.failures,
    }
  }

  /** No other process writes here. */
  caughtUp(): true {
    return true
  }

  /** Reads what earlier processes wrote, before anything is appended. */
  async read(reader: JournalReader): Promise<void> {
    const { clock, retentionMs, log } = this.#options
    const isOver = () => this.#closing !== undefined
    const reading = new Reading({ clock, retentionMs, reader, isOver })
    let passOver = await this.#leaveOutOldest()
    let last: number | undefined
    for (const segment of [...this.#segments.all]) {
      const { number } = segment
      if (last !== undefined && number !== last + 1) this.#isWhole = false
      last = number
      await reading
        .read(segment, { passOver, isNewest: segment === this.#segments.all.at(-1) })
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
    if (last !== undefined && !reading.isWhole) this.#isWhole = false
    if (!this.#isWhole && this.#restored > 0) reader.doubtRestored()
    this.#isEndSaid = this.#isWhole
    this.#reader = reader
    this.#tidyTimer = this.#timers.setInterval(() => this.#segments.removeOldest(), tidyEveryMs).unref()
    this.#segments.removeOldest()
  }

  /**
   * Of more records than are remembered the newest are read. Returns how many of the oldest segment's are too many: they
   * were written under a higher LEDGER_ENTRIES.
   */
  async #leaveOutOldest(): Promise<number> {
    const { maxRecords, log } = this.#options
    let records = 0
    let leftOut = 0
    for (const segment of this.#segments.all.toReversed()) {
      if (records < maxRecords) {
        records += await countLines(segment.path).catch(() => 0)
        continue
      }
      leftOut += 1
      await this.#segments.remove(segment)
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
    if (this.#waiting.length + this.#underWay === 0) this.#segments.markIdle()
    this.#appended += 1
    this.#waiting.push(record)
    this.#boundWaiting()
    this.#scheduleWrite()
  }

  #boundWaiting(): void {
    if (this.#waiting.length + this.#underWay <= maxWaiting) return
    this.#dropped += this.#waiting.splice(0, droppedAtOnce).length
  }

  #scheduleWrite(): void {
    if (this.#writing !== undefined || this.#closing !== undefined) return
    // The first one is not kept waiting: until it is written, a kill leaves no trace of this process.
    const afterMs = this.#segments.isOpen ? writeAfterMs : 0
    this.#writeTimer ??= this.#timers.setTimeout(() => this.#write(), afterMs).unref()
  }

  #write(): Promise<void> {
    this.#timers.clear(this.#writeTimer)
    this.#writeTimer = undefined
    this.#writing ??= this.#writeWaiting().then((isWritten) => {
      this.#writing = undefined
      if (isWritten) this.#retryAfterMs = firstRetryAfterMs
      if (this.#waiting.length === 0) return
      if (isWritten) this.#scheduleWrite()
      else this.#scheduleRetry()
    })
    return this.#writing
  }

  #scheduleRetry(): void {
    if (this.#closing !== undefined) return
    this.#writeTimer = this.#timers.setTimeout(() => this.#write(), this.#retryAfterMs).unref()
    this.#retryAfterMs = Math.min(2 * this.#retryAfterMs, maxRetryAfterMs)
  }

  async #writeWaiting(): Promise<boolean> {
    do {
      const now = lookAt(this.#options.clock)
      const { lines, batch } = this.#takeBatch(now)
      const upToMs = this.#waiting.length === 0 ? now.nowMs : undefined
      const segment = await this.#segments.write(lines, batch.length, upToMs)
      this.#underWay = 0
      if (segment === undefined) {
        this.#waiting = batch.concat(this.#waiting)
        this.#boundWaiting()
        return false
      }
      for (const record of batch) countRecord(segment, record, now)
      this.#isEndSaid = false
      // A few wait for more to come, because a write of one takes the time of many.
    } while (this.#waiting.length >= (this.#closing === undefined ? maxBatch : 1))
    return true
  }

  #takeBatch(now: Now): { lines: string; batch: JournalRecord[] } {
    let lines = ''
    let taken = 0
    for (const record of this.#waiting) {
      if (taken >= maxBatch || lines.length >= maxBatchLength) break
      taken += 1
      const line = encodeRecord(record, now)
      // No provider's quote is so long. It would not be read.
      if (line.length <= maxRecordLength) lines += `${line}\n`
      else this.#skipped += 1
    }
    this.#underWay = taken
    return { lines, batch: this.#waiting.splice(0, taken) }
  }

  close(): Promise<void> {
    this.#closing ??= this.#end()
    return this.#closing
  }

  async #end(): Promise<void> {
    const { log } = this.#options
    this.#timers.clear(this.#writeTimer)
    this.#timers.clear(this.#tidyTimer)
    const warning = this.#timers.setTimeout(
      () => log.warn({}, 'stopping: waiting for the disk of STATE_DIRECTORY'),
      patienceMs,
    )
    await this.#writing
    if (this.#waiting.length > 0) await this.#write()
    const lost = this.#waiting.length + this.#dropped
    if (lost === 0) await this.#sayEnd()
    else {
      log.error(
        { records: lost },
        'stopped before these records of the ledger were written to STATE_DIRECTORY: late orders for them will be sent',
      )
    }
    await this.#segments.close()
    await this.#lock.release()
    this.#timers.clear(warning)
  }

  /** Unless the next start has to doubt what it reads. */
  async #sayEnd(): Promise<void> {
    if (this.#isEndSaid || this.#segments.all.length === 0 || this.#reader?.doubtsRestored !== false) return
    await this.#segments.write(`${encodeEnd(this.#options.clock.nowMs())}\n`, 0)
  }
}
