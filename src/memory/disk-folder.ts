import { hash, randomBytes } from 'node:crypto'
import { type FileHandle, mkdtemp, open, readdir, rename } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Clock } from '../clock.ts'
import type { Logger } from '../process/logger.ts'
import { fileAt, oldLock } from './folder-lock.ts'
import { findSegments, type OlderFiles } from './layout-before.ts'
import { sealLine, unsealLine } from './records.ts'

export interface FolderOptions {
  /** STATE_DIRECTORY. */
  directory: string
  swapBaseUrl: string
  /** The shared store's salt. Undefined: the folder has its own. */
  salt: string | undefined
  clock: Clock
  log: Logger
}

export const journalName = 'journal.ndjson'
/** The name of a file until its head and its keys are written. */
export const nameAtFirst = `${journalName}.begun`
export const nameOfCopy = `${journalName}.new`
/** Layouts 1 and 2 were LevelDB. */
const layout = 4
const maxHeadBytes = 16_384
const namesBefore: ReadonlySet<string> = new Set([
  'about',
  'about.part',
  'synced',
  'synced.part',
  'opening',
  'opening.part',
  'store',
  'rescue',
  oldLock,
])
/** Marks the digest of a shared store's salt, which is made of that store's password. */
const sharedPrefix = 'shared:'

/** The first line of a file: whose file it is. */
interface Head {
  readonly layout: number
  readonly swapBaseUrl: string
  readonly salt: string
}

/** What earlier processes left in the folder. */
export interface Folder {
  readonly salt: string
  readonly head: Buffer
  /** Why the existing file is not this gateway's, if it is not. */
  readonly foreign: string | undefined
  readonly older: OlderFiles
  /** The number of folders `set-aside-<date>`. */
  readonly setAside: number
}

/** Sets aside files that this version does not read, and older files of another gateway. */
export async function findFolder(options: FolderOptions): Promise<Folder> {
  const { directory, swapBaseUrl, salt } = options
  await finishBeginning(directory)
  const names = await readdir(directory)
  const headOf = async (name: string) => ({
    name,
    head: await readHead(join(directory, name)),
  })
  const segments = await findSegments(names, headOf)
  const files = names.includes(journalName) ? [await headOf(journalName)] : []
  const known = [...segments.files, ...files].findLast(
    ({ head }) =>
      head?.swapBaseUrl === swapBaseUrl && !head.salt.startsWith(sharedPrefix),
  )
  const own = salt ?? known?.head?.salt ?? randomBytes(32).toString('base64url')
  const writtenSalt =
    salt === undefined ? own : sharedPrefix + hash('sha256', salt, 'base64url')
  const whyNot = (head: Head | undefined, itsLayout: number) =>
    foreignness(head, { layout: itsLayout, swapBaseUrl, salt: writtenSalt })

  const foreign = new Map(
    names
      .filter((name) => namesBefore.has(name))
      .map((name) => [name, 'of an older version']),
  )
  for (const { name, head } of segments.files) {
    const why = whyNot(head, segments.layout)
    if (why !== undefined) foreign.set(name, why)
  }
  if (foreign.size > 0) await setAside(options, foreign)
  const [file] = files
  return {
    salt: own,
    head: Buffer.from(`${sealLine(['h', layout, swapBaseUrl, writtenSalt])}\n`),
    foreign: file && whyNot(file.head, layout),
    older: segments.without(foreign),
    setAside: (await readdir(directory)).filter((name) => name.startsWith('set-aside-'))
      .length,
  }
}

/** Finishes the replacement of a file: the old one was set aside, and the new one still needs its name. */
async function finishBeginning(directory: string): Promise<void> {
  const [path, begun] = [join(directory, journalName), join(directory, nameAtFirst)]
  const isMissing = (await fileAt(path)) === undefined
  if (isMissing && (await readHead(begun)) !== undefined) await rename(begun, path)
}

/** Undefined: unreadable, or without a head. */
async function readHead(path: string): Promise<Head | undefined> {
  let file: FileHandle | undefined
  try {
    file = await open(path, 'r')
    const { bytesRead, buffer } = await file.read(
      Buffer.alloc(maxHeadBytes),
      0,
      maxHeadBytes,
      0,
    )
    const [line = ''] = buffer.toString('utf8', 0, bytesRead).split('\n', 1)
    const [, kind, itsLayout, swapBaseUrl, salt] = unsealLine(line) ?? []
    if (kind !== 'h' || typeof salt !== 'string') return undefined
    return { layout: Number(itsLayout), swapBaseUrl: String(swapBaseUrl), salt }
  } catch {
    return undefined
  } finally {
    await file?.close()
  }
}

/** Undefined: this gateway can use the file. */
function foreignness(head: Head | undefined, ours: Head): string | undefined {
  if (head === undefined) return 'damaged at the first line'
  if (head.layout !== ours.layout)
    return `of layout ${head.layout}, and this version reads ${layout}`
  if (head.swapBaseUrl !== ours.swapBaseUrl)
    return `of another SWAP_BASE_URL (${head.swapBaseUrl})`
  return head.salt === ours.salt
    ? undefined
    : 'written with another salt, which VALKEY_URL decides'
}

/** Returns the new folder. Undefined: the files could not be moved. */
export async function setAside(
  { directory, clock, log }: Pick<FolderOptions, 'directory' | 'clock' | 'log'>,
  foreign: ReadonlyMap<string, string>,
): Promise<string | undefined> {
  const about = { files: foreign.size, why: [...new Set(foreign.values())] }
  const date = new Date(clock.nowMs()).toISOString().replaceAll(':', '-')
  try {
    const folder = await mkdtemp(join(directory, `set-aside-${date}-`))
    for (const file of foreign.keys())
      await rename(join(directory, file), join(folder, file))
    log.warn(
      { setAsideAs: basename(folder), ...about },
      'STATE_DIRECTORY has files that cannot be used: they were set aside',
    )
    return folder
  } catch (cause) {
    // For example, the disk is full. These files are not read.
    log.warn(
      { ...about, cause },
      'STATE_DIRECTORY has files that cannot be used, nor set aside: they are left alone',
    )
    return undefined
  }
}
