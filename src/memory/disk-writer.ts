import { type Clock, inTime, lookAt, type Timer } from '../clock.ts'
import type { AppendedFile } from './appended-file.ts'
import { DiskQueue } from './disk-queue.ts'
import type { DiskSync } from './disk-sync.ts'
import type { DiskTrouble } from './disk-trouble.ts'
import type { JournalRecord } from './journal.ts'

const writeAfterMs = 50
/** After a failed write. */
const retryAfterMs = 2_000
/** An order with a key is sent after this time, even if its line is not written. */
const urgentPatienceMs = 1_000
/** Fewer records wait for more: one write costs the same for one record and for many. */
const minBatch = 1_000

interface DiskWriterParts {
  clock: Clock
  trouble: DiskTrouble
  sync: DiskSync
  /** Creates the file, or replaces a lost one, with the known keys. */
  makeFile(): Promise<AppendedFile>
  /** The queue was too long and is empty now: everything has to be written from memory. */
  overflowed(): void
}

/** Appends to the file of the journal, one step at a time. */
export class DiskWriter {
  readonly #parts: DiskWriterParts
  readonly #queue = new DiskQueue()
  /** Undefined: the file was not created yet, or was lost. */
  file: AppendedFile | undefined
  /** Lines that were appended since a copy of the file was begun. */
  #since: Buffer[] | undefined
  #lastStep: Promise<unknown> = Promise.resolve()
  /** The next write, until it begins. */
  #nextWrite: Promise<boolean> | undefined
  #timer: Timer | undefined
  /** A line has waited its full time: no other waits until the disk works. */
  #isSlow = false
  #isClosed = false

  constructor(parts: DiskWriterParts) {
    this.#parts = parts
  }

  get waiting(): number {
    return this.#queue.length
  }

  get tooLong(): number {
    return this.#queue.tooLong
  }

  /** `soon`: does not wait for further records. */
  add(record: JournalRecord, { soon }: { soon: boolean }): void {
    if (!this.#queue.add(record)) this.#overflow()
    this.#schedule(soon ? 0 : writeAfterMs)
  }

  /** Settles once the line is written, or once waiting does not help. */
  async addUrgent(line: string): Promise<void> {
    if (this.#isClosed) return
    if (!this.#queue.addUrgent(line)) this.#overflow()
    const { clock, trouble } = this.#parts
    if (this.#isSlow || trouble.isFailing('write')) return this.#schedule(retryAfterMs)
    const isDone = await inTime(this.write(), urgentPatienceMs, clock.timers)
    if (isDone === undefined) this.#isSlow = true
  }

  #overflow(): void {
    this.#queue.clear()
    this.#parts.overflowed()
  }

  #schedule(afterMs: number): void {
    if (this.#timer !== undefined || this.#nextWrite !== undefined || this.#isClosed)
      return
    const { timers } = this.#parts.clock
    this.#timer = timers.setTimeout(() => void this.write(), afterMs).unref()
  }

  /**
   * Writes the urgent lines, and the first of the records. Returns whether that worked. Calls before it begins share
   * it.
   */
  write(): Promise<boolean> {
    this.#parts.clock.timers.clear(this.#timer)
    this.#timer = undefined
    this.#nextWrite ??= this.inTurn(() => {
      this.#nextWrite = undefined
      return this.#parts.trouble.watch('write', this.#writeWaiting())
    }).then((isWritten) => {
      if (isWritten) this.#isSlow = false
      if (!isWritten) this.#schedule(retryAfterMs)
      else if (this.#queue.length > 0)
        this.#schedule(this.#queue.length < minBatch ? writeAfterMs : 0)
      return isWritten
    })
    return this.#nextWrite
  }

  /** Runs the step after those before it. */
  inTurn<Result>(step: () => Promise<Result>): Promise<Result> {
    const done = this.#lastStep.then(step)
    this.#lastStep = done.catch(() => {})
    return done
  }

  async #writeWaiting(): Promise<void> {
    if (this.#queue.length === 0) return
    const { clock, makeFile, sync } = this.#parts
    const file = this.file ?? (await makeFile())
    this.file = file
    const now = lookAt(clock)
    const { lines, isAll, written } = this.#queue.next(now)
    await file.append(lines)
    written()
    this.#since?.push(lines)
    sync.written(isAll ? now.nowMs : undefined)
  }

  /**
   * Writes a new file, which then replaces the old one. Lines that come meanwhile go to the old file at once, and to
   * the new one at the end.
   */
  async copy(
    fresh: AppendedFile,
    { lines, takePlace }: { lines: Iterable<Buffer>; takePlace(): Promise<void> },
  ): Promise<void> {
    const before = this.file
    const since: Buffer[] = []
    this.#since = since
    try {
      for (const piece of lines) await fresh.append(piece)
      await fresh.sync()
      await this.inTurn(async () => {
        if (this.file !== before) throw new Error('the file was lost meanwhile')
        if (since.length > 0) await fresh.append(Buffer.concat(since))
        await takePlace()
        this.file = fresh
      })
    } catch (error) {
      await fresh.discard()
      throw error
    } finally {
      this.#since = undefined
    }
    await before?.close()
  }

  /** Gives up a file that its path does not lead to any more. */
  async lose(): Promise<void> {
    const lost = this.file
    this.file = undefined
    await lost?.close()
  }

  /** Returns how many records and lines were not written. */
  async close(): Promise<number> {
    while (this.#queue.length > 0 && (await this.write()));
    this.#isClosed = true
    this.#parts.clock.timers.clear(this.#timer)
    await this.#lastStep
    return this.#queue.length
  }
}
