import type { Clock, Timer } from '../clock.ts'
import type { AppendedFile } from './appended-file.ts'
import type { DiskTrouble } from './disk-trouble.ts'

/** Syncs cost a disk more than writes. With one that takes as long, what was written is synced within a second. */
const afterMs = 400

interface DiskSyncParts {
  clock: Clock
  trouble: DiskTrouble
  /** The file that is written to. Undefined: there is none, or a copy takes its place soon. */
  file(): AppendedFile | undefined
  /** A sync failed, so the disk may have lost what was written since the one before. */
  failed(): void
}

/** Syncs what was written a moment after it was. */
export class DiskSync {
  readonly #parts: DiskSyncParts
  /** Writes, and how many of them are synced; and until when all is that was appended. */
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

  /** When the disk had all that was appended, if it has not all of it now. */
  get upToMs(): number {
    return this.#syncedUpToMs
  }

  /** The first record since all was synced is appended now. */
  begins(): void {
    this.#syncedUpToMs = this.#parts.clock.nowMs()
  }

  /** Undefined: more was appended before that is not written yet. */
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
    // What is written meanwhile is for the next sync.
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
