import type { BatchMark } from './batch.ts'
import { type Folder, makeFolder, type SyncMark } from './folder.ts'
import { type LevelStore, openLevel, StoreInUse } from './level-state.ts'
import { isOfTheSystem, type OpenedStore } from './open-store.ts'
import type { MirroredMemory, Restored, State, StateTools } from './state.ts'
import { createWriter, type Writer } from './writer.ts'

export interface StateParts extends StateTools {
  folder: Folder
  lock: LevelStore
  salt: string
  /** What the last process said of the store. */
  synced: SyncMark
  opened: OpenedStore
  /** How many folders were set aside. */
  setAside: number
}

/** Looking at every file costs more than it tells. */
const measureEveryMs = 5_000

/** The state over a store that is open and was read. */
export async function createState(parts: StateParts): Promise<State> {
  const { folder, lock, opened, synced, nowMs } = parts
  const { damage, records } = opened
  let { setAside } = parts
  let writer: Writer | undefined
  let closing: Promise<void> | undefined
  let bytes = await folder.tidyStore()
  let measuredAtMs = performance.now()
  let syncedAtMs = nowMs()
  // From now on an end is clean only if `close` says so.
  await folder.writeSyncMark({ ...opened.mark, isClean: false })

  async function writeSyncMark(mark: BatchMark, isClean: boolean): Promise<void> {
    await folder.writeSyncMark({ ...mark, isClean })
    syncedAtMs = nowMs()
    if (performance.now() - measuredAtMs < measureEveryMs) return
    measuredAtMs = performance.now()
    bytes = await folder.tidyStore()
  }

  async function openAgain(): Promise<LevelStore | undefined> {
    try {
      return await openLevel(folder.store)
    } catch (error) {
      if (error instanceof StoreInUse || isOfTheSystem(error)) throw error
      return undefined
    }
  }

  async function replaceStore(): Promise<LevelStore> {
    const setAsideAs = folder.nameAside('damaged', nowMs())
    await folder.setAside(setAsideAs, ['store'])
    setAside = await folder.countSetAside()
    parts.log.error({ setAsideAs }, 'STATE_DIRECTORY lost records: writing them again from memory')
    await makeFolder(folder.store)
    return openLevel(folder.store)
  }

  function restore(mirrored: MirroredMemory): Restored {
    const { observer, log } = parts
    const { store, mark } = opened
    const { everything } = mirrored
    const { writtenAtMs } = restoredFrom()
    // A clock that is doubted must not become the one that the next start goes by.
    const markedMs = () => (mirrored.isTimeDoubted() ? writtenAtMs : nowMs())
    const own = { store, mark, openAgain, replaceStore, everything, writeSyncMark }
    writer = createWriter({ ...own, nowMs: markedMs, observer, log })
    for (const serial of opened.tooMany) writer.forget(serial)
    return { ...restoredFrom(), records: records.take() }
  }

  function restoredFrom(): Omit<Restored, 'records'> {
    return {
      lastSerial: opened.mark.nextSerial - 1,
      // Of a store that was written after that, another process wrote the note of a clean end.
      isClean: synced.isClean && synced.number === opened.mark.number && damage === undefined,
      writtenAtMs: Math.max(opened.mark.writtenAtMs, synced.writtenAtMs),
    }
  }

  function theWriter(): Writer {
    if (writer === undefined) throw new Error('the state was not restored yet')
    return writer
  }

  /** As it was found, because nothing was noted: a part that failed later ended this start. */
  async function closeUnused(): Promise<void> {
    await opened.store.close()
    if (restoredFrom().isClean) await folder.writeSyncMark(synced)
  }

  async function close(): Promise<void> {
    try {
      if (writer === undefined) await closeUnused()
      else await writer.close()
    } finally {
      await lock.close()
    }
  }

  const restored = records.count
  return {
    salt: parts.salt,
    note: (record) => theWriter().note(record),
    forget: (serial) => theWriter().forget(serial),
    restore,
    close: () => {
      closing ??= close()
      return closing
    },
    facts: {
      get records() {
        return writer?.mark.count ?? opened.mark.count
      },
      get bytes() {
        return bytes
      },
      get backlog() {
        return writer?.backlog ?? 0
      },
      get isWriting() {
        return writer?.isWriting ?? true
      },
      get syncedAtMs() {
        return writer?.isSynced === true ? nowMs() : syncedAtMs
      },
      get setAside() {
        return setAside
      },
      restored,
      missing: damage?.missing ?? 0,
    },
  }
}
