import { hash, randomBytes } from 'node:crypto'
import { type FileHandle, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from '../process/logger.ts'
import { oldLock } from './folder-lock.ts'
import { sealLine, unsealLine } from './records.ts'
import type { Segment } from './segments.ts'

interface FolderOptions {
  /** STATE_DIRECTORY. */
  directory: string
  swapBaseUrl: string
  /** The shared store's, if there is one; else the folder has its own. */
  salt: string | undefined
  log: Logger
}

/** What earlier processes left. */
export interface FoundFolder {
  readonly salt: string
  /** The first line of every segment. */
  readonly head: string
  /** The oldest first. */
  readonly segments: Segment[]
  readonly nextNumber: number
  /** False: records are missing that were once written, or that a process was about to write when it was killed. */
  readonly isWhole: boolean
  readonly setAside: number
}

/** 1 and 2 were LevelDB. */
const layout = 3
const maxHeadBytes = 16_384
const segmentName = /^journal-(\d{1,15})\.ndjson$/
const partName = /^journal-\d+\.part$/
const setAsideName = /^set-aside-/
const oldNames: ReadonlySet<string> = new Set([
  ...['about', 'about.part', 'synced', 'synced.part', 'opening', 'opening.part', 'store', 'rescue', oldLock],
])

interface Head {
  readonly layout: number
  readonly swapBaseUrl: string
  readonly salt: string
}

/** A file whose name is a segment's. */
interface Found {
  readonly name: string
  readonly number: number
  readonly bytes: number
  readonly head: Head | undefined
}

export async function findFolder(
  { directory, swapBaseUrl, salt, log }: FolderOptions,
  nowMs: number,
): Promise<FoundFolder> {
  const names = await readdir(directory)
  const found: Found[] = []
  for (const name of names) {
    const number = segmentName.exec(name)?.[1]
    if (number !== undefined) found.push(await look(directory, name, Number(number)))
  }
  found.sort((one, other) => one.number - other.number)
  const isOurs = ({ head }: Found) => head?.layout === layout && head.swapBaseUrl === swapBaseUrl
  const known = found.findLast((file) => isOurs(file) && !file.head?.salt.startsWith(sharedPrefix))
  const own = salt ?? known?.head?.salt ?? randomBytes(32).toString('base64url')
  const writtenSalt = salt === undefined ? own : sharedPrefix + hash('sha256', salt, 'base64url')

  const foreign = new Map(
    names.filter((name) => oldNames.has(name)).map((name) => [name, 'of an older version']),
  )
  for (const { name, head } of found) {
    const why = foreignness(head, { layout, swapBaseUrl, salt: writtenSalt })
    if (why !== undefined) foreign.set(name, why)
  }
  if (foreign.size > 0) await setAside(directory, foreign, nowMs, log)
  const parts = names.filter((name) => partName.test(name))
  for (const name of parts) await rm(join(directory, name), { force: true }).catch(() => {})
  return {
    salt: own,
    head: `${sealLine(['h', layout, swapBaseUrl, writtenSalt])}\n`,
    segments: found
      .filter(({ name }) => !foreign.has(name))
      .map(({ name, number, bytes }) => ({
        number,
        path: join(directory, name),
        bytes,
        records: 0,
        lastEnd: undefined,
      })),
    nextNumber: (found.at(-1)?.number ?? 0) + 1,
    isWhole: parts.length === 0 && found.every(({ head }) => head !== undefined),
    setAside: (await readdir(directory)).filter((name) => setAsideName.test(name)).length,
  }
}

/** Before the digest of a shared store's salt, which is made of that store's password. */
const sharedPrefix = 'shared:'

async function look(directory: string, name: string, number: number): Promise<Found> {
  const path = join(directory, name)
  let file: FileHandle | undefined
  try {
    file = await open(path, 'r')
    const { bytesRead, buffer } = await file.read(Buffer.alloc(maxHeadBytes), 0, maxHeadBytes, 0)
    const [line = ''] = buffer.toString('utf8', 0, bytesRead).split('\n', 1)
    return { name, number, bytes: (await file.stat()).size, head: readHead(line) }
  } catch {
    return { name, number, bytes: 0, head: undefined }
  } finally {
    await file?.close()
  }
}

function readHead(line: string): Head | undefined {
  const [, kind, layout, swapBaseUrl, salt] = unsealLine(line) ?? []
  const isHead =
    kind === 'h' && typeof layout === 'number' && typeof swapBaseUrl === 'string' && typeof salt === 'string'
  return isHead ? { layout, swapBaseUrl, salt } : undefined
}

/** Why this gateway cannot use it; undefined: it can. */
function foreignness(head: Head | undefined, ours: Head): string | undefined {
  if (head === undefined) return 'damaged at the first line'
  if (head.layout !== ours.layout) return `of layout ${head.layout}, and this version reads ${ours.layout}`
  if (head.swapBaseUrl !== ours.swapBaseUrl) return `of another SWAP_BASE_URL (${head.swapBaseUrl})`
  return head.salt === ours.salt ? undefined : 'written with another salt, which VALKEY_URL decides'
}

async function setAside(
  directory: string,
  foreign: ReadonlyMap<string, string>,
  nowMs: number,
  log: Logger,
): Promise<void> {
  const date = new Date(nowMs).toISOString().replaceAll(':', '-')
  let name = `set-aside-${date}`
  for (let next = 2; await exists(join(directory, name)); next += 1) name = `set-aside-${date}-${next}`
  const about = { files: foreign.size, why: [...new Set(foreign.values())] }
  try {
    await mkdir(join(directory, name), { mode: 0o700 })
    for (const file of foreign.keys()) await rename(join(directory, file), join(directory, name, file))
    log.warn(
      { setAsideAs: name, ...about },
      'STATE_DIRECTORY has files that cannot be used: they were set aside',
    )
  } catch (cause) {
    // For example a full disk. They are not read.
    log.warn(
      { ...about, cause },
      'STATE_DIRECTORY has files that cannot be used, nor set aside: they are left alone',
    )
  }
}

function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}
