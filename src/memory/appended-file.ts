import { open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { fileAt } from './folder-lock.ts'

/** What is written to; a `FileHandle` is one. */
export interface DiskFile {
  appendFile(bytes: Buffer): Promise<void>
  truncate(bytes: number): Promise<void>
  datasync(): Promise<void>
  close(): Promise<void>
}

export type OpenFile = (path: string, flags: string, mode: number) => Promise<DiskFile>

/** A file that lines are appended to. What a failed write left of its lines is cut off again. */
export class AppendedFile {
  readonly #file: DiskFile
  #path: string
  /** Which file it is (`fileAt`). */
  #id: string | undefined
  #bytes: number
  /** Whether the file ends with a part of what could not be written. */
  #isTorn = false
  /** Whether the file got its name after its last sync. */
  #isMoved = false

  private constructor(file: DiskFile, path: string, bytes: number) {
    this.#file = file
    this.#path = path
    this.#bytes = bytes
  }

  /** Opens a file that is there, up to its last whole line. */
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

  /** Creates the file, in place of one that an earlier process left half-written. */
  static async create(path: string, openFile: OpenFile = open): Promise<AppendedFile> {
    await rm(path, { force: true })
    return new AppendedFile(await openFile(path, 'ax', 0o600), path, 0)
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Whether its path still leads to it. */
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

  /** Takes the place of the file at that path, if there is one. */
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

  /** Removes the file: it could not take the place of another one. */
  async discard(): Promise<void> {
    await this.#file.close().catch(() => {})
    await rm(this.#path, { force: true }).catch(() => {})
  }
}

/** Else a file of which all is on the disk could have no name after a loss of power. */
async function syncFolderOf(path: string): Promise<void> {
  if (process.platform === 'win32') return
  const folder = await open(dirname(path), 'r')
  await folder.sync().finally(() => folder.close())
}
