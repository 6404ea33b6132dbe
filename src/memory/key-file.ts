import { type FileHandle, open, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { type Clock, inTime, type Timer, type Timers } from '../clock.ts'
import type { Logger } from '../process/logger.ts'
import type { DiskTrouble } from './disk-trouble.ts'
import { fileAt } from './folder-lock.ts'

/** The keys of orders, as their owner has them. */
interface Keys {
  restore(id: string, text: string, ageMs: number): void
  release(id: string): void
  live(): Iterable<{ id: string; text: string; ageMs: number }>
}

interface KeyFileOptions {
  directory: string
  clock: Clock
  log: Logger
  folder: {
    readonly trouble: DiskTrouble
    /** Throws if it is another process's, or another folder. */
    mustBeOurs(): Promise<void>
  }
}

/** An order with a key waits so long for its line to be written. On a disk that hangs or fails it goes on. */
const patienceMs = 1_000
const retryAfterMs = 1_000
const sliceLength = 262_144
const minRewrittenLength = 1_048_576
/** Where more waits for a disk that hangs, all is written from memory later. */
const maxWaitingLength = 33_554_432

/**
 * The keys of orders in STATE_DIRECTORY, a line for each thing that happened to one: `keys.ndjson`. The folder's next
 * process reads them. The file is written again from memory when it is twice what is alive in it, and when a write has
 * failed.
 */
export class KeyFile {
  readonly #options: KeyFileOptions
  readonly #path: string
  readonly #timers: Timers
  #keys: Keys | undefined
  #handle: FileHandle | undefined
  /** Which file that is (`fileAt`). */
  #id: string | undefined
  #length = 0
  /** When it was last written from memory. */
  #liveLength = 0
  #waiting = ''
  #writing: Promise<void> | undefined
  /** Settles once the lines that wait now are written, or will be written from memory. */
  #next: Promise<void> | undefined
  #mustRewrite = true
  /** The last write failed: what comes until the next one is written from memory. */
  #hasFailed = false
  /** The write that is under way takes long: no order waits for it. */
  #isSlow = false
  #retryTimer: Timer | undefined
  #isClosed = false

  constructor(options: KeyFileOptions) {
    this.#options = options
    this.#timers = options.clock.timers
    this.#path = join(options.directory, 'keys.ndjson')
  }

  /** Reads what earlier processes wrote, before anything is claimed. `known`: keys that stay as they are. */
  async read(keys: Keys, known: ReadonlySet<string> = new Set()): Promise<void> {
    this.#keys = keys
    const { clock, log } = this.#options
    let skipped = 0
    try {
      const file = await open(this.#path, 'r')
      for await (const line of file.readLines())
        if (!readLine(line, { keys, known, nowMs: clock.nowMs() })) skipped += 1
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return
      log.error(
        { file: this.#path, cause },
        'the keys of earlier orders could not be read: their file is set aside',
      )
      await this.#setAside()
    }
    if (skipped > 0)
      log.warn(
        { file: this.#path, lines: skipped },
        'some keys of earlier orders could not be read',
      )
  }

  /** Whether its path still leads to it. */
  async isThere(): Promise<boolean> {
    const isOpenFile = async () =>
      this.#id === undefined || (await fileAt(this.#path)) === this.#id
    if (this.#isClosed || (await isOpenFile())) return true
    // It may have been written again just now.
    await this.#writing
    return isOpenFile()
  }

  /** In the folder that is there now. What others left in that is read first. Settles once it is tried. */
  async writeAgain(): Promise<void> {
    const keys = this.#keys
    if (keys === undefined || this.#isClosed) return
    if ((await fileAt(this.#path)) !== this.#id)
      await this.read(keys, new Set(Array.from(keys.live(), ({ id }) => id)))
    this.#mustRewrite = true
    this.#next ??= this.#writeNext({ isRetry: true })
    await this.#next
  }

  /** What could not be read is not written over. */
  async #setAside(): Promise<void> {
    const { clock, directory, log } = this.#options
    try {
      await rename(this.#path, join(directory, `set-aside-keys-${clock.nowMs()}.ndjson`))
    } catch (cause) {
      log.error(
        { file: this.#path, cause },
        'keys of orders are not kept in STATE_DIRECTORY',
      )
      this.#isClosed = true
    }
  }

  /** All that the folder knows was read at the start. */
  async claim(id: string, text: string): Promise<undefined> {
    await this.#append(lineOf(id, text, this.#options.clock.nowMs()))
  }

  async settle(id: string, text: string | undefined, ageMs: number): Promise<void> {
    await this.#append(lineOf(id, text ?? 'null', this.#options.clock.nowMs() - ageMs))
  }

  async close(): Promise<void> {
    if (!this.#isSlow)
      await inTime(this.#next ?? Promise.resolve(this.#writing), patienceMs, this.#timers)
    this.#isClosed = true
    this.#timers.clear(this.#retryTimer)
    await this.#handle?.close().catch(() => {})
  }

  async #append(line: string): Promise<void> {
    if (this.#isClosed) return
    this.#waiting += line
    if (this.#hasFailed || this.#waiting.length > maxWaitingLength) {
      this.#waiting = ''
      this.#mustRewrite = true
    }
    if (this.#hasFailed) return
    this.#next ??= this.#writeNext()
    if (this.#isSlow) return
    const isWritten = await inTime(
      this.#next.then(() => true),
      patienceMs,
      this.#timers,
    )
    if (!isWritten) this.#isSlow = true
  }

  async #writeNext({ isRetry = false } = {}): Promise<void> {
    await this.#writing
    this.#next = undefined
    if (this.#hasFailed && !isRetry) return
    this.#writing = this.#writeWaiting()
    await this.#writing
  }

  async #writeWaiting(): Promise<void> {
    const lines = this.#waiting
    this.#waiting = ''
    const isLong = this.#length > Math.max(minRewrittenLength, 2 * this.#liveLength)
    const step = this.#mustRewrite || isLong ? this.#rewrite() : this.#writeLines(lines)
    this.#hasFailed = !(await this.#options.folder.trouble.watch('keys', step))
    this.#isSlow = false
    if (this.#hasFailed) this.#mustRewrite = true
    // Perhaps a line came while all was written from memory, behind its place.
    if (!this.#mustRewrite || this.#isClosed) return
    this.#timers.clear(this.#retryTimer)
    const retry = () => {
      this.#next ??= this.#writeNext({ isRetry: true })
    }
    this.#retryTimer = this.#timers.setTimeout(retry, retryAfterMs).unref()
  }

  async #writeLines(lines: string): Promise<void> {
    await this.#handle?.appendFile(lines)
    this.#length += lines.length
  }

  async #rewrite(): Promise<void> {
    this.#mustRewrite = false
    const { clock, folder } = this.#options
    const path = `${this.#path}.new`
    const nowMs = clock.nowMs()
    // Another process may be writing its own file under these names by now.
    await folder.mustBeOurs()
    const fresh = await open(path, 'w', 0o600)
    try {
      let lines = ''
      let length = 0
      for (const { id, text, ageMs } of this.#keys?.live() ?? []) {
        lines += lineOf(id, text, nowMs - ageMs)
        if (lines.length < sliceLength) continue
        await fresh.appendFile(lines)
        length += lines.length
        lines = ''
      }
      await fresh.appendFile(lines)
      await fresh.datasync()
      // Another gateway may have the folder by now.
      if (this.#isClosed) throw new Error('closed')
      await folder.mustBeOurs()
      await rename(path, this.#path)
      this.#id = await fileAt(this.#path)
      this.#length = length + lines.length
      this.#liveLength = this.#length
    } catch (error) {
      await fresh.close().catch(() => {})
      throw error
    }
    const before = this.#handle
    this.#handle = fresh
    await before?.close().catch(() => {})
  }
}

function lineOf(id: string, text: string, atMs: number): string {
  return `{"key":${JSON.stringify(id)},"at":${Math.round(atMs)},"is":${text}}\n`
}

/** Returns whether the line could be read. */
function readLine(
  line: string,
  { keys, known, nowMs }: { keys: Keys; known: ReadonlySet<string>; nowMs: number },
): boolean {
  try {
    const { key, at, is } = JSON.parse(line)
    if (typeof key !== 'string' || typeof at !== 'number') return false
    if (known.has(key)) return true
    if (is === null) keys.release(key)
    else keys.restore(key, JSON.stringify(is), Math.max(0, nowMs - at))
    return true
  } catch {
    return false
  }
}
