import { spawnSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { LevelStore } from '../../src/state/level-state.ts'
import { emptyMark } from '../../src/state/record-codec.ts'
import type { StateRecord } from '../../src/state/state.ts'
import { createWriter } from '../../src/state/writer.ts'
import { keptLog, levels } from '../support/observing/log-lines.ts'
import { idsOf, newFolder, opened, record, untilTrue, untilWritten } from './support.ts'

/** A writer over a store in memory that can be made to fail. */
async function stage() {
  const content = new Map<string, string>()
  const faults = { write: false, open: false, sync: false, writtenAllTheSame: false }
  const calls: string[] = []
  let syncing = Promise.resolve()
  let isBroken = false
  const broken = () => Promise.reject(new Error('IO error: No space left on device'))
  const store: LevelStore = {
    async write(operations) {
      calls.push(`write ${operations.length - 1}`)
      const isRefused = isBroken || faults.write
      // A LevelDB that failed stays failed until it is opened again.
      isBroken ||= faults.write
      if (!isRefused || faults.writtenAllTheSame) {
        for (const operation of operations) {
          if (operation.type === 'put') content.set(operation.key, operation.value)
          else content.delete(operation.key)
        }
      }
      if (isRefused) return broken()
    },
    async sync() {
      calls.push('sync')
      await syncing
      if (faults.sync) return broken()
    },
    get: async (key) => content.get(key),
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
    writeSyncMark: async () => {},
    nowMs: () => 1_763_651_841_000,
    wallAheadMs: () => 0,
    observer: { failed: (operation) => failures.push(operation) },
    log,
  })
  onTestFinished(() => writer.close())
  return {
    ...{ writer, content, faults, calls, failures, lines, memory },
    note(number: number) {
      const serial = writer.note(record(number))
      memory.set(serial, record(number))
      return serial
    },
    holdSync() {
      let release = () => {}
      syncing = new Promise((resolve) => {
        release = resolve
      })
      onTestFinished(() => release())
      return release
    },
  }
}

/** What is in the store besides the mark. */
const recordsIn = (content: Map<string, string>) => content.size - Number(content.has('!'))

test('what is noted at about the same time is written in one batch', async () => {
  const { writer, note, calls } = await stage()
  for (let number = 0; number < 100; number += 1) note(number)
  await untilTrue(() => writer.backlog === 0, 'the batch')
  expect(calls.filter((call) => call.startsWith('write'))).toEqual(['write 100'])
})

test('a batch is so small that no request waits for it to be encoded', async () => {
  const { writer, note, calls } = await stage()
  for (let number = 0; number < 1_000; number += 1) note(number)
  await untilTrue(() => writer.backlog === 0, 'the batches')
  expect(calls.filter((call) => call.startsWith('write'))).toEqual(Array(4).fill('write 250'))
})

test('a sync that takes long holds up nothing that is written behind it', async () => {
  const { writer, note, calls, content, holdSync } = await stage()
  const release = holdSync()
  note(1)
  await untilTrue(() => calls.includes('sync'), 'the sync to begin')
  note(2)
  await untilTrue(() => writer.backlog === 0, 'the second batch')
  expect(recordsIn(content)).toBe(2)
  expect(calls.filter((call) => call === 'sync')).toHaveLength(1)
  release()
  await untilTrue(() => calls.filter((call) => call === 'sync').length === 2, 'the sync of the second batch')
})

test('a store that fails is counted, said once, opened again until it is well, and then has everything', async () => {
  const { writer, note, calls, content, faults, failures, lines } = await stage()
  faults.write = true
  faults.open = true
  note(1)
  await untilTrue(() => failures.length === 2, 'the first retry')
  for (let number = 2; number < 600; number += 1) note(number)
  expect(writer.isWriting).toBe(false)
  expect(writer.backlog).toBe(599)
  expect(failures).toEqual(['write', 'open'])
  expect(lines(levels.error)).toHaveLength(1)
  faults.write = false
  faults.open = false
  await untilTrue(() => writer.isWriting && writer.backlog === 0, 'the store to be well')
  expect(recordsIn(content)).toBe(599)
  expect(calls.filter((call) => call === 'open').length).toBeGreaterThanOrEqual(2)
  await untilTrue(() => lines(levels.info).length === 2, 'the line that says so')
  expect(lines(levels.error)).toHaveLength(1)
})

