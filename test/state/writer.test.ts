import { expect, test } from 'vitest'
import { pause } from '../support/gateways/between.ts'
import { levels } from '../support/observing/log-lines.ts'
import { untilTrue } from './support.ts'
import { recordsIn, stage } from './writer-stage.ts'

test('records noted at about the same time are written in one batch', async () => {
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

test('a slow sync does not delay later writes', async () => {
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

test('a store that fails is counted, logged once, reopened until it works, and then has all records', async () => {
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

test('a store that can be opened and not written is logged once, and counts as down the whole time', async () => {
  const { writer, note, faults, failures, lines } = await stage()
  faults.write = true
  note(1)
  await untilTrue(() => failures.length === 3, 'two retries')
  expect(failures).toEqual(['write', 'write', 'write'])
  expect(writer.isWriting).toBe(false)
  expect(lines(levels.error)).toHaveLength(1)
  expect(lines(levels.info)).toHaveLength(1)
  faults.write = false
  await untilTrue(() => writer.isWriting, 'the store to be well')
  await untilTrue(() => lines(levels.info).length === 2, 'the line that says so')
})

test('a shutdown during a retry waits for the retry, and does not open the store a second time', async () => {
  const { writer, note, calls, content, faults, holdOpen } = await stage()
  faults.write = true
  note(1)
  await untilTrue(() => !writer.isWriting, 'the failure')
  faults.write = false
  const release = holdOpen()
  await untilTrue(() => calls.includes('open'), 'the retry')
  const closing = writer.close()
  await pause(100)
  release()
  await closing
  expect(calls.filter((call) => call.startsWith('open'))).toEqual(['open', 'opened'])
  expect(recordsIn(content)).toBe(1)
})

test('a shutdown that waits for the disk logs that', async () => {
  const { writer, note, calls, lines, holdSync } = await stage()
  const release = holdSync()
  note(1)
  await untilTrue(() => calls.includes('sync'), 'the sync to begin')
  const closing = writer.close()
  await untilTrue(() => lines(levels.warn).length > 0, 'the line')
  expect(lines(levels.warn).map(({ msg }) => msg)).toEqual([
    'stopping: waiting for the disk of STATE_DIRECTORY',
  ])
  release()
  await closing
})

test('changes that wait while the store fails are bounded by the records in memory and the removals', async () => {
  const { writer, note, faults, failures } = await stage()
  faults.write = true
  faults.open = true
  note(0)
  await untilTrue(() => failures.length > 0, 'the failure')
  for (let number = 1; number < 10_000; number += 1) writer.forget(note(number))
  expect(writer.backlog).toBe(1)
})

test('a batch that was written although its write failed counts once', async () => {
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

test('a batch that failed is written again, without the records forgotten meanwhile', async () => {
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

test.each([
  ['was written', true],
  ['was not written', false],
])(
  'a batch that %s is not forgotten if the store cannot be read when it is opened again',
  async (_what, isWritten) => {
    const { writer, note, content, faults, failures } = await stage()
    note(1)
    await untilTrue(() => writer.backlog === 0, 'the first batch')
    faults.write = true
    faults.writtenAllTheSame = isWritten
    faults.get = true
    note(2)
    await untilTrue(() => failures.includes('open'), 'the failed read')
    faults.write = false
    faults.get = false
    await untilTrue(() => writer.isWriting && writer.backlog === 0, 'the store to be well')
    expect(recordsIn(content)).toBe(2)
    expect(writer.mark).toMatchObject({ count: 2, sum: 3 })
  },
)

test('after a failure the store is known by the record that has its mark, or by the mark of a removal', async () => {
  const { writer, note, content, faults, calls } = await stage()
  async function failAndRecover() {
    faults.write = true
    const serial = note(1)
    await untilTrue(() => !writer.isWriting, 'the failure')
    faults.write = false
    await untilTrue(() => writer.isWriting && writer.backlog === 0, 'the store to be well')
    return serial
  }
  await failAndRecover()
  const written = await failAndRecover()
  writer.forget(written)
  await untilTrue(() => writer.backlog === 0, 'the removal')
  await failAndRecover()
  expect(calls).not.toContain('replace')
  expect(recordsIn(content)).toBe(2)
})

test('a store that lost its records is written again from memory', async () => {
  const { writer, note, content, faults, calls, marks } = await stage()
  for (let number = 0; number < 300; number += 1) note(number)
  await untilTrue(() => writer.backlog === 0 && calls.includes('mark'), 'the batches and their sync')
  marks.length = 0
  faults.write = true
  note(300)
  await untilTrue(() => !writer.isWriting, 'the failure')
  content.clear()
  faults.write = false
  await untilTrue(() => writer.isWriting && writer.backlog === 0, 'the store to be well')
  expect(recordsIn(content)).toBe(301)
  expect(writer.mark.count).toBe(301)
  // A kill before all of them are written must read as damage, or most of the ledger would be missing silently.
  await untilTrue(() => marks.length > 1, 'the sync')
  expect(calls[calls.indexOf('replace') - 1]).toBe('mark')
  expect(marks[0]?.count).toBe(301)
  expect(marks[0]?.number).toBeGreaterThan(writer.mark.number)
  expect(marks.at(-1)).toEqual(writer.mark)
})

test('a sync that fails counts as a failure too', async () => {
  const { writer, note, faults, failures } = await stage()
  faults.sync = true
  note(1)
  await untilTrue(() => failures.includes('sync'), 'the failure')
  faults.sync = false
  await untilTrue(() => writer.isWriting, 'the store to be well')
})

test('a write and a sync that hang count as not writing after five seconds, though none of them has failed', async () => {
  for (const hold of ['holdWrite', 'holdSync'] as const) {
    const { writer, note, failures, ...held } = await stage()
    const release = held[hold]()
    expect(writer).toMatchObject({ isWriting: true, isSynced: true })
    const beganMs = performance.now()
    note(1)
    expect(writer).toMatchObject({ isWriting: true, isSynced: false })
    await untilTrue(() => !writer.isWriting, 'the hang to count')
    expect(performance.now() - beganMs).toBeGreaterThan(5_000)
    expect(failures).toEqual([])
    expect(writer.isSynced).toBe(false)
    release()
    await untilTrue(() => writer.isWriting && writer.isSynced, 'the disk to go on')
  }
})
