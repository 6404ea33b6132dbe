import { open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { fileAt } from './folder-lock.ts'

/** What lines are written to, such as a `FileHandle`. */
export interface DiskFile {
  appendFile(bytes: Buffer): Promise<void>
  truncate(bytes: number): Promise<void>
  datasync(): Promise<void>
  close(): Promise<void>
}

export type OpenFile = (path: string, flags: string, mode: number) => Promise<DiskFile>

/** Lines are appended to it. The rest of a failed write is cut off again. */
export class AppendedFile {
  readonly #file: DiskFile
  #path: string
  /** From `fileAt`. */
  #id: string | undefined
  #bytes: number
  /** Whether the file ends with part of a failed write. */
  #isTorn = false
  /** Whether the file was renamed after its last sync. */
  #isMoved = false

  private constructor(file: DiskFile, path: string, bytes: number) {
    this.#file = file
    this.#path = path
    this.#bytes = bytes
  }

  /** Opens an existing file, up to its last whole line. */
  static async open(
    path: string,
    { bytes, isTorn }: { bytes: number; isTorn: boolean },
    openFile: OpenFile = open,
  ): Promise<AppendedFile> {
    const file = new AppendedFile(await openFile(path, 'a', 0o600), path, bytes)
    file.#id = await fileAt(path)
    file.#isTorn = isTorn
    return file
  }

  /** Replaces a file that an earlier process left half-written. */
  static async create(path: string, openFile: OpenFile = open): Promise<AppendedFile> {
    await rm(path, { force: true })
    return new AppendedFile(await openFile(path, 'ax', 0o600), path, 0)
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Whether its path still leads to this file. */
  async isThere(): Promise<boolean> {
    return (await fileAt(this.#path)) === this.#id
  }

  async append(bytes: Buffer): Promise<void> {
    if (this.#isTorn) await this.#file.truncate(this.#bytes)
    this.#isTorn = true
    await this.#file.appendFile(bytes)
    this.#isTorn = false
    this.#bytes += bytes.length
  }

  async sync(): Promise<void> {
    await this.#file.datasync()
    if (!this.#isMoved) return
    await syncFolderOf(this.#path)
    this.#isMoved = false
  }

  /** Replaces the file at that path, if there is one. */
  async moveTo(path: string): Promise<void> {
    await rename(this.#path, path)
    this.#path = path
    this.#isMoved = true
    this.#id = await fileAt(path)
  }

  async close(): Promise<void> {
    if (this.#isTorn) await this.#file.truncate(this.#bytes).catch(() => {})
    await this.#file.close().catch(() => {})
  }

  /** Removes a file that could not replace another one. */
  async discard(): Promise<void> {
    await this.#file.close().catch(() => {})
    await rm(this.#path, { force: true }).catch(() => {})
  }
}

/** Otherwise a loss of power could leave the file without its name. */
async function syncFolderOf(path: string): Promise<void> {
  if (process.platform === 'win32') return
  const folder = await open(dirname(path), 'r')
  await folder.sync().finally(() => folder.close())
}
