import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { JournalRecord } from '../../src/journal/journal.ts'
import { pause, until } from '../support/gateways/between.ts'
import { levels } from '../support/observing/log-lines.ts'
import {
  asIfKilled,
  clockAt,
  idsOf,
  newFolder,
  noon,
  noted,
  type Opened,
  opened,
  segmentsOf,
  textOf,
  untilWritten,
  used,
} from './disk-support.ts'

async function appendAll({ journal }: Opened, records: readonly JournalRecord[]): Promise<void> {
  for (const record of records) journal.append(record)
  await untilWritten({ journal })
}

const numbers = (from: number, to: number) => Array.from({ length: to - from }, (_, at) => from + at)

describe('after a clean end', () => {
  test('records are restored in order, and nothing is doubted', async () => {
    const folder = newFolder()
    const unreadable = noted(9, { id: '', toValue: '', partition: undefined })
    const records = [noted(1), used('quote-1'), unreadable, noted(2), used('used')]
    const first = await opened(folder)
    for (const record of records) first.journal.append(record)
    await first.journal.close()

    const { memory, journal, lines } = await opened(folder)
    expect(memory.restored).toEqual(records)
    expect(memory.doubts).toBe(0)
    expect(journal.facts).toMatchObject({ restored: 5, skipped: 0, waiting: 0, appended: 0, setAside: 0 })
    expect(lines()).toEqual([])
  })

  test('the next one that writes nothing leaves the folder as it is, also where it is killed', async () => {
    const folder = newFolder()
    const first = await opened(folder)
    await appendAll(first, [noted(1)])
    await first.journal.close()
    const before = segmentsOf(folder).map((name) => textOf(folder, name))
    await opened(folder)
    const killed = asIfKilled(folder)
    expect(segmentsOf(killed).map((name) => textOf(killed, name))).toEqual(before)
    const third = await opened(killed)
    expect(third.memory).toMatchObject({ doubts: 0, restored: [noted(1)] })
    await third.journal.close()
    expect(segmentsOf(killed).map((name) => textOf(killed, name))).toEqual(before)
  })
})

test('a first start finds nothing, doubts nothing, and writes nothing but its lock', async () => {
  const folder = newFolder()
  const { journal, memory, lines } = await opened(folder)
  expect(readdirSync(folder)).toEqual(['lock'])
  expect(journal.facts).toMatchObject({ restored: 0, bytes: 0, awaySinceMs: undefined, syncedAtMs: noon })
  await journal.close()
  expect(readdirSync(folder)).toEqual([])
  expect(memory.doubts).toBe(0)
  expect(lines()).toEqual([])
})

describe('after kill -9', () => {
  test('what was written is restored, and doubted', async () => {
    const folder = newFolder()
    const first = await opened(folder)
    await appendAll(
      first,
      numbers(0, 3_000).map((number) => noted(number)),
    )
    const { memory, lines, journal } = await opened(asIfKilled(folder))
    expect(idsOf(memory.restored)).toEqual(numbers(0, 3_000).map((number) => `quote-${number}`))
    expect(memory.doubts).toBe(1)
    expect(journal.facts.skipped).toBe(0)
    expect(lines()).toEqual([])
  })

  test('a torn last line does not count as damage, at the next starts neither', async () => {
    const folder = newFolder()
    await appendAll(await opened(folder), [noted(1), noted(2)])
    const killed = asIfKilled(folder)
    const [name = ''] = segmentsOf(killed)
    writeFileSync(join(killed, name), textOf(killed, name).slice(0, -20))
    const second = await opened(killed)
    expect(second.memory).toMatchObject({ doubts: 1, restored: [noted(1)] })
    second.memory.doubtsRestored = false
    await second.journal.close()
    const third = await opened(killed)
    expect(third.memory).toMatchObject({ doubts: 0, restored: [noted(1)] })
    expect(third.journal.facts.skipped).toBe(0)
    expect([...second.lines(), ...third.lines()]).toEqual([])
  })

  test('a segment that had not its head yet leaves a doubt and no line', async () => {
    const folder = newFolder()
    const first = await opened(folder)
    await appendAll(first, [noted(1)])
    await first.journal.close()
    writeFileSync(join(folder, 'journal-2.part'), '')
    const { memory, lines } = await opened(folder)
    expect(memory).toMatchObject({ doubts: 1, restored: [noted(1)] })
    expect(lines()).toEqual([])
    expect(readdirSync(folder).sort()).toEqual(['journal-1.ndjson', 'lock'])
  })

  test('and a head without records: what a clean process before it wrote is doubted', async () => {
    const folder = newFolder()
    const first = await opened(folder)
    await appendAll(first, [noted(1)])
    await first.journal.close()
    writeFileSync(join(folder, 'journal-2.ndjson'), `${textOf(folder, 'journal-1.ndjson').split('\n')[0]}\n`)
    expect((await opened(folder)).memory).toMatchObject({ doubts: 1, restored: [noted(1)] })
  })
})

