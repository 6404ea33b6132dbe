import { readdirSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { DiskOptions } from '../../src/memory/disk.ts'
import type { DiskFile } from '../../src/memory/segments.ts'
import { deferred } from '../support/clients/quotes.ts'
import { pause, until } from '../support/gateways/between.ts'
import { levels } from '../support/observing/log-lines.ts'
import {
  appendInSteps,
  appendSome,
  asIfKilled,
  clockAt,
  hurriedTimers,
  ids,
  idsOf,
  newFolder,
  noon,
  noted,
  opened,
  segmentsOf,
  untilWritten,
} from './disk-support.ts'

type Step = 'open' | 'head' | 'write' | 'sync'

/** A disk of which single steps can be made to fail or to hang. */
class FaultyDisk {
  readonly calls: Step[] = []
  readonly failing = new Set<Step>()
  /** So many bytes of a write that fails are still written. */
  tornAt = 0
  openFiles = 0
  #hanging = new Map<Step, Promise<void>>()

  readonly openFile: NonNullable<DiskOptions['openFile']> = async (path, flags, mode) => {
    await this.#step('open')
    const file = await open(path, flags, mode)
    this.openFiles += 1
    onTestFinished(() => file.close().catch(() => {}))
    let isHead = true
    const faulty: DiskFile = {
      appendFile: async (bytes) => {
        const step = isHead ? 'head' : 'write'
        isHead = false
        if (this.failing.has(step)) await file.appendFile(bytes.subarray(0, this.tornAt))
        await this.#step(step)
        await file.appendFile(bytes)
      },
      truncate: (bytes) => file.truncate(bytes),
      datasync: async () => {
        await this.#step('sync')
        await file.datasync()
      },
      close: async () => {
        this.openFiles -= 1
        await file.close()
      },
    }
    return faulty
  }

  /** Until the returned function is called. */
  hang(step: Step): () => void {
    const { promise, resolve } = deferred<void>()
    this.#hanging.set(step, promise)
    const release = () => {
      this.#hanging.delete(step)
      resolve()
    }
    onTestFinished(release)
    return release
  }

  async #step(step: Step): Promise<void> {
    this.calls.push(step)
    await this.#hanging.get(step)
    if (this.failing.has(step))
      throw Object.assign(new Error(`EIO: i/o error, ${step}`), { code: 'EIO' })
  }
}

async function openedOn(disk: FaultyDisk, options: Partial<DiskOptions> = {}) {
  const folder = newFolder()
  const clock = clockAt(noon, 1_000, hurriedTimers)
  return {
    ...(await opened(folder, { openFile: disk.openFile, clock, ...options })),
    folder,
    clock,
  }
}

/** A disk that has taken one record. */
async function begunOn(disk: FaultyDisk) {
  const begun = await openedOn(disk)
  appendSome(begun, 0, 1)
  await untilWritten(begun)
  return begun
}

describe.each<[string, Step, number]>([
  ['opened', 'open', 0],
  ['begun', 'head', 10],
  ['written but in part', 'write', 77],
])('while nothing can be %s', (_, step, tornAt) => {
  test('that is counted and logged once, and what waited is written when it can be', async () => {
    const disk = new FaultyDisk()
    const { journal, lines, folder, clock } = await begunOn(disk)
    disk.tornAt = tornAt
    // Another segment is opened only where the last one fails.
    disk.failing.add('write').add(step)
    appendSome({ journal }, 1, 25)
    const failed = () => journal.facts.failures[step === 'write' ? 'write' : 'open']
    await until(() => failed() >= 3, 'three failures of its kind')
    // A full disk may still take an empty file.
    disk.failing.clear()
    disk.failing.add('write')
    const writes = journal.facts.failures.write
    await until(() => journal.facts.failures.write > writes, 'a write that fails')
    expect(journal.facts).toMatchObject({ waiting: 24, awaySinceMs: noon })
    const [line, ...more] = lines()
    expect(line).toMatchObject({ level: levels.error, cause: { code: 'EIO' } })
    expect(line?.msg).toContain('STATE_DIRECTORY cannot be written to')
    expect(more).toEqual([])
    clock.advance(5_000)
    // Set back meanwhile, which does not make it shorter.
    clock.wall -= 3_600_000
    disk.failing.clear()
    await untilWritten({ journal })
    expect(journal.facts.awaySinceMs).toBeUndefined()
    const back = {
      level: levels.info,
      msg: 'STATE_DIRECTORY is written to again',
      forMs: 5_000,
    }
    expect(lines()[1]).toMatchObject(back)
    await journal.close()
    // The real disk below may be slow on a busy machine, which is said without a cause.
    expect(lines().filter(({ cause }) => cause !== undefined)).toHaveLength(1)
    const second = await opened(folder)
    expect(idsOf(second.memory.restored)).toEqual(ids(0, 25))
    expect(second.memory.doubts).toBe(0)
    expect(second.journal.facts.skipped).toBe(0)
    expect(second.lines()).toEqual([])
    // No segment without records is left.
    expect(segmentsOf(folder)).toHaveLength(2)
  })
})

test.each<Step>(['head', 'write'])(
  'where the first segment has no %s, nothing of it is left',
  async (step) => {
    const disk = new FaultyDisk()
    disk.failing.add(step)
    const { journal, folder, lines } = await openedOn(disk)
    appendSome({ journal }, 0, 5)
    const { failures } = journal.facts
    await until(() => failures.open + failures.write >= 2, 'two failures')
    await until(() => readdirSync(folder).length === 1, 'it to go')
    expect(lines()).toMatchObject([{ level: levels.error }])
    disk.failing.clear()
    await untilWritten({ journal })
    expect(segmentsOf(folder)).toEqual(['journal-1.ndjson'])
  },
)

