import { existsSync } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { type BatchMark, decodeEntry, emptyMark, newestOf, putMark } from './batch.ts'
import { type Folder, keepFiles, makeFolder, type SyncMark } from './folder.ts'
import { createFoundRecords, type FoundRecords } from './found-records.ts'
import { type LevelStore, openLevel, StoreInUse, syncPath } from './level-state.ts'
import { type Trial, tryLevel } from './level-trial.ts'
import { encodeRecord, keyOf } from './record-codec.ts'
import type { RestoredRecord } from './state.ts'

export interface OpenedStore {
  readonly store: LevelStore
  readonly mark: BatchMark
  /** In the order of their serials. */
  readonly records: Pick<FoundRecords, 'count' | 'take'>
  /** How many quotes memory is too small for. */
  readonly leftOut: number
  /** The serials of those that are still in the store. */
  readonly tooMany: readonly number[]
  /** Undefined: nothing was damaged. */
  readonly damage: Damage | undefined
}

/** Where the damaged store is now, and how many of its records are missing. */
export interface Damage {
  readonly missing: number
  readonly restored: number
  readonly setAsideAs: string
}

export interface OpenStoreOptions {
  folder: Folder
  /** What the store held at the last sync; undefined: that file is damaged. */
  synced: SyncMark | undefined
  nowMs(): number
  wallAheadMs(): number
  /** LEDGER_ENTRIES. */
  maxQuotes: number
  /** Called before the damaged store is set aside, so that no end can come before it was said. */
  onDamage(damage: Damage): void
}

/** What can be read of a store. */
interface Contents {
  mark: BatchMark | undefined
  /** The records whose checksums are right. */
  records: FoundRecords
  isReadable: boolean
  damaged: number
}

/**
 * Opens the store and reads it once. LevelDB deletes files that it considers obsolete, and after damage that can be
 * all of them. So the files are kept aside until what was read adds up. This can end at any moment: the next start
 * then begins again, however often. Only a store at which LevelDB itself ends the process is given up unread.
 */
export async function openStore(options: OpenStoreOptions): Promise<OpenedStore> {
  const { folder, synced } = options
  const isBegunAgain = await takeUp(folder)
  if (!existsSync(folder.store)) await makeFolder(folder.store)
  await keepFiles(folder.store, `${folder.opening}.part`)
  await rename(`${folder.opening}.part`, folder.opening)
  if (isBegunAgain && (await tryKept(folder)) === 'asserts') return rescue([], options)
  const opened = await openAndRead(folder.store, options)
  const { contents } = opened
  if (opened.store !== undefined && addsUp(contents, synced)) {
    await dropKept(folder)
    return {
      store: opened.store,
      mark: contents.mark ?? emptyMark,
      records: contents.records,
      leftOut: contents.records.tooMany.length,
      tooMany: contents.records.tooMany,
      damage: undefined,
    }
  }
  await opened.store?.close()
  return rescue([...(await readRepaired(options)), contents], options)
}

/** Completes, or begins again, what an earlier start did not come to the end of. Returns whether there was one. */
async function takeUp({ store, opening, rescue }: Folder): Promise<boolean> {
  await rm(`${opening}.part`, { recursive: true, force: true })
  await rm(rescue, { recursive: true, force: true })
  if (!existsSync(opening)) return false
  // LevelDB may have deleted files of the store since these were kept.
  await rm(store, { recursive: true, force: true })
  await rename(opening, store)
  return true
}

/** Whether the earlier start may have ended by the store itself. */
async function tryKept({ opening, rescue }: Folder): Promise<Trial> {
  await keepFiles(opening, rescue)
  const trial = await tryLevel(rescue, { repairs: false })
  await rm(rescue, { recursive: true, force: true })
  return trial
}

/** Renamed first: after an end in the middle, the next start would take the files that are left for the whole store. */
async function dropKept({ opening }: Folder): Promise<void> {
  await rename(opening, `${opening}.part`)
  await rm(`${opening}.part`, { recursive: true })
}

