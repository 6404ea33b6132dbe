import { hash } from 'node:crypto'
import {
  appendFileSync,
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { silentLogger } from '../../src/process/logger.ts'
import { pause } from '../support/gateways/between.ts'
import { levels } from '../support/observing/log-lines.ts'
import { asIfKilled, flipByte, idsOf, newFolder, opened, record, untilSynced } from './support.ts'

const count = 3_000

/** A folder with a table and a log, all of it synced, as kill -9 leaves it. */
async function filled(): Promise<string> {
  const folder = newFolder()
  const first = await opened(folder)
  for (let number = 0; number < count / 2; number += 1) first.note(record(number))
  await first.state.close()
  // Opening makes a table of the log.
  const second = await opened(folder)
  for (let number = count / 2; number < count; number += 1) second.note(record(number))
  await untilSynced(second, folder)
  return asIfKilled(folder)
}

const setAside = (folder: string) => readdirSync(folder).filter((name) => name.startsWith('damaged-'))

test('a store that is whole sets nothing aside', async () => {
  const folder = await filled()
  const { restored } = await opened(folder)
  expect(restored.records).toHaveLength(count)
  expect(readdirSync(folder).sort()).toEqual(['about', 'lock', 'store', 'synced'])
})

// Each of these LevelDB opens without an error, or reads back as if it were right, or deletes tables at (measured on 3.0.0).
describe.each([
  ['a flipped byte in the log', (store: string) => flipByte(store, /\.log$/)],
  ['a flipped byte at the start of the log', (store: string) => flipByte(store, /\.log$/, 0.001)],
  ['a flipped byte in a table', (store: string) => flipByte(store, /\.ldb$/)],
  ['a flipped byte in the index of a table', (store: string) => flipByte(store, /\.ldb$/, 0.9999)],
  ['a flipped byte in the MANIFEST', (store: string) => flipByte(store, /^MANIFEST/)],
  ['a flipped byte at the end of the MANIFEST', (store: string) => flipByte(store, /^MANIFEST/, 0.95)],
  ['a missing CURRENT', (store: string) => rmSync(join(store, 'CURRENT'))],
  ['a CURRENT that names nothing', (store: string) => writeFileSync(join(store, 'CURRENT'), 'MANIFEST-9\n')],
  ['a missing table', (store: string) => removeFirst(store, /\.ldb$/)],
  ['a missing log', (store: string) => removeFirst(store, /\.log$/)],
  ['an empty store', removeAll],
])('%s', (_, damage) => {
  test('is noticed, undamaged records are read, and nothing is deleted', async () => {
    const folder = await filled()
    damage(join(folder, 'store'))
    const damaged = readdirSync(join(folder, 'store')).filter((name) => !/^LO(?:CK|G)/.test(name))
    const { restored, state, lines } = await opened(folder)
    const ids = new Set(idsOf(restored.records))
    expect(ids.size).toBe(restored.records.length)
    for (const [, { value }] of restored.records) {
      expect(value).toEqual(record(Number('id' in value && value.id.slice('quote-'.length))).value)
    }
    const missing = count - ids.size
    expect(state.facts).toMatchObject({ missing, restored: ids.size, records: ids.size, setAside: 1 })
    const [kept = ''] = setAside(folder)
    expect(lines(levels.warn)).toEqual([
      expect.objectContaining({ level: levels.error, missing, setAsideAs: kept, restored: ids.size }),
    ])
    expect(kept).toMatch(/^damaged-\d{4}-\d\d-\d\dT/)
    expect(readdirSync(join(folder, kept, 'opening'))).toEqual(expect.arrayContaining(damaged))
    expect(restored.isClean).toBe(false)

    await state.close()
    const again = await opened(folder)
    expect(new Set(idsOf(again.restored.records))).toEqual(ids)
    expect(again.lines(levels.warn)).toEqual([])
    expect(again.state.facts).toMatchObject({ missing: 0, setAside: 1 })
  })
})

// A ledger at its bound removes as many records as it notes. LevelDB takes a torn end of its MANIFEST for the end of the
// file and forgets the newest table: what that table noted is missing, and as many that it removed come back. Then it
// writes the log into a new table, under the name of the forgotten one.
test('a forgotten table is noticed though as many records come back, and its records are read', async () => {
  const folder = newFolder()
  const state = await opened(folder)
  const kept = 3_000
  for (let number = 0; number < 14_000; number += 1) {
    const serial = state.note(record(number))
    if (serial > kept) state.forget(serial - kept)
    if (number % 500 === 0) await pause(10)
  }
  await untilSynced(state, folder)
  const killed = asIfKilled(folder)
  const store = join(killed, 'store')
  const [manifest = ''] = readdirSync(store).filter((name) => name.startsWith('MANIFEST'))
  truncateSync(join(store, manifest), statSync(join(store, manifest)).size - 10)
  const before = contentsOf(store)

  const { restored, state: reopened, lines } = await opened(killed)
  expect(lines(levels.error)).toHaveLength(1)
  expect(reopened.facts.setAside).toBe(1)
  const ids = new Set(idsOf(restored.records))
  for (let number = 14_000 - kept; number < 14_000; number += 1) expect(ids).toContain(`quote-${number}`)
  const [aside = ''] = setAside(killed)
  expect(contentsOf(join(killed, aside, 'opening'))).toEqual(before)
})

/** By their names; LOCK and LOG hold nothing that was noted. */
function contentsOf(store: string): Map<string, string> {
  const names = readdirSync(store).filter((name) => !/^LO(?:CK|G)/.test(name))
  return new Map(names.map((name) => [name, hash('sha256', readFileSync(join(store, name)))]))
}

function removeAll(store: string): void {
  for (const name of readdirSync(store)) rmSync(join(store, name))
}

function removeFirst(store: string, name: RegExp): void {
  const [first = ''] = readdirSync(store).filter((file) => name.test(file))
  rmSync(join(store, first))
}

test('most of what a damaged table has is read', async () => {
  const folder = await filled()
  flipByte(join(folder, 'store'), /\.ldb$/)
  const { restored } = await opened(folder)
  expect(restored.records.length).toBeGreaterThan(count * 0.9)
})

test('all records of a store without its CURRENT file are read', async () => {
  const folder = await filled()
  rmSync(join(folder, 'store', 'CURRENT'))
  const { restored } = await opened(folder)
  expect(restored.records).toHaveLength(count)
})

test('a store that is older than the last sync is damaged, even if it is consistent', async () => {
  const folder = newFolder()
  const first = await opened(folder)
  first.note(record(1))
  await untilSynced(first, folder)
  const older = asIfKilled(folder)
  for (let number = 2; number < 8; number += 1) first.note(record(number))
  await untilSynced(first, folder)
  const newer = asIfKilled(folder)
  rmSync(join(newer, 'store'), { recursive: true })
  cpSync(join(older, 'store'), join(newer, 'store'), { recursive: true })
  const { restored, state } = await opened(newer)
  expect(restored.records).toHaveLength(1)
  expect(state.facts).toMatchObject({ missing: 6, setAside: 1 })
})

test('a torn end of the log, as kill -9 may leave it, is not damage', async () => {
  const folder = await filled()
  const store = join(folder, 'store')
  const [log = ''] = readdirSync(store).filter((name) => name.endsWith('.log'))
  appendFileSync(join(store, log), Buffer.from([1, 2, 3, 4, 200, 0, 1, 5]))
  const { restored, state } = await opened(folder)
  expect(restored.records).toHaveLength(count)
  expect(state.facts).toMatchObject({ missing: 0, setAside: 0 })
})

test('a damaged note of the last sync is noticed, and all is read', async () => {
  const folder = await filled()
  flipByte(folder, /^synced$/)
  const { restored, state } = await opened(folder)
  expect(restored.records).toHaveLength(count)
  expect(restored.isClean).toBe(false)
  expect(state.facts).toMatchObject({ missing: 0, setAside: 1 })
})

describe('a folder without its note of the last sync', () => {
  test('is damaged even if the store is consistent: newer batches may be missing', async () => {
    const folder = await filled()
    rmSync(join(folder, 'synced'))
    const { restored, state, lines } = await opened(folder)
    expect(restored.records).toHaveLength(count)
    expect(restored.isClean).toBe(false)
    expect(state.facts).toMatchObject({ missing: 0, setAside: 1 })
    expect(lines(levels.error)).toHaveLength(1)
  })

  test('and without its store is damaged, and not mistaken for a new folder', async () => {
    const folder = await filled()
    rmSync(join(folder, 'synced'))
    rmSync(join(folder, 'store'), { recursive: true })
    const { restored, lines } = await opened(folder)
    expect(restored).toMatchObject({ records: [], isClean: false })
    expect(lines(levels.error)).toHaveLength(1)
  })
})

test('an older note of a clean end does not make a later end clean', async () => {
  const folder = newFolder()
  const first = await opened(folder)
  first.note(record(1))
  await first.state.close()
  const older = asIfKilled(folder)
  const second = await opened(folder)
  second.note(record(2))
  await untilSynced(second, folder)
  const killed = asIfKilled(folder)
  cpSync(join(older, 'synced'), join(killed, 'synced'))
  const { restored } = await opened(killed)
  expect(restored.records).toHaveLength(2)
  expect(restored.isClean).toBe(false)
})

test('damage is logged before the damaged files are renamed, so that a crash cannot hide it', async () => {
  const folder = await filled()
  rmSync(join(folder, 'store', 'CURRENT'))
  const told: boolean[] = []
  const error = () => told.push(existsSync(join(folder, 'opening')))
  await opened(folder, { log: { ...silentLogger(), error } })
  expect(told).toEqual([true])
  expect(setAside(folder)).toHaveLength(1)
})

test('links that a killed startup left are set aside together with a folder whose about file is damaged', async () => {
  const folder = await filled()
  flipByte(folder, /^about$/)
  cpSync(join(folder, 'store'), join(folder, 'opening'), { recursive: true })
  rmSync(join(folder, 'store'), { recursive: true })
  const { restored } = await opened(folder)
  expect(restored.records).toEqual([])
  expect(existsSync(join(folder, setAside(folder)[0] ?? '', 'opening'))).toBe(true)
})

test.each(['damaged', 'missing'])(
  'a folder whose about file is %s is set aside, because its salt is lost',
  async (how) => {
    const folder = await filled()
    if (how === 'missing') rmSync(join(folder, 'about'))
    else flipByte(folder, /^about$/)
    const { restored, state, lines } = await opened(folder)
    expect(restored.records).toEqual([])
    expect(state.facts.setAside).toBe(1)
    expect(lines(levels.warn).map(({ msg }) => msg)).toEqual([
      'STATE_DIRECTORY no longer says which gateway wrote it: it is set aside, and the ledger starts empty',
    ])
    const [kept = ''] = setAside(folder)
    expect(existsSync(join(folder, kept, 'store'))).toBe(true)
  },
)

describe('a start that was killed', () => {
  test('after LevelDB had deleted tables: the next start reads the files as they were', async () => {
    const folder = await filled()
    cpSync(join(folder, 'store'), join(folder, 'opening'), { recursive: true })
    removeAll(join(folder, 'store'))
    const { restored, state } = await opened(folder)
    expect(restored.records).toHaveLength(count)
    expect(state.facts.setAside).toBe(0)
  })

  test('before all files were linked: the incomplete links are ignored', async () => {
    const folder = await filled()
    cpSync(join(folder, 'store'), join(folder, 'opening.part'), { recursive: true })
    removeFirst(join(folder, 'opening.part'), /\.ldb$/)
    const { restored } = await opened(folder)
    expect(restored.records).toHaveLength(count)
  })

  test('while it wrote the undamaged records: the next startup begins again, and logs that', async () => {
    const folder = await filled()
    removeFirst(join(folder, 'store'), /\.log$/)
    cpSync(join(folder, 'store'), join(folder, 'opening'), { recursive: true })
    removeAll(join(folder, 'store'))
    const { restored, state, lines } = await opened(folder)
    expect(restored.records).toHaveLength(count / 2)
    expect(state.facts).toMatchObject({ missing: count / 2, setAside: 1 })
    expect(lines(levels.error)).toEqual([expect.objectContaining({ missing: count / 2 })])
  })
})

describe('a damaged folder with more quotes than memory is meant for', () => {
  const maxQuotes = 1_000

  test.each([
    ['whose quotes can all be read', (store: string) => rmSync(join(store, 'CURRENT')), 0],
    ['with a missing table', (store: string) => removeFirst(store, /\.ldb$/), count / 2],
  ])(
    '%s: quotes that expire last are read, and the others do not count as missing',
    async (_, damage, most) => {
      const folder = await filled()
      damage(join(folder, 'store'))
      const { restored, state, lines } = await opened(folder, { maxQuotes })
      const ids = idsOf(restored.records)
      // Those that were noted last expire last.
      for (let number = count - maxQuotes; number < count; number += 1)
        expect(ids).toContain(`quote-${number}`)
      expect(ids.length).toBeLessThanOrEqual(maxQuotes * 1.25)
      const { missing } = state.facts
      expect(missing).toBeLessThanOrEqual(most)
      expect(state.facts).toMatchObject({ restored: ids.length, records: ids.length, setAside: 1 })
      expect(lines(levels.warn)).toMatchObject([
        { level: levels.error, missing },
        { level: levels.warn, leftOut: count - missing - ids.length },
      ])

      await state.close()
      const again = await opened(folder, { maxQuotes })
      expect(idsOf(again.restored.records)).toEqual(ids)
      expect(again.lines(levels.warn)).toEqual([])
      expect(again.state.facts).toMatchObject({ missing: 0, setAside: 1 })
    },
  )
})