test('at most 100,000 records wait, the oldest go first, and the end is not clean', async () => {
  const disk = new FaultyDisk()
  const { journal, folder, lines } = await begunOn(disk)
  disk.failing.add('write')
  appendSome({ journal }, 1, 110_000)
  expect(journal.facts.waiting).toBeLessThanOrEqual(100_000)
  await until(() => journal.facts.failures.write > 0, 'a failure')
  expect(journal.facts.waiting).toBeLessThanOrEqual(100_000)
  disk.failing.clear()
  await untilWritten({ journal })
  await journal.close()
  expect(lines(levels.error).at(-1)?.msg).toContain('stopped before these records')
  const { memory } = await opened(folder)
  expect(memory.doubts).toBe(1)
  expect(memory.restored.length).toBeGreaterThanOrEqual(99_000)
  expect(idsOf(memory.restored).at(-1)).toBe('quote-109999')
})

test('an end at which the disk fails says how many records are lost, and the next start doubts', async () => {
  const disk = new FaultyDisk()
  const { journal, lines, folder } = await begunOn(disk)
  disk.failing.add('write')
  appendSome({ journal }, 1, 8)
  await journal.close()
  expect(lines(levels.error).at(-1)).toMatchObject({ records: 7 })
  expect((await opened(folder)).memory).toMatchObject({ doubts: 1, restored: [noted(0)] })
})

describe('a disk that hangs', () => {
  test('at a write: what is appended meanwhile waits for no disk, is logged once and written behind it', async () => {
    const disk = new FaultyDisk()
    const { journal, lines, folder } = await begunOn(disk)
    const release = disk.hang('write')
    appendSome({ journal }, 1, 50)
    await until(() => lines().length > 0, 'the line')
    appendSome({ journal }, 50, 100)
    await pause(100)
    expect(journal.facts).toMatchObject({
      waiting: 99,
      failures: { open: 0, write: 0, sync: 0 },
      awaySinceMs: noon,
    })
    expect(lines()).toMatchObject([
      { level: levels.error, operation: 'write', longerThanMs: 5_000 },
    ])
    release()
    await untilWritten({ journal })
    expect(journal.facts.awaySinceMs).toBeUndefined()
    expect(lines()).toHaveLength(2)
    await journal.close()
    expect((await opened(folder)).memory.restored).toHaveLength(100)
  })

  test('at a sync: later writes go on, and no second sync begins', async () => {
    const disk = new FaultyDisk()
    const { journal, lines, folder } = await openedOn(disk)
    const release = disk.hang('sync')
    for (let number = 0; number < 20; number += 1) {
      appendSome({ journal }, number, number + 1)
      await untilWritten({ journal })
      await pause(40)
    }
    expect(disk.calls.filter((call) => call === 'sync')).toHaveLength(1)
    expect(lines()).toMatchObject([{ level: levels.error, operation: 'sync' }])
    expect(journal.facts.awaySinceMs).toBeDefined()
    expect((await opened(asIfKilled(folder))).memory.restored).toHaveLength(20)
    release()
    await until(() => journal.facts.awaySinceMs === undefined, 'the sync')
    expect(lines()).toHaveLength(2)
  })

  test('at the end: a line says what is waited for, and all is there afterwards', async () => {
    const disk = new FaultyDisk()
    const { journal, lines, folder } = await begunOn(disk)
    const release = disk.hang('write')
    const writes = () => disk.calls.filter((call) => call === 'write').length
    appendSome({ journal }, 1, 2)
    await until(() => writes() === 2, 'the write')
    appendSome({ journal }, 2, 3)
    const closing = journal.close()
    const isSaid = ({ msg }: { msg: string }) =>
      msg === 'stopping: waiting for the disk of STATE_DIRECTORY'
    await until(() => lines(levels.warn).some(isSaid), 'the line')
    release()
    await closing
    const { memory } = await opened(folder)
    expect(idsOf(memory.restored)).toEqual(ids(0, 3))
    expect(memory.doubts).toBe(0)
  })
})

test('a sync that fails is counted, logged once, and tried again', async () => {
  const disk = new FaultyDisk()
  const { journal, lines } = await openedOn(disk)
  disk.failing.add('sync')
  appendSome({ journal }, 0, 1)
  await until(() => journal.facts.failures.sync === 1, 'the failure')
  appendSome({ journal }, 1, 2)
  await untilWritten({ journal })
  expect(journal.facts.awaySinceMs).toBe(noon)
  expect(lines()).toHaveLength(1)
  disk.failing.clear()
  await until(() => journal.facts.awaySinceMs === undefined, 'the next sync')
  expect(lines()).toHaveLength(2)
})

test('records that are appended at about the same time are one write', async () => {
  const disk = new FaultyDisk()
  const begun = await openedOn(disk)
  appendSome(begun, 0, 500)
  expect(begun.journal.facts).toMatchObject({ appended: 500, waiting: 500 })
  await untilWritten(begun)
  expect(disk.calls.filter((call) => call === 'write')).toHaveLength(1)
})

test('a segment that is left is synced and closed', async () => {
  const disk = new FaultyDisk()
  const { journal } = await openedOn(disk, { maxRecords: 200 })
  await appendInSteps({ journal }, 0, 500)
  await until(() => disk.openFiles === 1, 'the others to be closed')
  await journal.close()
  expect(disk.openFiles).toBe(0)
})
