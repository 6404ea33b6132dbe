import {
  appendFileSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { pause, until } from '../support/gateways/between.ts'
import {
  appendAll,
  asIfKilled,
  clockAt,
  fileName,
  ids,
  idsOf,
  newFolder,
  noon,
  noted,
  noteds,
  opened,
  textOf,
  untilWritten,
  used,
} from './disk-support.ts'

/** A folder with these records, after a clean end. */
async function folderWith(...records: Parameters<typeof appendAll>[1]): Promise<string> {
  const folder = newFolder()
  const first = await opened(folder)
  await appendAll(first, records)
  await first.journal.close()
  return folder
}

test('after a clean end records are restored in order, nothing is doubted, and the folder stays as it is', async () => {
  const unreadable = noted(9, { id: '', toValue: '', partition: undefined })
  // Half of a surrogate pair is not valid UTF-8.
  const odd = noted(3, { pairId: 'ETH_\ud83d', id: 'ünïcödé "\\\u0000\n\u2028' })
  const records = [noted(1), used('quote-1'), unreadable, odd, noted(2), used('used')]
  const folder = await folderWith(...records)
  const before = textOf(folder)
  await opened(folder)
  const killed = asIfKilled(folder)
  const { memory, journal, lines } = await opened(killed)
  expect(memory.restored).toEqual(records)
  expect(memory.doubts).toBe(0)
  expect(journal.facts).toMatchObject({
    restored: 6,
    skipped: 0,
    waiting: 0,
    appended: 0,
    setAside: 0,
  })
  expect(lines()).toEqual([])
  await journal.close()
  expect(readdirSync(killed)).toEqual([fileName])
  expect(textOf(killed)).toBe(before)
})

test('a first start finds nothing, doubts nothing, and writes nothing but its lock', async () => {
  const folder = newFolder()
  const { journal, memory, lines } = await opened(folder)
  expect(readdirSync(folder)).toEqual(['lock'])
  expect(journal.facts).toMatchObject({
    restored: 0,
    bytes: 0,
    awaySinceMs: undefined,
    syncedAtMs: noon,
  })
  await journal.close()
  expect(readdirSync(folder)).toEqual([])
  expect(memory.doubts).toBe(0)
  expect(lines()).toEqual([])
})

test('after kill -9 all that was written is restored, and doubted: also after a clean end that comes meanwhile', async () => {
  // So long that pieces of the file end within a character.
  const texts = ids(0, 3_000).map((_, number) => 'ü€😀'.repeat(1 + (number % 7)))
  const records = texts.map((application, number) => noted(number, { application }))
  const folder = newFolder()
  await appendAll(await opened(folder), records)
  const killed = asIfKilled(folder)
  const second = await opened(killed)
  expect(second.memory).toMatchObject({ doubts: 1, restored: records })
  expect(second.journal.facts.skipped).toBe(0)
  await appendAll(second, [noted(3_000)])
  await second.journal.close()
  const third = await opened(killed)
  expect(third.memory).toMatchObject({ doubts: 1, restored: { length: 3_001 } })
  third.memory.doubtsRestored = false
  await third.journal.close()
  expect((await opened(killed)).memory.doubts).toBe(0)
  expect([...second.lines(), ...third.lines()]).toEqual([])
})

test('a wall clock behind that of the newest line leaves a doubt, and no quote is younger than new', async () => {
  const folder = await folderWith(noted(1, { expiresAtMs: noon + 30_000 }))
  const { memory } = await opened(folder, { clock: clockAt(noon - 3_600_000) })
  expect(memory.doubts).toBe(1)
  expect(memory.restored[0]?.quote).toMatchObject({
    refusedFromMs: noon - 3_600_000 + 30_000,
  })
})

// By an answer whose Date contradicts our clock it is another end than the expiry.
test.each([0, 1_234, -3_600_000])(
  'a quote is over as late after a restart as before it: %d ms after its expiry',
  async (lateMs) => {
    const expiresAtMs = noon + 30_000
    const folder = await folderWith(
      noted(0, { expiresAtMs, refusedFromMs: expiresAtMs + lateMs }),
    )
    // The steady clock ends with the process, or with the machine.
    const { memory } = await opened(folder, { clock: clockAt(noon + 10_000, 7) })
    expect(memory.restored[0]?.quote).toMatchObject({
      expiresAtMs,
      refusedFromMs: expiresAtMs + lateMs,
    })
  },
)

test('what is left of a quote is written as it is then, and not as it was when the record was appended', async () => {
  const folder = newFolder()
  const clock = clockAt(noon)
  const { journal } = await opened(folder, { clock })
  journal.append(noted(1, { expiresAtMs: noon + 30_000 }))
  clock.advance(5_000)
  await untilWritten({ journal })
  const [, line = ''] = textOf(folder).split('\n')
  expect(JSON.parse(line).slice(1, 4)).toEqual(['n', noon + 5_000, 25_000])
})

test('a quote that is too long for a line is left out, and all others are read', async () => {
  const long = '€'.repeat(16_000)
  const folder = newFolder()
  const first = await opened(folder)
  await appendAll(first, [
    noted(1),
    noted(2, { id: 'x'.repeat(20_000) }),
    noted(3, { id: long }),
  ])
  expect(first.journal.facts.skipped).toBe(1)
  await first.journal.close()
  const { memory, lines } = await opened(folder)
  expect(idsOf(memory.restored)).toEqual(['quote-1', long])
  expect(memory.doubts).toBe(0)
  expect(lines()).toEqual([])
})

test('only this user can read the files, and the folder if it was made here', async () => {
  const folder = join(newFolder(), 'made', 'deeper')
  await appendAll(await opened(folder), [noted(1)])
  const mode = (path: string) => (statSync(path).mode & 0o777).toString(8)
  expect(mode(folder)).toBe('700')
  for (const name of [fileName, 'lock']) expect(mode(join(folder, name))).toBe('600')
})

test('the salt is made with the folder, and stays', async () => {
  const folder = await folderWith(noted(1))
  const { salt } = (await opened(asIfKilled(folder))).journal
  expect(Buffer.from(salt, 'base64url')).toHaveLength(32)
  expect((await opened(folder)).journal.salt).toBe(salt)
  expect((await opened(newFolder())).journal.salt).not.toBe(salt)
})

test('the salt of a shared store is used, and not written', async () => {
  const folder = newFolder()
  const salt = 'made-of-a-password'
  const first = await opened(folder, { salt })
  expect(first.journal.salt).toBe(salt)
  await appendAll(first, [noted(1)])
  expect(readFileSync(join(folder, fileName), 'utf8')).not.toContain(salt)
  await first.journal.close()
  expect((await opened(folder, { salt })).memory.restored).toHaveLength(1)
})

describe('the file', () => {
  const sizeOf = (folder: string) => statSync(join(folder, fileName)).size

  test('is copied from memory when less than two thirds of it is remembered, and grows to half as much again and half a MiB', async () => {
    const folder = newFolder()
    const first = await opened(folder)
    await appendAll(first, noteds(0, 20_000))
    const before = sizeOf(folder)
    first.memory.records = first.memory.records.slice(-100)
    await until(() => sizeOf(folder) < before / 10, 'the copy')
    await until(() => first.journal.facts.bytes === sizeOf(folder), 'its size')
    // What comes later is behind it.
    await appendAll(first, noteds(20_000, 20_010))
    const { memory } = await opened(asIfKilled(folder))
    expect(idsOf(memory.restored)).toEqual(ids(19_900, 20_010))
    await pause(2_200)
    expect(sizeOf(folder)).toBe(first.journal.facts.bytes)
    // Nothing is copied while all of it is remembered.
    await appendAll(first, noteds(20_010, 24_000))
    const long = sizeOf(folder)
    await pause(1_200)
    expect(sizeOf(folder)).toBe(long)
  })

  test('has what lives after a clean end, and no more', async () => {
    const folder = newFolder()
    const first = await opened(folder)
    await appendAll(first, noteds(0, 100))
    first.memory.records = first.memory.records.slice(-10)
    await first.journal.close()
    // A head, ten quotes and the end.
    expect(textOf(folder).split('\n')).toHaveLength(13)
    expect(readdirSync(folder)).toEqual([fileName])
    const { memory } = await opened(folder)
    expect(idsOf(memory.restored)).toEqual(ids(90, 100))
    expect(memory.doubts).toBe(0)
  })

  test('is whole where it ends in the middle of a line, and that part is cut off', async () => {
    const folder = await folderWith(noted(1), noted(2))
    const whole = textOf(folder)
    appendFileSync(join(folder, fileName), whole.slice(-20, -5))
    const second = await opened(folder)
    expect(second.memory).toMatchObject({ doubts: 1, restored: [noted(1), noted(2)] })
    expect(second.journal.facts.skipped).toBe(0)
    await appendAll(second, [noted(3)])
    const third = await opened(asIfKilled(folder))
    expect(idsOf(third.memory.restored)).toEqual(ids(1, 4))
    expect(third.lines()).toEqual([])
  })

  test('that a copy was to take the place of is there, whenever that was killed', async () => {
    const folder = await folderWith(noted(1))
    writeFileSync(join(folder, `${fileName}.new`), textOf(folder).slice(0, 150))
    writeFileSync(join(folder, `${fileName}.begun`), '')
    const { memory, journal, lines } = await opened(folder)
    expect(memory).toMatchObject({ doubts: 0, restored: [noted(1)] })
    expect(lines()).toEqual([])
    journal.append(noted(2))
    await journal.close()
    expect(readdirSync(folder)).toEqual([fileName])
  })
})

test('what is written is synced within a second, and until then the facts say up to when', async () => {
  const clock = clockAt(noon)
  const { journal } = await opened(newFolder(), { clock })
  journal.append(noted(1))
  clock.advance(7)
  await untilWritten({ journal })
  expect(journal.facts.syncedAtMs).toBe(noon)
  await until(() => journal.facts.syncedAtMs > noon, 'the sync')
  expect(journal.facts.syncedAtMs).toBe(noon + 7)
})
