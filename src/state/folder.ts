import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chmod, copyFile, link, mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { makeFolders } from '../process/make-folders.ts'
import type { BatchMark } from './batch.ts'
import { syncPath } from './level-state.ts'
import { seal, unseal } from './seal.ts'

/** Which folder it is; written once. */
export interface About {
  readonly layout: number
  readonly swapBaseUrl: string
  readonly salt: string
}

/** Written after each sync, beside the store and never into it, so that the store cannot lose both. */
export interface SyncMark extends BatchMark {
  /** The process that wrote it has closed the store. */
  readonly isClean: boolean
}

/**
 * The folder of STATE_DIRECTORY:
 * - `about`: the layout, SWAP_BASE_URL and the salt.
 * - `store/`: LevelDB.
 * - `synced`: what the store held at the last sync.
 * - `lock/`: an empty LevelDB, whose lock says which process owns the folder.
 * - `opening/`: the files of the store as they were before it was opened, until all that was read is in `store/`.
 * - `opening.part/`: such files before they are complete, or after their last use.
 * - `rescue/`: such files while a process of its own tries or repairs them.
 * - `damaged-…/`, `set-aside-…/`: what nothing reads any more.
 */
export interface Folder {
  readonly store: string
  readonly lock: string
  readonly opening: string
  readonly rescue: string
  readAbout(): Promise<About | 'none' | 'damaged'>
  writeAbout(about: About): Promise<void>
  readSyncMark(): Promise<SyncMark | 'none' | 'damaged'>
  writeSyncMark(mark: SyncMark): Promise<void>
  /** A name that is free, with the date in it. */
  nameAside(prefix: 'damaged' | 'set-aside', nowMs: number): string
  /** Moves these entries, one after the other, into a new folder of this name. */
  setAside(name: string, entries: readonly string[]): Promise<void>
  countSetAside(): Promise<number>
  /** Makes the files of the store readable for this user alone, and returns their size. */
  tidyStore(): Promise<number>
}

const setAsideNames = /^(?:damaged|set-aside)-/

export function newSalt(): string {
  return randomBytes(32).toString('base64url')
}

/** Creates the folder if it is not there. */
export async function useFolder(directory: string): Promise<Folder> {
  const path = (name: string) => join(directory, name)
  makeFolders(directory)
  const store = path('store')
  const own = new Set<string>()

  return {
    store,
    lock: path('lock'),
    opening: path('opening'),
    rescue: path('rescue'),
    readAbout: () => readSealed<About>(directory, 'about'),
    writeAbout: (about) => writeSealed(directory, 'about', about),
    readSyncMark: () => readSealed<SyncMark>(directory, 'synced'),
    writeSyncMark: (mark) => writeSealed(directory, 'synced', mark),
    nameAside: (prefix, nowMs) =>
      freeName(directory, `${prefix}-${new Date(nowMs).toISOString().replaceAll(':', '-')}`),
    async setAside(name, entries) {
      await mkdir(path(name), { mode: 0o700 })
      for (const entry of entries)
        if (existsSync(path(entry))) await rename(path(entry), join(path(name), entry))
      await syncPath(path(name))
      await syncPath(directory)
    },
    async countSetAside() {
      return (await readdir(directory)).filter((name) => setAsideNames.test(name)).length
    },
    async tidyStore() {
      let bytes = 0
      for (const name of await readdir(store)) {
        const file = join(store, name)
        // LevelDB may have removed it meanwhile.
        const facts = await stat(file).catch(() => undefined)
        bytes += facts?.size ?? 0
        if (facts === undefined || own.has(name)) continue
        own.add(name)
        await chmod(file, 0o600).catch(() => {})
      }
      return bytes
    },
  }
}

export async function makeFolder(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true })
  await mkdir(path, { mode: 0o700 })
}

/**
 * Keeps the files of a store as they are, whatever LevelDB does when it opens the store: by links to those that it can only
 * read or delete, and by copies of those that it may write over. After damage to its MANIFEST it may count from too low a
 * number, and then a new file gets the name of one that exists; but it never counts from below the MANIFEST's own number.
 */
export async function keepFiles(from: string, to: string): Promise<void> {
  await makeFolder(to)
  const current = await readFile(join(from, 'CURRENT'), 'latin1').catch(() => '')
  const lowestNew = numberIn(current) ?? 0
  const keep = async (name: string) => {
    if (name === 'LOCK' || name.startsWith('LOG')) return
    const [file, kept] = [join(from, name), join(to, name)]
    const mayBeReplaced = (numberIn(name) ?? -1) >= lowestNew
    // A full disk has room for a link, and some file systems have no links.
    const isCopied = mayBeReplaced && (await copyWhole(file, kept))
    if (!isCopied) await link(file, kept).catch(() => copyFile(file, kept))
  }
  await Promise.all((await readdir(from)).map(keep))
  await syncPath(to)
}

async function copyWhole(file: string, copy: string): Promise<boolean> {
  try {
    await copyFile(file, copy)
    await syncPath(copy)
    return true
  } catch {
    await rm(copy, { force: true })
    return false
  }
}

/** LevelDB numbers all its files but CURRENT, LOCK and LOG. */
function numberIn(name: string): number | undefined {
  const digits = /\d+/.exec(name)?.[0]
  return digits === undefined ? undefined : Number(digits)
}

function freeName(directory: string, name: string): string {
  let free = name
  for (let next = 2; existsSync(join(directory, free)); next += 1) free = `${name}-${next}`
  return free
}

/** Readers find the old file or the new one, never a part, whatever happens in between. */
async function writeSealed(directory: string, name: string, content: object): Promise<void> {
  const part = join(directory, `${name}.part`)
  const file = await open(part, 'w', 0o600)
  try {
    await file.writeFile(seal(name, JSON.stringify(content)))
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(part, join(directory, name))
  await syncPath(directory)
}

async function readSealed<Content>(directory: string, name: string): Promise<Content | 'none' | 'damaged'> {
  try {
    const content = unseal(name, await readFile(join(directory, name), 'utf8'))
    return content === undefined ? 'damaged' : (content as Content)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 'none'
    throw error
  }
}