describe('a clean end', () => {
  test('that comes while the last one is still doubted leaves the doubt', async () => {
    const folder = newFolder()
    await appendAll(await opened(folder), [noted(1)])
    const killed = asIfKilled(folder)
    const second = await opened(killed)
    await appendAll(second, [noted(2)])
    await second.journal.close()
    const third = await opened(killed)
    expect(third.memory.doubts).toBe(1)
    third.memory.doubtsRestored = false
    await third.journal.close()
    expect((await opened(killed)).memory.doubts).toBe(0)
  })

  test('says so only once all is read', async () => {
    const folder = newFolder()
    await appendAll(await opened(folder), [noted(1)])
    const killed = asIfKilled(folder)
    const second = await opened(killed)
    await second.journal.close()
    expect(second.memory.doubts).toBe(1)
  })
})

test('a wall clock behind that of the newest line leaves a doubt, and no quote is younger than new', async () => {
  const folder = newFolder()
  const first = await opened(folder, { clock: clockAt(noon) })
  await appendAll(first, [noted(1, { expiresAtMs: noon + 30_000 })])
  await first.journal.close()
  const { memory } = await opened(folder, { clock: clockAt(noon - 3_600_000) })
  expect(memory.doubts).toBe(1)
  expect(memory.restored[0]?.quote).toMatchObject({ refusedFromMs: noon - 3_600_000 + 30_000 })
})

test.each([
  ['its expiry', 0],
  ['later, as an answer says whose Date contradicts our clock', 1_234],
  ['earlier', -3_600_000],
])('a quote is over as late after a restart as before it: at %s', async (_when, lateMs) => {
  const folder = newFolder()
  const expiresAtMs = noon + 30_000
  const record = noted(0, { expiresAtMs, refusedFromMs: expiresAtMs + lateMs })
  const first = await opened(folder, { clock: clockAt(noon) })
  await appendAll(first, [record])
  await first.journal.close()
  // The steady clock ends with the process, or with the machine.
  const { memory } = await opened(folder, { clock: clockAt(noon + 10_000, 7) })
  expect(memory.restored[0]?.quote).toMatchObject({ expiresAtMs, refusedFromMs: expiresAtMs + lateMs })
})

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

test('texts that are not valid UTF-8 survive, for example half of a surrogate pair', async () => {
  const folder = newFolder()
  const odd = noted(1, { pairId: 'ETH_\ud83d', id: 'ünïcödé "\\\u0000\n\u2028', partition: undefined })
  const first = await opened(folder)
  await appendAll(first, [odd])
  await first.journal.close()
  expect((await opened(folder)).memory.restored).toEqual([odd])
})

test('characters of several bytes are read where a piece of the file ends within one', async () => {
  const folder = newFolder()
  const records = numbers(0, 3_000).map((number) =>
    noted(number, { application: 'ü€😀'.repeat(1 + (number % 7)) }),
  )
  const first = await opened(folder)
  await appendAll(first, records)
  await first.journal.close()
  expect((await opened(folder)).memory.restored).toEqual(records)
})

test('a quote that is too long for a line is left out, and all others are read', async () => {
  const folder = newFolder()
  const first = await opened(folder)
  await appendAll(first, [
    noted(1),
    noted(2, { id: 'x'.repeat(20_000) }),
    noted(3, { id: '€'.repeat(16_000) }),
  ])
  expect(first.journal.facts.skipped).toBe(1)
  await first.journal.close()
  const { memory, lines } = await opened(folder)
  expect(idsOf(memory.restored)).toEqual(['quote-1', '€'.repeat(16_000)])
  expect(memory.doubts).toBe(0)
  expect(lines()).toEqual([])
})

test('only this user can read the files, and the folder if it was made here', async () => {
  const folder = join(newFolder(), 'made', 'deeper')
  const first = await opened(folder)
  await appendAll(first, [noted(1)])
  const mode = (path: string) => (statSync(path).mode & 0o777).toString(8)
  expect(mode(folder)).toBe('700')
  for (const name of ['journal-1.ndjson', 'lock']) expect(mode(join(folder, name))).toBe('600')
})

describe('the salt', () => {
  test('is made with the folder, and stays', async () => {
    const [one, other] = [newFolder(), newFolder()]
    const first = await opened(one)
    expect(Buffer.from(first.journal.salt, 'base64url')).toHaveLength(32)
    await appendAll(first, [noted(1)])
    await first.journal.close()
    expect((await opened(one)).journal.salt).toBe(first.journal.salt)
    expect((await opened(other)).journal.salt).not.toBe(first.journal.salt)
  })

  test('of a shared store is used, and not written', async () => {
    const folder = newFolder()
    const first = await opened(folder, { salt: 'made-of-a-password' })
    expect(first.journal.salt).toBe('made-of-a-password')
    await appendAll(first, [noted(1)])
    expect(readFileSync(join(folder, 'journal-1.ndjson'), 'utf8')).not.toContain('made-of-a-password')
    await first.journal.close()
    expect((await opened(folder, { salt: 'made-of-a-password' })).memory.restored).toHaveLength(1)
  })
})

