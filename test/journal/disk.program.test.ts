import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { pause, until } from '../support/gateways/between.ts'
import { levels } from '../support/observing/log-lines.ts'
import {
  appendAll,
  appendInSteps,
  asIfKilled,
  clockAt,
  ids,
  idsOf,
  newFolder,
  noon,
  noted,
  opened,
  segmentsOf,
  textOf,
  untilWritten,
  used,
} from './disk-support.ts'

/** A folder with these records, after a clean end. */
async function folderWith(...records: Parameters<typeof appendAll>[1]): Promise<string> {
  const folder = newFolder()
  const { journal } = await opened(folder)
  await appendAll({ journal }, records)
  await journal.close()
  return folder
}

test('after a clean end records are restored in order, nothing is doubted, and the folder stays as it is', async () => {
  const unreadable = noted(9, { id: '', toValue: '', partition: undefined })
  // Half of a surrogate pair is not valid UTF-8.
  const odd = noted(3, { pairId: 'ETH_\ud83d', id: 'ünïcödé "\\\u0000\n\u2028' })
  const records = [noted(1), used('quote-1'), unreadable, odd, noted(2), used('used')]
  const folder = await folderWith(...records)
  const before = textOf(folder, 'journal-1.ndjson')
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
  expect(readdirSync(killed)).toEqual(['journal-1.ndjson'])
  expect(textOf(killed, 'journal-1.ndjson')).toBe(before)
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

test.each([
  ['no head yet', 'journal-2.part', () => ''],
  [
    'a head and no record',
    'journal-2.ndjson',
    (before: string) => `${before.split('\n')[0]}\n`,
  ],
])(
  'a segment with %s, as kill -9 leaves it, leaves a doubt of what a clean process wrote, and no line',
  async (_what, name, text) => {
    const folder = await folderWith(noted(1))
    writeFileSync(join(folder, name), text(textOf(folder, 'journal-1.ndjson')))
    const { memory, lines } = await opened(folder)
    expect(memory).toMatchObject({ doubts: 1, restored: [noted(1)] })
    expect(lines()).toEqual([])
    expect(readdirSync(folder)).not.toContain('journal-2.part')
  },
)

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
  const [, line = ''] = textOf(folder, 'journal-1.ndjson').split('\n')
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
  for (const name of ['journal-1.ndjson', 'lock'])
    expect(mode(join(folder, name))).toBe('600')
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
  expect(readFileSync(join(folder, 'journal-1.ndjson'), 'utf8')).not.toContain(salt)
  await first.journal.close()
  expect((await opened(folder, { salt })).memory.restored).toHaveLength(1)
})

describe('segments', () => {
  test('have at most a quarter of LEDGER_ENTRIES, and go once the younger ones have as many', async () => {
    const folder = newFolder()
    const first = await opened(folder, { maxRecords: 400 })
    await appendInSteps(first, 0, 1_200)
    // By their numbers, and not by the order of their letters.
    const left = [9, 10, 11, 12].map((number) => `journal-${number}.ndjson`)
    await until(() => segmentsOf(folder).length === 4, 'the oldest segments to go')
    expect(segmentsOf(folder)).toEqual(left)
    expect(first.journal.facts.bytes).toBeLessThan(500 * 250)
    await first.journal.close()
    const { memory } = await opened(folder, { maxRecords: 400 })
    // The last line is the end.
    expect(idsOf(memory.restored)).toEqual(ids(801, 1_200))
    expect(memory.doubts).toBe(0)
  })

  test('have at most an hour, and go once their quotes are past LEDGER_RETENTION_MS', async () => {
    const folder = newFolder()
    const clock = clockAt(noon)
    const retentionMs = 7_200_000
    const first = await opened(folder, { clock, retentionMs })
    for (let quarter = 0; quarter < 40; quarter += 1) {
      const ends = {
        expiresAtMs: clock.wall + 30_000,
        wallAheadMs: clock.wall - clock.steady,
      }
      await appendAll(first, [noted(quarter, ends)])
      clock.advance(900_000)
    }
    await until(() => segmentsOf(folder).length <= 3, 'the oldest segments to go')
    await first.journal.close()
    const { memory } = await opened(folder, { clock, retentionMs })
    // The newest one is 15 minutes old.
    expect(idsOf(memory.restored)).toEqual(ids(32, 40))
    expect(memory.doubts).toBe(0)
  })

  test('all go once nothing is remembered any more', async () => {
    const folder = await folderWith(noted(1), used('quote-1'))
    const { journal, memory } = await opened(folder, {
      clock: clockAt(noon + 86_400_000 + 31_000),
    })
    expect(memory).toMatchObject({ restored: [], doubts: 0 })
    await journal.close()
    expect(segmentsOf(folder)).toEqual([])
  })

  test('stay while the wall clock alone says that they are past their time', async () => {
    const folder = newFolder()
    const clock = clockAt(noon)
    const first = await opened(folder, { clock, maxRecords: 4 })
    await appendAll(first, [noted(1)])
    clock.wall += 10 * 86_400_000
    await appendAll(first, [noted(2), noted(3)])
    await pause(100)
    expect(segmentsOf(folder)).toHaveLength(2)
  })

  test('that have more records than LEDGER_ENTRIES: the newest are restored, and a line says so', async () => {
    const folder = newFolder()
    const before = await opened(folder, { maxRecords: 400 })
    await appendInSteps(before, 0, 400)
    await before.journal.close()
    const smaller = await opened(folder, { maxRecords: 20 })
    // The last line is the end.
    expect(idsOf(smaller.memory.restored)).toEqual(ids(381, 400))
    expect(smaller.memory.doubts).toBe(0)
    expect(smaller.lines(levels.warn)).toMatchObject([{ files: 3 }])
    await smaller.journal.close()
    const last = await opened(folder, { maxRecords: 20 })
    expect(last.memory.restored).toHaveLength(19)
    expect(last.lines()).toEqual([])
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

test('what is forgotten as soon as it is written, with its segment, counts as synced', async () => {
  const clock = clockAt(noon)
  const { journal } = await opened(newFolder(), { retentionMs: 0, clock })
  journal.append({ kind: 'used', quote: { id: 'q', expiresAtMs: 0 } })
  await untilWritten({ journal })
  clock.advance(7)
  await until(
    () => journal.facts.syncedAtMs === noon + 7,
    'nothing to be left to sync',
    5_000,
  )
})
