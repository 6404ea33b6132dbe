import type { Clock, Timer } from '../clock.ts'
import type { AppendedFile } from './appended-file.ts'
import type { DiskTrouble } from './disk-trouble.ts'

/** Syncs cost a disk more than writes. Even if a sync takes this long too, data is synced within a second. */
const afterMs = 400

interface DiskSyncParts {
  clock: Clock
  trouble: DiskTrouble
  /** The file to sync. Undefined: none exists, or a copy replaces it soon. */
  file(): AppendedFile | undefined
  /** The disk may have lost what was written since the last good sync. */
  failed(): void
}

/** Syncs the file a moment after each write. */
export class DiskSync {
  readonly #parts: DiskSyncParts
  /** Counts of all writes and of synced writes; until when all records are written, and synced. */
  #writes = 0
  #synced = 0
  #writtenUpToMs: number
  #syncedUpToMs: number
  #timer: Timer | undefined
  #syncing: Promise<void> | undefined
  #isClosed = false

  constructor(parts: DiskSyncParts) {
    this.#parts = parts
    this.#writtenUpToMs = this.#syncedUpToMs = parts.clock.nowMs()
  }

  get isDone(): boolean {
    return this.#synced === this.#writes
  }

  /** When the disk last had all records, if it lacks some now. */
  get upToMs(): number {
    return this.#syncedUpToMs
  }

  /** Called for the first record after everything was synced. */
  begins(): void {
    this.#syncedUpToMs = this.#parts.clock.nowMs()
  }

  /** Undefined: older records still wait to be written. */
  written(upToMs: number | undefined): void {
    this.#writes += 1
    if (upToMs !== undefined) this.#writtenUpToMs = upToMs
    this.#schedule()
  }

  #schedule(): void {
    if (this.#syncing !== undefined || this.#isClosed) return
    const { timers } = this.#parts.clock
    this.#timer ??= timers.setTimeout(() => void this.now(), afterMs).unref()
  }

  now(): Promise<void> {
    this.#parts.clock.timers.clear(this.#timer)
    this.#timer = undefined
    this.#syncing ??= this.#sync().then(() => {
      this.#syncing = undefined
      if (!this.isDone) this.#schedule()
    })
    return this.#syncing
  }

  async #sync(): Promise<void> {
    const { trouble, file, failed } = this.#parts
    const current = file()
    if (current === undefined) return
    const writes = this.#writes
    const upToMs = this.#writtenUpToMs
    if (await trouble.watch('sync', current.sync())) {
      this.#synced = writes
      this.#syncedUpToMs = upToMs
    } else failed()
  }

  async close(): Promise<void> {
    await this.#syncing
    this.#isClosed = true
    if (!this.isDone) await this.now()
    this.#parts.clock.timers.clear(this.#timer)
  }
}