describe('segments', () => {
  test('have at most a quarter of LEDGER_ENTRIES, and go once the younger ones have as many', async () => {
    const folder = newFolder()
    const first = await opened(folder, { maxRecords: 400 })
    for (let number = 0; number < 1_000; number += 50)
      await appendAll(
        first,
        numbers(number, number + 50).map((each) => noted(each)),
      )
    await until(() => segmentsOf(folder).length === 5, 'the oldest segments to go')
    expect(first.journal.facts.bytes).toBeLessThan(500 * 250)
    await first.journal.close()
    const { memory } = await opened(folder, { maxRecords: 400 })
    // The last line is the end.
    expect(idsOf(memory.restored)).toEqual(numbers(601, 1_000).map((number) => `quote-${number}`))
    expect(memory.doubts).toBe(0)
  })

  test('have at most an hour, and go once their quotes are past LEDGER_RETENTION_MS', async () => {
    const folder = newFolder()
    const clock = clockAt(noon)
    const retentionMs = 7_200_000
    const first = await opened(folder, { clock, retentionMs })
    for (let quarter = 0; quarter < 40; quarter += 1) {
      await appendAll(first, [
        noted(quarter, { expiresAtMs: clock.wall + 30_000, wallAheadMs: clock.wall - clock.steady }),
      ])
      clock.advance(900_000)
    }
    await until(() => segmentsOf(folder).length <= 3, 'the oldest segments to go')
    await first.journal.close()
    const { memory } = await opened(folder, { clock, retentionMs })
    // The newest one is 15 minutes old.
    expect(idsOf(memory.restored)).toEqual(numbers(32, 40).map((number) => `quote-${number}`))
    expect(memory.doubts).toBe(0)
  })

  test('all go once nothing is remembered any more', async () => {
    const folder = newFolder()
    const clock = clockAt(noon)
    const first = await opened(folder, { clock })
    await appendAll(first, [noted(1), used('quote-1')])
    await first.journal.close()
    clock.advance(86_400_000 + 31_000)
    const { journal, memory } = await opened(folder, { clock })
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

  test('are compared by their numbers, and not by the order of their letters', async () => {
    const folder = newFolder()
    const first = await opened(folder, { maxRecords: 4_000 })
    for (let number = 0; number < 12_000; number += 1_000) {
      await appendAll(
        first,
        numbers(number, number + 1_000).map((each) => noted(each)),
      )
    }
    await first.journal.close()
    expect(segmentsOf(folder).at(0)).toBe('journal-8.ndjson')
    expect(segmentsOf(folder).at(-1)).toBe('journal-12.ndjson')
    const { memory } = await opened(folder)
    expect(idsOf(memory.restored)).toEqual(numbers(7_000, 12_000).map((number) => `quote-${number}`))
    expect(memory.doubts).toBe(0)
  })
})

test('of more records than LEDGER_ENTRIES the newest are restored, and a line says so', async () => {
  const folder = newFolder()
  const before = await opened(folder, { maxRecords: 400 })
  for (let number = 0; number < 400; number += 50) {
    await appendAll(
      before,
      numbers(number, number + 50).map((each) => noted(each)),
    )
  }
  await before.journal.close()
  const smaller = await opened(folder, { maxRecords: 20 })
  // The last line is the end.
  expect(idsOf(smaller.memory.restored)).toEqual(numbers(381, 400).map((number) => `quote-${number}`))
  expect(smaller.memory.doubts).toBe(0)
  expect(smaller.lines(levels.warn)).toMatchObject([{ files: 3 }])
  await smaller.journal.close()
  const last = await opened(folder, { maxRecords: 20 })
  expect(last.memory.restored).toHaveLength(19)
  expect(last.lines()).toEqual([])
})

test('records that are appended at about the same time are one write', async () => {
  const folder = newFolder()
  const { journal } = await opened(folder)
  for (const number of numbers(0, 500)) journal.append(noted(number))
  expect(journal.facts).toMatchObject({ appended: 500, waiting: 500 })
  await untilWritten({ journal })
  expect(textOf(folder, 'journal-1.ndjson').split('\n')).toHaveLength(502)
})

test('what is written is synced within a second, and until then the facts say up to when', async () => {
  const folder = newFolder()
  const clock = clockAt(noon)
  const { journal } = await opened(folder, { clock })
  journal.append(noted(1))
  clock.advance(7)
  await untilWritten({ journal })
  expect(journal.facts.syncedAtMs).toBe(noon)
  await until(() => journal.facts.syncedAtMs > noon, 'the sync')
  expect(journal.facts.syncedAtMs).toBe(noon + 7)
})
