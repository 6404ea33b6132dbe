import { open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { ClassicLevel } from 'classic-level'
import { StateError } from '../process/state-error.ts'

/** What is written together. */
export interface Batch {
  put(key: string, value: string): void
  del(key: string): void
}

/** One LevelDB. Once an operation has failed, all fail until it is opened again. */
export interface LevelStore {
  /** All that `fill` adds or nothing of it. It survives the process, not yet the machine. */
  write(fill: (batch: Batch) => void): Promise<void>
  /** Makes what was written survive the machine. Writes go on meanwhile. */
  sync(): Promise<void>
  get(key: string): Promise<string | undefined>
  /** Reads all entries in the order of their keys. Rejects at the first that cannot be read. */
  read(visit: (key: string, value: string) => void): Promise<void>
  close(): Promise<void>
}

/** Another process has the store open. */
export class StoreInUse extends Error {}

const entriesPerRead = 1_000
/** So many that no read ends before it has all its entries: each read costs a turn of the event loop. */
const bytesPerRead = 2 ** 20
/** Nothing is read twice. */
const cacheBytes = 65_536
/** LevelDB's log grows to this size before it becomes a table. Of 4 MiB, its default, a small ledger would fill a part. */
const writeBufferBytes = 2 ** 19

/** Loaded only where STATE_DIRECTORY is set. It is optional, and compiled for some machines only. */
export async function loadLevel(
  load: () => Promise<{ ClassicLevel: typeof ClassicLevel }> = () => import('classic-level'),
): Promise<typeof ClassicLevel> {
  try {
    return (await load()).ClassicLevel
  } catch (cause) {
    throw new StateError(
      `STATE_DIRECTORY needs the package classic-level, which is not installed or has no build for this machine (${process.platform} ${process.arch})`,
      { cause },
    )
  }
}

export async function openLevel(folder: string): Promise<LevelStore> {
  const Level = await loadLevel()
  const level = new Level<string, string>(folder, {
    keyEncoding: 'utf8',
    valueEncoding: 'utf8',
    cacheSize: cacheBytes,
    writeBufferSize: writeBufferBytes,
  })
  try {
    await level.open()
  } catch (error) {
    // The package wraps the reason in an error of its own.
    const { cause = error } = error as Error
    throw (cause as { code?: string }).code === 'LEVEL_LOCKED' ? new StoreInUse(folder, { cause }) : cause
  }
  return {
    async write(fill) {
      const batch = level.batch()
      fill(batch)
      await batch.write()
    },
    sync: () => (process.platform === 'win32' ? syncByStore(level) : syncFiles(folder)),
    get: (key) => level.get(key),
    async read(visit) {
      const iterator = level.iterator({ highWaterMarkBytes: bytesPerRead })
      try {
        let entries = await iterator.nextv(entriesPerRead)
        while (entries.length > 0) {
          // Read while these are visited.
          const next = iterator.nextv(entriesPerRead)
          for (const [key, value] of entries) visit(key, value)
          entries = await next
        }
      } finally {
        await iterator.close()
      }
    },
    close: () => level.close(),
  }
}

/**
 * LevelDB's own sync would hold up the writes that come behind it. What is in no log any more is in a table, and
 * LevelDB syncs tables itself.
 */
async function syncFiles(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (name.endsWith('.log')) await syncPath(join(folder, name))
  }
  await syncPath(folder)
}

export async function syncPath(path: string): Promise<void> {
  // Missing: LevelDB has moved the log into a table meanwhile.
  const file = await open(path, 'r').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  try {
    await file?.sync()
  } finally {
    await file?.close()
  }
}

/** Where an open log cannot be opened a second time. Nothing reads this entry. */
function syncByStore(level: ClassicLevel<string, string>): Promise<void> {
  return level.del('-', { sync: true })
}
