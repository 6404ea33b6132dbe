import { spawnSync } from 'node:child_process'
import { readdirSync, rmSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { DiskOptions } from '../../src/journal/disk.ts'
import type { DiskFile } from '../../src/journal/segments.ts'
import { pause, until } from '../support/gateways/between.ts'
import { levels } from '../support/observing/log-lines.ts'
import {
  asIfKilled,
  idsOf,
  newFolder,
  noted,
  type Opened,
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
  #hanging = new Map<Step, Promise<void>>()

  readonly openFile: NonNullable<DiskOptions['openFile']> = async (path, flags, mode) => {
    await this.#step('open')
    const file = await open(path, flags, mode)
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
      close: () => file.close(),
    }
    return faulty
  }

  /** Until the returned function is called. */
  hang(step: Step): () => void {
    let release = () => {}
    const hanging = new Promise<void>((resolve) => {
      release = resolve
    })
    this.#hanging.set(step, hanging)
    onTestFinished(() => release())
    return () => {
      this.#hanging.delete(step)
      release()
    }
  }

  async #step(step: Step): Promise<void> {
    this.calls.push(step)
    await this.#hanging.get(step)
    if (this.failing.has(step)) throw Object.assign(new Error(`EIO: i/o error, ${step}`), { code: 'EIO' })
  }
}

async function openedOn(disk: FaultyDisk) {
  const folder = newFolder()
  return { ...(await opened(folder, { openFile: disk.openFile })), folder }
}

function appendSome({ journal }: Pick<Opened, 'journal'>, from: number, to: number): void {
  for (let number = from; number < to; number += 1) journal.append(noted(number))
}

const ids = (from: number, to: number) => Array.from({ length: to - from }, (_, at) => `quote-${from + at}`)

describe.each<[string, Step, number]>([
  ['opened', 'open', 0],
  ['begun', 'head', 10],
  ['written', 'write', 0],
  ['written but in part', 'write', 77],
  ['written but for its last bytes', 'write', 4_000],
])('while nothing can be %s', (_, step, tornAt) => {
  test('that is counted and logged once, and what waited is written when it can be', async () => {
    const disk = new FaultyDisk()
    const { journal, lines, folder } = await openedOn(disk)
    appendSome({ journal }, 0, 5)
    await untilWritten({ journal })
    if (step === 'open' || step === 'head') {
      // Another segment is opened only where the last one fails.
      disk.failing.add('write')
      appendSome({ journal }, 5, 6)
      await until(() => journal.facts.failures.write === 1, 'a failure')
      disk.failing.delete('write')
    }
    disk.tornAt = tornAt
    disk.failing.add(step)
    appendSome({ journal }, 6, 25)
    const failed = () => journal.facts.failures.open + journal.facts.failures.write
    const before = failed()
    await until(() => failed() >= before + 2, 'two failures')
    expect(journal.facts.failures[step === 'write' ? 'write' : 'open']).toBeGreaterThan(0)
    expect(journal.facts.waiting).toBeGreaterThanOrEqual(19)
    expect(journal.facts.awaySinceMs).toBeDefined()
    expect(lines(levels.error)).toMatchObject([
      {
        msg: expect.stringContaining('STATE_DIRECTORY cannot be written to'),
        cause: { code: 'EIO' },
      },
    ])
    disk.failing.clear()
    await untilWritten({ journal })
    expect(journal.facts.awaySinceMs).toBeUndefined()
    expect(lines(levels.info).map(({ level, msg }) => `${level}: ${msg}`)).toEqual([
      expect.stringMatching(/^error/),
      'info: STATE_DIRECTORY is written to again',
    ])
    await journal.close()
    const { memory, lines: later, journal: second } = await opened(folder)
    const wanted = ids(0, 25).filter((id) => id !== 'quote-5' || step !== 'write')
    expect(idsOf(memory.restored)).toEqual(wanted)
    expect(memory.doubts).toBe(0)
    expect(second.facts.skipped).toBe(0)
    expect(later()).toEqual([])
    // No segment without records is left.
    expect(segmentsOf(folder)).toHaveLength(2)
  })
})