test('what waits while the store fails is no more than memory holds, and what it has to remove', async () => {
  const { writer, note, faults, failures } = await stage()
  faults.write = true
  faults.open = true
  note(0)
  await untilTrue(() => failures.length > 0, 'the failure')
  for (let number = 1; number < 10_000; number += 1) writer.forget(note(number))
  expect(writer.backlog).toBe(1)
})

test('a batch that failed and was written all the same counts once', async () => {
  const { writer, note, content, faults } = await stage()
  faults.write = true
  faults.writtenAllTheSame = true
  const serial = note(1)
  await untilTrue(() => !writer.isWriting, 'the failure')
  writer.forget(serial)
  faults.write = false
  await untilTrue(() => writer.isWriting && writer.backlog === 0, 'the store to be well')
  expect(writer.mark.count).toBe(0)
  expect(recordsIn(content)).toBe(0)
})

test('a batch that failed and was not written is written, less what was forgotten meanwhile', async () => {
  const { writer, note, content, faults } = await stage()
  faults.write = true
  const serial = note(1)
  note(2)
  await untilTrue(() => !writer.isWriting, 'the failure')
  writer.forget(serial)
  faults.write = false
  await untilTrue(() => writer.isWriting && writer.backlog === 0, 'the store to be well')
  expect(writer.mark.count).toBe(1)
  expect(recordsIn(content)).toBe(1)
})

test('a store that lost what it had is written again out of memory', async () => {
  const { writer, note, content, faults, calls } = await stage()
  for (let number = 0; number < 300; number += 1) note(number)
  await untilTrue(() => writer.backlog === 0, 'the batches')
  faults.write = true
  note(300)
  await untilTrue(() => !writer.isWriting, 'the failure')
  content.clear()
  faults.write = false
  await untilTrue(() => writer.isWriting && writer.backlog === 0, 'the store to be well')
  expect(calls).toContain('replace')
  expect(recordsIn(content)).toBe(301)
  expect(writer.mark.count).toBe(301)
})

test('a sync that fails is a failure too', async () => {
  const { writer, note, faults, failures } = await stage()
  faults.sync = true
  note(1)
  await untilTrue(() => failures.includes('sync'), 'the failure')
  faults.sync = false
  await untilTrue(() => writer.isWriting, 'the store to be well')
})

/** A file system of one megabyte, where this machine lets us have one. */
function smallDisk(): string | undefined {
  const folder = newFolder()
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', folder]).status !== 0) return undefined
  onTestFinished(() => void spawnSync('umount', ['--lazy', folder]))
  return folder
}

test('a disk that fills up costs no record once it has room again', async () => {
  const folder = smallDisk()
  // The tests above make a store fail.
  if (folder === undefined) return
  const first = await opened(folder)
  first.note(record(0))
  await untilWritten(first)
  const filler = join(folder, 'filler')
  spawnSync('dd', ['if=/dev/zero', `of=${filler}`, 'bs=4k'], { stdio: 'ignore' })
  for (let number = 1; number < 5_000; number += 1) first.note(record(number))
  await untilTrue(() => !first.state.facts.isWriting, 'the disk to be full')
  expect(first.lines(levels.error)).toHaveLength(1)
  expect(JSON.stringify(first.lines(levels.error))).toContain('No space left on device')
  rmSync(filler)
  await untilTrue(
    () => first.state.facts.isWriting && first.state.facts.backlog === 0,
    'the store to be well',
  )
  await first.state.close()
  const { restored, lines } = await opened(folder)
  expect(idsOf(restored.records)).toHaveLength(5_000)
  expect(lines(levels.warn)).toEqual([])
  expect(readFileSync(join(folder, 'synced'), 'utf8')).toContain('5000')
}, 60_000)

test('a disk that is full at the start refuses it', async () => {
  const folder = smallDisk()
  if (folder === undefined) return
  writeFileSync(join(folder, 'filler'), '')
  spawnSync('dd', ['if=/dev/zero', `of=${join(folder, 'filler')}`, 'bs=4k'], { stdio: 'ignore' })
  await expect(opened(folder)).rejects.toThrow(/^STATE_DIRECTORY=.* cannot be used: /)
})
