import { existsSync, mkdirSync, readdirSync, rmdirSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { systemTimers } from '../../src/clock.ts'
import type { DiskFile, OpenFile } from '../../src/memory/appended-file.ts'
import type { DiskOptions } from '../../src/memory/disk.ts'
import { deferred } from '../support/clients/quotes.ts'
import { pause, until } from '../support/gateways/between.ts'
import { levels } from '../support/observing/log-lines.ts'
import {
  append,
  appendAll,
  appendSome,
  asIfKilled,
  clockAt,
  fileName,
  hurriedTimers,
  ids,
  idsOf,
  newFolder,
  noon,
  noted,
  noteds,
  type Opened,
  opened,
  untilWritten,
} from './disk-support.ts'

type Step = 'open' | 'write' | 'sync'

/** A disk of which single steps can be made to fail or to hang: of all files, or of those that take another's place. */
class FaultyDisk {
  readonly calls: Step[] = []
  readonly failing = new Set<Step>()
  /** So many bytes of a write that fails are still written. */
  tornAt = 0
  /** Whether a torn write can be cut off. */
  truncates = true
  onlyCopies = false
  openFiles = 0
  #hanging = new Map<Step, Promise<void>>()

  readonly openFile: OpenFile = async (path, flags, mode) => {
    const isHit = () => !this.onlyCopies || path.endsWith('.new')
    await this.#step('open', isHit())
    const file = await open(path, flags, mode)
    this.openFiles += 1
    onTestFinished(() => file.close().catch(() => {}))
    const faulty: DiskFile = {
      appendFile: async (bytes) => {
        if (this.failing.has('write') && isHit())
          await file.appendFile(bytes.subarray(0, this.tornAt))
        await this.#step('write', isHit())
        await file.appendFile(bytes)
      },
      truncate: async (bytes) => {
        if (!this.truncates) throw new Error('EIO: i/o error, truncate')
        await file.truncate(bytes)
      },
      datasync: async () => {
        await this.#step('sync', isHit())
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

  async #step(step: Step, isHit: boolean): Promise<void> {
    this.calls.push(step)
    if (!isHit) return
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
  await appendAll(begun, [noted(0)])
  return begun
}

/** Most of it is forgotten, so that the file is copied at the next look. */
async function longOn(disk: FaultyDisk) {
  const begun = await openedOn(disk)
  await appendAll(begun, noteds(0, 20_000))
  begun.memory.records = begun.memory.records.slice(-50)
  return begun
}

const failures = ({ journal }: Pick<Opened, 'journal'>) => journal.facts.failures

describe.each<[string, Step, number, boolean]>([
  ['written', 'write', 0, true],
  ['written but in part', 'write', 77, true],
  ['written but in part, which cannot be cut off for now', 'write', 77, false],
])('while nothing can be %s', (_, step, tornAt, truncates) => {
  test('that is counted and logged once, and what waited is written when it can be', async () => {
    const disk = new FaultyDisk()
    const begun = await begunOn(disk)
    const { journal, lines, folder, clock } = begun
    Object.assign(disk, { tornAt, truncates })
    disk.failing.add(step)
    appendSome(begun, 1, 25)
    await until(() => failures(begun).write >= 3, 'three failures')
    expect(journal.facts).toMatchObject({ waiting: 24, awaySinceMs: noon })
    const [line, ...more] = lines()
    expect(line).toMatchObject({ level: levels.error, cause: { code: 'EIO' } })
    expect(line?.msg).toContain('STATE_DIRECTORY cannot be written to')
    expect(more).toEqual([])
    clock.advance(5_000)
    // Set back meanwhile, which does not make it shorter.
    clock.wall -= 3_600_000
    disk.failing.clear()
    disk.truncates = true
    await untilWritten(begun)
    expect(journal.facts.awaySinceMs).toBeUndefined()
    const back = {
      level: levels.info,
      msg: 'STATE_DIRECTORY is written to again',
      forMs: expect.any(Number),
    }
    expect(lines()[1]).toMatchObject(back)
    expect(lines()[1]?.forMs).toBeGreaterThanOrEqual(0)
    const killed = await opened(asIfKilled(folder))
    expect(idsOf(killed.memory.restored)).toEqual(ids(0, 25))
    expect(killed.journal.facts.skipped).toBe(0)
    await journal.close()
    // The real disk below may be slow on a busy machine, which is said without a cause.
    expect(lines().filter(({ cause }) => cause !== undefined)).toHaveLength(1)
    const second = await opened(folder)
    expect(idsOf(second.memory.restored)).toEqual(ids(0, 25))
    expect(second.memory.doubts).toBe(0)
    expect(second.lines()).toEqual([])
  })
})

test.each<Step>(['open', 'write'])(
  'where the first file fails at its %s, nothing of it is left',
  async (step) => {
    const disk = new FaultyDisk()
    disk.failing.add(step)
    const begun = await openedOn(disk)
    appendSome(begun, 0, 5)
    await until(() => failures(begun).write >= 2, 'two failures')
    await until(() => readdirSync(begun.folder).length === 1, 'it to go')
    expect(begun.lines()).toMatchObject([{ level: levels.error }])
    disk.failing.clear()
    await untilWritten(begun)
    expect(readdirSync(begun.folder).sort()).toEqual([fileName, 'lock'])
  },
)

test('past 100,000 records that wait all is written from memory once the disk takes it', async () => {
  const disk = new FaultyDisk()
  const begun = await begunOn(disk)
  const { journal, folder, clock } = begun
  disk.failing.add('write')
  appendSome(begun, 1, 110_000)
  expect(journal.facts.waiting).toBeLessThanOrEqual(100_000)
  await until(() => failures(begun).write > 0, 'a failure')
  disk.failing.clear()
  await untilWritten(begun)
  clock.advance(600_000)
  await until(() => journal.facts.bytes > 10_000_000, 'the copy')
  const killed = await opened(asIfKilled(folder))
  expect(new Set(idsOf(killed.memory.restored)).size).toBe(110_000)
  await journal.close()
  const { memory } = await opened(folder, { clock })
  expect([memory.doubts, memory.restored.length]).toEqual([0, 110_000])
})

test('an end at which the disk fails says how many records are lost, and the next start doubts', async () => {
  const disk = new FaultyDisk()
  const begun = await begunOn(disk)
  disk.failing.add('write')
  appendSome(begun, 1, 8)
  await begun.journal.close()
  expect(begun.lines(levels.error).at(-1)).toMatchObject({ records: 7 })
  expect((await opened(begun.folder)).memory).toMatchObject({
    doubts: 1,
    restored: [noted(0)],
  })
})

describe('a disk that hangs', () => {
  test('at a write: what is appended meanwhile waits for no disk, is logged once and written behind it', async () => {
    const disk = new FaultyDisk()
    const begun = await begunOn(disk)
    const { journal, lines, folder } = begun
    const release = disk.hang('write')
    appendSome(begun, 1, 50)
    await until(() => lines().length > 0, 'the line')
    appendSome(begun, 50, 100)
    await pause(100)
    expect(journal.facts).toMatchObject({
      waiting: 99,
      failures: { write: 0, sync: 0 },
      awaySinceMs: noon,
    })
    expect(lines()).toMatchObject([
      { level: levels.error, operation: 'write', longerThanMs: 5_000 },
    ])
    release()
    await untilWritten(begun)
    expect(journal.facts.awaySinceMs).toBeUndefined()
    expect(lines()).toHaveLength(2)
    await journal.close()
    expect((await opened(folder)).memory.restored).toHaveLength(100)
  })

  test('at a write: an order with a key waits a second at most, and the next ones not at all until it works', async () => {
    const disk = new FaultyDisk()
    let waits = 0
    const timers: typeof systemTimers = {
      ...systemTimers,
      setTimeout(onTime, ms) {
        // A second is waited for in four parts (`inTime` in src/clock.ts).
        if (ms === 250) waits += 1
        return systemTimers.setTimeout(onTime, ms)
      },
    }
    const begun = await openedOn(disk, { clock: clockAt(noon, 1_000, timers) })
    const { keeper } = begun.journal
    await keeper.claim('one', '"claimed"')
    expect(waits).toBe(1)
    const release = disk.hang('write')
    await keeper.claim('two', '"claimed"')
    await keeper.claim('three', '"claimed"')
    expect(waits).toBe(1 + 4)
    release()
    await until(() => begun.journal.facts.waiting === 0, 'the keys')
    await keeper.claim('four', '"claimed"')
    const { keys } = await opened(asIfKilled(begun.folder))
    expect([...keys.kept.keys()]).toEqual(['one', 'two', 'three', 'four'])
  })

  test('at a sync: later writes go on, and no second sync begins', async () => {
    const disk = new FaultyDisk()
    const begun = await openedOn(disk)
    const { journal, lines, folder } = begun
    const release = disk.hang('sync')
    for (let number = 0; number < 20; number += 1) {
      await appendAll(begun, [noted(number)])
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
    const begun = await begunOn(disk)
    const { journal, lines, folder } = begun
    const release = disk.hang('write')
    const writes = () => disk.calls.filter((call) => call === 'write').length
    const before = writes()
    appendSome(begun, 1, 2)
    await until(() => writes() > before, 'the write')
    appendSome(begun, 2, 3)
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

test('a sync that fails is counted and logged once, and all is written again from memory: the disk may have lost it', async () => {
  const disk = new FaultyDisk()
  const begun = await begunOn(disk)
  const { journal, lines, folder } = begun
  disk.failing.add('sync')
  await until(() => failures(begun).sync === 1, 'the failure')
  await appendAll(begun, [noted(1)])
  expect(journal.facts.awaySinceMs).toBe(noon)
  expect(lines()).toHaveLength(1)
  await until(() => failures(begun).copy >= 1, 'a copy that fails too')
  disk.failing.clear()
  begun.clock.advance(60_000)
  await until(() => journal.facts.awaySinceMs === undefined, 'the copy')
  expect(lines()).toHaveLength(2)
  const { memory } = await opened(asIfKilled(folder))
  expect(idsOf(memory.restored)).toEqual(ids(0, 2))
})

describe('a copy', () => {
  test.each<Step>(['open', 'write', 'sync'])(
    'that fails at its %s leaves the file as it is, what comes is written to that, and it is tried again',
    async (step) => {
      const disk = new FaultyDisk()
      disk.onlyCopies = true
      disk.failing.add(step)
      const begun = await longOn(disk)
      const { journal, folder, lines } = begun
      await until(() => failures(begun).copy >= 1, 'the failure')
      // The real disk below may be slow on a busy machine, which is said without a cause.
      const failed = lines(levels.error).filter(({ cause }) => cause !== undefined)
      expect(failed).toMatchObject([{ operation: 'copy' }])
      await until(() => !existsSync(join(folder, `${fileName}.new`)), 'it to go')
      await journal.keeper.claim('key', '"claimed"')
      begun.keys.kept.set('key', '"claimed"')
      await appendAll(begun, [noted(20_000)])
      const killed = await opened(asIfKilled(folder))
      expect(killed.memory.restored).toHaveLength(20_001)
      expect([...killed.keys.kept.keys()]).toEqual(['key'])
      disk.failing.clear()
      begun.clock.advance(600_000)
      await until(() => journal.facts.bytes < 100_000, 'the copy')
      await until(() => journal.facts.awaySinceMs === undefined, 'the end of it')
      const after = await opened(asIfKilled(folder))
      expect(idsOf(after.memory.restored)).toEqual(ids(19_950, 20_001))
      expect([...after.keys.kept.keys()]).toEqual(['key'])
    },
  )

  test('whose name is taken fails likewise', async () => {
    const begun = await longOn(new FaultyDisk())
    const { journal, folder } = begun
    const inTheWay = join(folder, `${fileName}.new`)
    mkdirSync(inTheWay)
    await until(() => failures(begun).copy >= 1, 'the failure')
    await journal.keeper.claim('key', '"claimed"')
    rmdirSync(inTheWay)
    const killed = await opened(asIfKilled(folder))
    expect([...killed.keys.kept.keys()]).toEqual(['key'])
  })

  test.each<Step>(['write', 'sync'])(
    'that hangs at its %s holds up no key and no quote, and has them in the end',
    async (step) => {
      const disk = new FaultyDisk()
      disk.onlyCopies = true
      const release = disk.hang(step)
      const begun = await longOn(disk)
      const { journal, folder, keys } = begun
      await until(() => existsSync(join(folder, `${fileName}.new`)), 'the copy')
      await pause(20)
      append(begun, noteds(20_000, 20_100))
      for (const key of ['a', 'b', 'c']) {
        keys.kept.set(key, '"claimed"')
        await journal.keeper.claim(key, '"claimed"')
        // Before its order goes out.
        const killed = await opened(asIfKilled(folder))
        expect(killed.keys.kept.has(key)).toBe(true)
      }
      keys.kept.set('a', '"answered"')
      await journal.keeper.settle('a', '"answered"', 0)
      keys.release('b')
      await journal.keeper.settle('b', undefined, 0)
      await untilWritten(begun)
      release()
      await until(() => journal.facts.bytes < 100_000, 'the copy')
      const after = await opened(asIfKilled(folder))
      expect(idsOf(after.memory.restored)).toEqual(ids(19_950, 20_100))
      expect([...after.keys.kept]).toEqual([
        ['a', '"answered"'],
        ['c', '"claimed"'],
      ])
    },
  )
})

test('records that are appended at about the same time are one write', async () => {
  const disk = new FaultyDisk()
  const begun = await begunOn(disk)
  const writes = () => disk.calls.filter((call) => call === 'write').length
  const before = writes()
  appendSome(begun, 1, 501)
  expect(begun.journal.facts).toMatchObject({ appended: 501, waiting: 500 })
  await untilWritten(begun)
  expect(writes() - before).toBe(1)
})

test('a file that another one takes the place of is closed', async () => {
  const disk = new FaultyDisk()
  const { journal } = await longOn(disk)
  await until(() => journal.facts.bytes < 100_000, 'the copy')
  await until(() => disk.openFiles === 1, 'the other to be closed')
  await journal.close()
  expect(disk.openFiles).toBe(0)
})