test.each<Step>(['head', 'write'])(
  'where the first segment has no %s, nothing of it is left',
  async (step) => {
    const disk = new FaultyDisk()
    disk.failing.add(step)
    const { journal, folder } = await openedOn(disk)
    appendSome({ journal }, 0, 5)
    const { failures } = journal.facts
    await until(() => failures.open + failures.write >= 2, 'two failures')
    await until(() => readdirSync(folder).length === 1, 'it to go')
    disk.failing.clear()
    await untilWritten({ journal })
    expect(segmentsOf(folder)).toEqual(['journal-1.ndjson'])
  },
)

test('at most 100,000 records wait, the oldest go first, and the end is not clean', async () => {
  const disk = new FaultyDisk()
  const { journal, folder, lines } = await openedOn(disk)
  appendSome({ journal }, 0, 1)
  await untilWritten({ journal })
  disk.failing.add('write')
  appendSome({ journal }, 1, 120_000)
  expect(journal.facts.waiting).toBeLessThanOrEqual(100_000)
  await until(() => journal.facts.failures.write > 0, 'a failure')
  expect(journal.facts.waiting).toBeLessThanOrEqual(100_000)
  disk.failing.clear()
  await untilWritten({ journal })
  await journal.close()
  expect(lines(levels.error).at(-1)).toMatchObject({
    msg: expect.stringContaining('stopped before these records'),
  })
  const { memory } = await opened(folder)
  expect(memory.doubts).toBe(1)
  expect(memory.restored.length).toBeGreaterThanOrEqual(99_000)
  expect(idsOf(memory.restored).at(-1)).toBe('quote-119999')
}, 60_000)

describe('a disk that hangs', () => {
  test('at a write: all that is appended meanwhile waits, is logged once and written behind it', async () => {
    const disk = new FaultyDisk()
    const { journal, lines, folder } = await openedOn(disk)
    appendSome({ journal }, 0, 1)
    await untilWritten({ journal })
    const release = disk.hang('write')
    const delays: number[] = []
    const until6s = performance.now() + 6_000
    for (let number = 1; performance.now() < until6s; number += 1) {
      const before = performance.now()
      journal.append(noted(number))
      delays.push(performance.now() - before)
      await pause(20)
    }
    // It appends in microseconds, and never waits for the disk.
    expect(delays.toSorted((one, other) => one - other)[Math.floor(delays.length / 2)]).toBeLessThan(5)
    expect(journal.facts).toMatchObject({ waiting: delays.length, failures: { open: 0, write: 0, sync: 0 } })
    expect(journal.facts.awaySinceMs).toBeDefined()
    expect(lines()).toMatchObject([{ level: levels.error, operation: 'write', longerThanMs: 5_000 }])
    release()
    await untilWritten({ journal })
    expect(journal.facts.awaySinceMs).toBeUndefined()
    expect(lines()).toHaveLength(2)
    await journal.close()
    expect((await opened(folder)).memory.restored).toHaveLength(delays.length + 1)
  }, 30_000)

  test('at a sync: later writes go on, and no second sync begins', async () => {
    const disk = new FaultyDisk()
    const { journal, lines, folder } = await openedOn(disk)
    const release = disk.hang('sync')
    for (let number = 0; number < 60; number += 1) {
      appendSome({ journal }, number, number + 1)
      await untilWritten({ journal })
      await pause(100)
    }
    expect(disk.calls.filter((call) => call === 'sync')).toHaveLength(1)
    expect(lines()).toMatchObject([{ level: levels.error, operation: 'sync' }])
    expect(journal.facts.awaySinceMs).toBeDefined()
    expect((await opened(asIfKilled(folder))).memory.restored).toHaveLength(60)
    release()
    await until(() => journal.facts.awaySinceMs === undefined, 'the sync')
    expect(lines()).toHaveLength(2)
  }, 30_000)

  test('at the end: a line says what is waited for, and all is there afterwards', async () => {
    const disk = new FaultyDisk()
    const { journal, lines, folder } = await openedOn(disk)
    appendSome({ journal }, 0, 1)
    await untilWritten({ journal })
    const release = disk.hang('write')
    appendSome({ journal }, 1, 2)
    await until(() => disk.calls.at(-1) === 'write' && disk.calls.length > 3, 'the write')
    appendSome({ journal }, 2, 3)
    const closing = journal.close()
    const isSaid = ({ msg }: { msg?: unknown }) => msg === 'stopping: waiting for the disk of STATE_DIRECTORY'
    await until(() => lines(levels.warn).some(isSaid), 'the line')
    release()
    await closing
    const { memory } = await opened(folder)
    expect(idsOf(memory.restored)).toEqual(ids(0, 3))
    expect(memory.doubts).toBe(0)
  }, 30_000)
})

