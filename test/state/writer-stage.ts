import { onTestFinished } from 'vitest'
import { type BatchMark, emptyMark } from '../../src/state/batch.ts'
import type { LevelStore } from '../../src/state/level-state.ts'
import type { StateRecord } from '../../src/state/state.ts'
import { createWriter } from '../../src/state/writer.ts'
import { keptLog } from '../support/observing/log-lines.ts'
import { record } from './support.ts'

/** A writer over a store in memory that can be made to fail. */
export async function stage() {
  const content = new Map<string, string>()
  const faults = { write: false, open: false, get: false, sync: false, writtenAllTheSame: false }
  const calls: string[] = []
  let writing = Promise.resolve()
  let syncing = Promise.resolve()
  let opening = Promise.resolve()
  const marks: BatchMark[] = []
  let isBroken = false
  const broken = () => Promise.reject(new Error('IO error: No space left on device'))
  const store: LevelStore = {
    async write(fill) {
      const changes: { key: string; value?: string }[] = []
      fill({ put: (key, value) => changes.push({ key, value }), del: (key) => changes.push({ key }) })
      calls.push(`write ${changes.filter(({ key }) => key !== markKey).length}`)
      const isRefused = isBroken || faults.write
      // A LevelDB that failed stays failed until it is opened again.
      isBroken ||= faults.write
      if (!isRefused || faults.writtenAllTheSame) {
        for (const { key, value } of changes) {
          if (value === undefined) content.delete(key)
          else content.set(key, value)
        }
      }
      await writing
      if (isRefused) return broken()
    },
    async sync() {
      calls.push('sync')
      await syncing
      if (faults.sync) return broken()
    },
    async get(key) {
      if (faults.get) return broken()
      return content.get(key)
    },
    read: async () => {},
    async close() {
      calls.push('close')
    },
  }
  const { logger: log, lines } = await keptLog()
  const failures: string[] = []
  const memory = new Map<number, StateRecord>()
  const writer = createWriter({
    store,
    mark: emptyMark,
    async openAgain() {
      calls.push('open')
      await opening
      calls.push('opened')
      if (faults.open) return broken()
      isBroken = false
      return store
    },
    async replaceStore() {
      calls.push('replace')
      content.clear()
      return store
    },
    everything: () => memory,
    async writeSyncMark(mark) {
      calls.push('mark')
      marks.push(mark)
    },
    nowMs: () => 1_763_651_841_000,
    observer: { failed: (operation) => failures.push(operation) },
    log,
  })
  onTestFinished(() => writer.close())
  return {
    ...{ writer, content, faults, calls, failures, lines, memory, marks },
    note(number: number) {
      const serial = writer.note(record(number))
      memory.set(serial, record(number))
      return serial
    },
    holdWrite() {
      const { promise, release } = held()
      writing = promise
      return release
    },
    holdSync() {
      const { promise, release } = held()
      syncing = promise
      return release
    },
    holdOpen() {
      const { promise, release } = held()
      opening = promise
      return release
    },
  }
}

function held() {
  let release = () => {}
  const promise = new Promise<void>((resolve) => {
    release = resolve
  })
  onTestFinished(() => release())
  return { promise, release }
}

/** Of a batch that has no record to stand at. */
const markKey = emptyMark.key
/** What is in the store besides the mark. */
export const recordsIn = (content: Map<string, string>) => content.size - Number(content.has(markKey))
