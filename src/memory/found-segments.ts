import { hash, randomBytes } from 'node:crypto'
import { type FileHandle, mkdtemp, open, readdir, rename, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Logger } from '../process/logger.ts'
import { oldLock } from './folder-lock.ts'
import { sealLine, unsealLine } from './records.ts'
import type { Folder, Segment, SegmentsOptions } from './segments.ts'

export interface FolderOptions extends SegmentsOptions {
  swapBaseUrl: string
  /** The shared store's, if there is one; else the folder has its own. */
  salt: string | undefined
  log: Logger
}

/** 1 and 2 were LevelDB. */
const layout = 3
const maxHeadBytes = 16_384
const segmentName = /^journal-(\d{1,15})\.ndjson$/
const partName = /^journal-\d+\.part$/
const oldNames: ReadonlySet<string> = new Set([
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
/** Before the digest of a shared store's salt, which is made of that store's password. */
const sharedPrefix = 'shared:'

interface Head {
  readonly layout: unknown
  readonly swapBaseUrl: unknown
  readonly salt: string
}

/** A file whose name is a segment's. */
interface Found {
  readonly name: string
  readonly segment: Segment
  readonly head: Head | undefined
}

/** What earlier processes left. What of it cannot be used is set aside. */
export async function findFolder(options: FolderOptions): Promise<Folder> {
  const { directory, swapBaseUrl, salt } = options
  const names = await readdir(directory)
  const found: Found[] = []
  for (const name of names) {
    const number = segmentName.exec(name)?.[1]
    if (number !== undefined) found.push(await look(directory, name, Number(number)))
  }
  found.sort((one, other) => one.segment.number - other.segment.number)
  const isOurs = ({ head }: Found) =>
    head?.layout === layout && head.swapBaseUrl === swapBaseUrl
  const known = found.findLast(
    (file) => isOurs(file) && !file.head?.salt.startsWith(sharedPrefix),
  )
  const own = salt ?? known?.head?.salt ?? randomBytes(32).toString('base64url')
  const writtenSalt =
    salt === undefined ? own : sharedPrefix + hash('sha256', salt, 'base64url')

  const foreign = new Map(
    names
      .filter((name) => oldNames.has(name))
      .map((name) => [name, 'of an older version']),
  )
  for (const { name, head } of found) {
    const why = foreignness(head, { layout, swapBaseUrl, salt: writtenSalt })
    if (why !== undefined) foreign.set(name, why)
  }
  if (foreign.size > 0) await setAside(options, foreign)
  const parts = names.filter((name) => partName.test(name))
  for (const name of parts)
    await rm(join(directory, name), { force: true }).catch(() => {})
  const segments = found
    .filter(({ name }) => !foreign.has(name))
    .map(({ segment }) => segment)
  const hasGap = segments.some(
    ({ number }, at) => at > 0 && number - 1 !== segments[at - 1]?.number,
  )
  return {
    salt: own,
    head: Buffer.from(`${sealLine(['h', layout, swapBaseUrl, writtenSalt])}\n`),
    segments,
    nextNumber: (found.at(-1)?.segment.number ?? 0) + 1,
    isWhole:
      parts.length === 0 && !hasGap && found.every(({ head }) => head !== undefined),
    setAside: (await readdir(directory)).filter((name) => name.startsWith('set-aside-'))
      .length,
  }
}

/** Another folder was put in the place of ours while a process was using it: what is in it is not this process's. */
export async function setAsideSegments(
  options: FolderOptions,
  folder: Folder,
): Promise<void> {
  const names = await readdir(options.directory)
  const foreign = names.filter((name) => segmentName.test(name) || partName.test(name))
  if (foreign.length === 0) return
  await setAside(options, new Map(foreign.map((name) => [name, 'of another folder'])))
  folder.setAside += 1
}

async function look(directory: string, name: string, number: number): Promise<Found> {
  const path = join(directory, name)
  const segment: Segment = { number, path, bytes: 0, records: 0, lastEnd: undefined }
  let file: FileHandle | undefined
  try {
    file = await open(path, 'r')
    const { bytesRead, buffer } = await file.read(
      Buffer.alloc(maxHeadBytes),
      0,
      maxHeadBytes,
      0,
    )
    segment.bytes = (await file.stat()).size
    const [line = ''] = buffer.toString('utf8', 0, bytesRead).split('\n', 1)
    const [, kind, layout, swapBaseUrl, salt] = unsealLine(line) ?? []
    const isHead = kind === 'h' && typeof salt === 'string'
    return { name, segment, head: isHead ? { layout, swapBaseUrl, salt } : undefined }
  } catch {
    return { name, segment, head: undefined }
  } finally {
    await file?.close()
  }
}

/** Why this gateway cannot use it; undefined: it can. */
function foreignness(head: Head | undefined, ours: Head): string | undefined {
  if (head === undefined) return 'damaged at the first line'
  if (head.layout !== ours.layout)
    return `of layout ${head.layout}, and this version reads ${ours.layout}`
  if (head.swapBaseUrl !== ours.swapBaseUrl)
    return `of another SWAP_BASE_URL (${head.swapBaseUrl})`
  return head.salt === ours.salt
    ? undefined
    : 'written with another salt, which VALKEY_URL decides'
}

async function setAside(
  { directory, clock, log }: FolderOptions,
  foreign: ReadonlyMap<string, string>,
): Promise<void> {
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
  } catch (cause) {
    // For example a full disk. They are not read.
    log.warn(
      { ...about, cause },
      'STATE_DIRECTORY has files that cannot be used, nor set aside: they are left alone',
    )
  }
}