test('a sync that fails is counted, logged once, and tried again', async () => {
  const disk = new FaultyDisk()
  const { journal, lines } = await openedOn(disk)
  disk.failing.add('sync')
  appendSome({ journal }, 0, 1)
  await until(() => journal.facts.failures.sync === 1, 'the failure')
  appendSome({ journal }, 1, 2)
  await untilWritten({ journal })
  const { awaySinceMs, syncedAtMs } = journal.facts
  expect(awaySinceMs).toBeDefined()
  expect(lines()).toHaveLength(1)
  disk.failing.clear()
  await until(() => journal.facts.awaySinceMs === undefined, 'the next sync')
  expect(journal.facts.syncedAtMs).toBeGreaterThanOrEqual(syncedAtMs)
  expect(lines()).toHaveLength(2)
}, 60_000)

test('an end at which the disk fails says how many records are lost, and the next start doubts', async () => {
  const disk = new FaultyDisk()
  const { journal, lines, folder } = await openedOn(disk)
  appendSome({ journal }, 0, 1)
  await untilWritten({ journal })
  disk.failing.add('write')
  appendSome({ journal }, 1, 8)
  await journal.close()
  expect(lines(levels.error).at(-1)).toMatchObject({ records: 7 })
  expect((await opened(folder)).memory).toMatchObject({ doubts: 1, restored: [noted(0)] })
})

test('a segment that is left is synced and closed', async () => {
  const disk = new FaultyDisk()
  let openFiles = 0
  const { openFile } = disk
  const journal = await opened(newFolder(), {
    maxRecords: 40,
    async openFile(path, flags, mode) {
      const file = await openFile(path, flags, mode)
      openFiles += 1
      return {
        ...file,
        async close() {
          openFiles -= 1
          await file.close()
        },
      }
    },
  })
  for (let number = 0; number < 100; number += 10) {
    appendSome(journal, number, number + 10)
    await untilWritten(journal)
  }
  await until(() => openFiles === 1, 'the others to be closed')
  await journal.journal.close()
  expect(openFiles).toBe(0)
})

/** A file system of one megabyte, where this machine lets us have one. */
function smallDisk(): string | undefined {
  const folder = newFolder()
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', folder]).status !== 0) return undefined
  onTestFinished(() => void spawnSync('umount', ['--lazy', folder]))
  return folder
}

function fill(folder: string): string {
  const filler = join(folder, 'filler')
  writeFileSync(filler, '')
  spawnSync('dd', ['if=/dev/zero', `of=${filler}`, 'bs=4k'], { stdio: 'ignore' })
  return filler
}

describe('a disk that is full', () => {
  test('costs no record once it has room again', async () => {
    const folder = smallDisk()
    // The faulty disk above fails as well.
    if (folder === undefined) return
    const first = await opened(folder)
    appendSome(first, 0, 1)
    await untilWritten(first)
    const filler = fill(folder)
    appendSome(first, 1, 3_000)
    await until(() => first.journal.facts.awaySinceMs !== undefined, 'the disk to be full')
    expect(first.lines(levels.error)).toMatchObject([{ cause: { code: 'ENOSPC' } }])
    rmSync(filler)
    await untilWritten(first)
    await first.journal.close()
    const { memory, lines } = await opened(folder)
    expect([...new Set(idsOf(memory.restored))]).toEqual(ids(0, 3_000))
    expect(memory.doubts).toBe(0)
    expect(lines()).toEqual([])
  }, 60_000)

  test('does not stop a start, which says so', async () => {
    const folder = smallDisk()
    if (folder === undefined) return
    const before = await opened(folder)
    appendSome(before, 0, 10)
    await before.journal.close()
    const filler = fill(folder)
    const { journal, memory, lines } = await opened(folder)
    expect(memory.restored).toHaveLength(10)
    appendSome({ journal }, 10, 20)
    await until(() => lines(levels.error).length > 0, 'the line')
    expect(journal.facts).toMatchObject({ waiting: 10, awaySinceMs: expect.any(Number) })
    rmSync(filler)
    await untilWritten({ journal })
    await journal.close()
    expect((await opened(folder)).memory).toMatchObject({ doubts: 0, restored: { length: 20 } })
  }, 60_000)
})