async function openAndRead(
  path: string,
  { maxQuotes, wallAheadMs }: Pick<OpenStoreOptions, 'maxQuotes' | 'wallAheadMs'>,
): Promise<{ store: LevelStore | undefined; contents: Contents }> {
  const records = createFoundRecords(maxQuotes)
  const aheadMs = wallAheadMs()
  const contents: Contents = { mark: undefined, records, isReadable: true, damaged: 0 }
  const store = await openLevel(path).catch((error) => {
    if (error instanceof StoreInUse || isOfTheSystem(error)) throw error
    contents.isReadable = false
    return undefined
  })
  await store
    ?.read((key, value) => {
      const entry = decodeEntry(key, value, aheadMs)
      if (entry === undefined) contents.damaged += 1
      else {
        if (entry.record !== undefined) records.add(entry.record)
        contents.mark = newestOf(contents.mark, entry.mark)
      }
    })
    .catch(async (error) => {
      if (isOfTheSystem(error)) {
        await store.close()
        throw error
      }
      contents.isReadable = false
    })
  return { store, contents }
}

/** LevelDB says in words that the disk is full, or that it may not write. That is not damage. */
export function isOfTheSystem(error: unknown): boolean {
  const { code, message } = error as { code?: string; message: string }
  if (code !== undefined && !code.startsWith('LEVEL_')) return true
  return /No space left|Permission denied|Read-only file system|Too many open files|Cannot allocate memory|Disk quota exceeded/i.test(
    message,
  )
}

function addsUp({ mark, records, isReadable, damaged }: Contents, synced: SyncMark | undefined): boolean {
  if (!isReadable || damaged > 0 || synced === undefined) return false
  const { number, count, sum } = mark ?? emptyMark
  const isWhole = records.count + records.tooMany.length === count && records.serialSum === sum
  return number >= synced.number && isWhole
}

/**
 * Puts a store in the place of the damaged one that has what is whole of it, and keeps the files as they were. Until they
 * have their new name, the next start begins again.
 */
async function rescue(found: readonly Contents[], options: OpenStoreOptions): Promise<OpenedStore> {
  const { folder, synced } = options
  const whole = new Map(found.flatMap(({ records }) => records.all.map((record) => [record.serial, record])))
  const records = createFoundRecords(options.maxQuotes)
  let lastSerial = 0
  for (const record of [...whole.values()].sort((left, right) => left.serial - right.serial)) {
    records.add(record)
    lastSerial = record.serial
  }
  const tooMany = found.flatMap(({ records: { tooMany } }) => tooMany)
  const leftOut = records.tooMany.length + new Set(tooMany.filter((serial) => !whole.has(serial))).size
  const marks = [synced, ...found.map(({ mark }) => mark)].flatMap((mark) => mark ?? [])
  const newest = marks.reduce(newestOf, emptyMark)
  const mark: BatchMark = {
    ...emptyMark,
    number: newest.number + 1,
    count: records.count,
    sum: records.all.reduce((sum, { serial }) => sum + serial, 0),
    nextSerial: Math.max(newest.nextSerial, lastSerial + 1),
    writtenAtMs: Math.max(...marks.map(({ writtenAtMs }) => writtenAtMs), 0),
  }
  await writeWhole(folder.store, { records: records.all, mark })
  const store = await openLevel(folder.store)
  const damage = {
    missing: Math.max(0, newest.count - records.count - leftOut),
    restored: records.count,
    setAsideAs: folder.nameAside('damaged', options.nowMs()),
  }
  options.onDamage(damage)
  await folder.setAside(damage.setAsideAs, ['opening'])
  return { store, mark, records, leftOut, tooMany: [], damage }
}

/** Where damage made LevelDB forget tables, its repair finds what is in them. Nothing, if LevelDB asserts at it. */
async function readRepaired(options: OpenStoreOptions): Promise<Contents[]> {
  const { opening, rescue } = options.folder
  await keepFiles(opening, rescue)
  const trial = await tryLevel(rescue, { repairs: true })
  if (trial === 'killed') throw new Error('its repair was killed: start again')
  const found: Contents[] = []
  if (trial !== 'asserts') {
    const { store, contents } = await openAndRead(rescue, options)
    await store?.close()
    found.push(contents)
  }
  await rm(rescue, { recursive: true, force: true })
  return found
}

const recordsPerWrite = 1_000

async function writeWhole(
  path: string,
  { records, mark }: { records: readonly RestoredRecord[]; mark: BatchMark },
): Promise<void> {
  await makeFolder(path)
  const store = await openLevel(path)
  try {
    for (let from = 0; from < records.length; from += recordsPerWrite) {
      await store.write((batch) => {
        for (const record of records.slice(from, from + recordsPerWrite)) {
          const key = keyOf(record.serial)
          batch.put(key, encodeRecord(key, record))
        }
      })
    }
    await store.write((batch) => putMark(batch, mark))
    await store.sync()
  } finally {
    await store.close()
  }
  await syncPath(path)
}
