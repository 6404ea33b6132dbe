import {
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { Events } from '../../src/events.ts'
import type { OpenFile } from '../../src/memory/appended-file.ts'
import { DiskJournal } from '../../src/memory/disk.ts'
import { encodeEnd, encodeRecord, sealLine } from '../../src/memory/records.ts'
import { until } from '../support/gateways/between.ts'
import { keptLog, levels } from '../support/observing/log-lines.ts'
import {
  appendAll,
  asIfKilled,
  clockAt,
  fileName,
  ids,
  idsOf,
  newFolder,
  noHolds,
  noon,
  noteds,
  type Opened,
  opened,
  textOf,
} from './disk-support.ts'

const salt = 'the-salt-of-this-folder'
const now = { nowMs: noon, steadyMs: 1_000 }
const segment = (from: number, to: number, ...more: string[]) =>
  [
    sealLine(['h', 3, 'https://swap.example', salt]),
    ...noteds(from, to).map((record) => encodeRecord(record, now)),
    ...more,
    '',
  ].join('\n')
const keys = [
  `{"key":"one","at":${noon},"is":{"digest":"d","state":"sent"}}`,
  `{"key":"two","at":${noon},"is":{"digest":"d","state":"sent"}}`,
  `{"key":"freed","at":${noon},"is":{"digest":"d","state":"sent"}}`,
  `{"key":"one","at":${noon},"is":{"digest":"d","state":"large"}}`,
  `{"key":"freed","at":${noon},"is":null}`,
  '',
].join('\n')
const keysLeft = ['two', 'one']
const older = ['journal-9.ndjson', 'journal-10.ndjson', 'keys.ndjson']

/** As that version left it at a clean end: a file each hour, by their numbers, and one of keys. */
function olderFolder(end = encodeEnd(noon)): string {
  const folder = newFolder()
  writeFileSync(join(folder, 'journal-9.ndjson'), segment(0, 50))
  writeFileSync(join(folder, 'journal-10.ndjson'), segment(50, 100, end))
  writeFileSync(join(folder, 'keys.ndjson'), keys)
  return folder
}

async function carriedOver(folder: string, { journal }: Pick<Opened, 'journal'>) {
  const left = () => readdirSync(folder).filter((name) => older.includes(name))
  await until(() => left().length === 0, 'the older files to go')
  await until(() => journal.facts.bytes === textOf(folder).length, 'the file')
}

function expectAll({ memory, keys: { kept }, journal }: Opened): void {
  expect([...new Set(idsOf(memory.restored))]).toEqual(ids(0, 100))
  expect([...kept.keys()].sort()).toEqual(keysLeft.toSorted())
  expect(journal.salt).toBe(salt)
}

test('the files of the layout before are read, and go once all of them is in the one file', async () => {
  const folder = olderFolder()
  const first = await opened(folder)
  expectAll(first)
  expect(first.memory.doubts).toBe(0)
  expect(first.lines()).toEqual([])
  await carriedOver(folder, first)
  await first.journal.close()
  expect(readdirSync(folder)).toEqual([fileName])
  const second = await opened(folder)
  expectAll(second)
  expect(second.memory.doubts).toBe(0)
})

test('an end while they are read leaves them as they are', async () => {
  const folder = olderFolder()
  const { logger: log } = await keptLog()
  const journal = await DiskJournal.open({
    directory: folder,
    swapBaseUrl: 'https://swap.example',
    salt: undefined,
    clock: clockAt(noon),
    log,
    events: new Events(),
  })
  let closing: Promise<void> | undefined
  const restore = () => {
    closing ??= journal.close()
    return true
  }
  const notes = {
    restore,
    doubtRestored() {},
    doubtsRestored: false,
    live: () => [],
    tidy: () => 0,
  }
  await journal.read(notes, { restore, release() {}, live: () => [], bytes: 0 }, noHolds)
  await closing
  expect(readdirSync(folder).sort()).toEqual(older.toSorted())
})

test('a kill at any step of carrying them over loses nothing', async () => {
  const folder = olderFolder()
  const killed: string[] = []
  const snapshot = () => void killed.push(asIfKilled(folder))
  const openFile: OpenFile = async (path, flags, mode) => {
    const file = await open(path, flags, mode)
    snapshot()
    return {
      appendFile: async (bytes) => {
        await file.appendFile(bytes.subarray(0, bytes.length / 2))
        snapshot()
        await file.appendFile(bytes.subarray(bytes.length / 2))
        snapshot()
      },
      truncate: (bytes) => file.truncate(bytes),
      datasync: async () => {
        snapshot()
        await file.datasync()
        snapshot()
      },
      close: async () => {
        snapshot()
        await file.close()
      },
    }
  }
  const first = await opened(folder, { openFile })
  first.keys.kept.set('late', '"claimed"')
  await first.journal.keeper.claim('late', '"claimed"')
  // From here on its order may be sent.
  const claimedAt = killed.length
  await carriedOver(folder, first)
  snapshot()
  const hasBoth = (names: string[]) =>
    names.includes(fileName) && names.includes('keys.ndjson')
  // Between the renaming and the removal, too.
  expect(killed.filter((each) => hasBoth(readdirSync(each)))).not.toEqual([])
  expect(killed.length).toBeGreaterThan(12)
  for (const [at, each] of killed.entries()) {
    const second = await opened(each)
    const isClaimed = second.keys.kept.delete('late')
    if (at >= claimedAt) expect(isClaimed).toBe(true)
    expectAll(second)
    expect(second.lines()).toEqual([])
    await carriedOver(each, second)
  }
})

describe('is doubted', () => {
  test.each<[string, (folder: string) => void, string[]?]>([
    [
      'without a clean end',
      (folder) => writeFileSync(join(folder, older[1] ?? ''), segment(50, 100)),
    ],
    [
      'with a file that was about to be begun',
      (folder) => writeFileSync(join(folder, 'journal-11.part'), ''),
    ],
    [
      'beside a file of now that a power cut has left empty',
      (folder) => writeFileSync(join(folder, fileName), ''),
      ['damaged at the first line'],
    ],
  ])('what that version left %s', async (_, change, setAside) => {
    const folder = olderFolder()
    change(folder)
    const first = await opened(folder)
    expectAll(first)
    expect(first.memory.doubts).toBe(1)
    expect(first.lines().map(({ why }) => why)).toEqual(setAside ? [setAside] : [])
  })

  test('what lacks a file, has a torn one before the last, or a damaged line, which is counted', async () => {
    const folder = olderFolder()
    writeFileSync(join(folder, 'journal-7.ndjson'), `${segment(100, 110)}[1,"n"`)
    writeFileSync(
      join(folder, 'keys.ndjson'),
      `garbage\n${keys}{"key":"torn","at":1,"is":{"dig`,
    )
    const { memory, keys: read, journal, lines } = await opened(folder)
    expect(new Set(idsOf(memory.restored)).size).toBe(110)
    expect([...read.kept.keys()].sort()).toEqual(keysLeft.toSorted())
    expect(memory.doubts).toBe(1)
    expect(journal.facts.skipped).toBe(3)
    expect(lines()).toMatchObject([{ level: levels.error, lines: 3, restored: 110 }])
  })
})

test('what that version left for another upstream is set aside, and its keys count', async () => {
  const folder = olderFolder()
  const {
    memory,
    keys: read,
    lines,
  } = await opened(folder, {
    swapBaseUrl: 'https://other.example',
  })
  expect(memory.restored).toEqual([])
  expect(read.kept.size).toBe(2)
  expect(lines()).toMatchObject([
    { files: 2, why: ['of another SWAP_BASE_URL (https://swap.example)'] },
  ])
})

test('where that version was started again meanwhile, what it wrote last counts', async () => {
  const folder = olderFolder()
  const first = await opened(folder)
  await carriedOver(folder, first)
  first.keys.kept.set('here', '{"digest":"d","state":"sent"}')
  await appendAll(first, noteds(100, 110))
  await first.journal.close()
  const line = (id: string, state: string) =>
    `{"key":"${id}","at":${noon},"is":{"digest":"d","state":"${state}"}}\n`
  writeFileSync(
    join(folder, 'keys.ndjson'),
    `${line('here', 'large')}${line('there', 'sent')}`,
  )
  const [later, sooner] = [Date.now() / 1_000 + 60, Date.now() / 1_000 - 60]
  utimesSync(join(folder, 'keys.ndjson'), later, later)
  const second = await opened(folder)
  expect(second.keys.kept.get('here')).toContain('large')
  expect([...second.keys.kept.keys()].sort()).toEqual(['here', 'one', 'there', 'two'])
  expect(new Set(idsOf(second.memory.restored)).size).toBe(110)
  await carriedOver(folder, second)
  await second.journal.close()

  // And the other way round.
  writeFileSync(join(folder, 'keys.ndjson'), line('here', 'sent'))
  utimesSync(join(folder, 'keys.ndjson'), sooner, sooner)
  const third = await opened(folder)
  expect(third.keys.kept.get('here')).toContain('large')
})

test.each([
  ['alone', []],
  ['beside keys', ['keys.ndjson']],
])(
  'where that version began a folder of its own meanwhile, its quotes are set aside, and older ones are doubted: %s',
  async (_, names) => {
    const folder = newFolder()
    const first = await opened(folder)
    await appendAll(first, noteds(0, 5))
    await first.journal.close()
    // That version knows no salt of ours.
    writeFileSync(join(folder, 'journal-1.ndjson'), segment(5, 10, encodeEnd(noon)))
    const later = Date.now() / 1_000 + 60
    for (const name of names) {
      writeFileSync(join(folder, name), keys)
      utimesSync(join(folder, name), later, later)
    }
    const second = await opened(folder)
    expect(idsOf(second.memory.restored)).toEqual(ids(0, 5))
    expect(second.memory.doubts).toBe(1)
    expect(second.keys.kept.size).toBe(names.length * keysLeft.length)
  },
)

test('what that version left in a folder that takes the place of this one stays for the next start', async () => {
  const folder = olderFolder()
  const first = await opened(folder)
  await carriedOver(folder, first)
  await appendAll(first, noteds(100, 101))
  renameSync(folder, join(newFolder(), 'was'))
  renameSync(olderFolder(), folder)
  const { journal } = first
  const isWell = () => existsSync(join(folder, fileName)) && journal.facts.bytes > 5_000
  await until(() => isWell() && journal.facts.awaySinceMs === undefined, 'the folder')
  expect(readdirSync(folder)).toEqual(expect.arrayContaining(older))
  await journal.close()
  const second = await opened(folder)
  expect([...second.keys.kept.keys()].sort()).toEqual(keysLeft.toSorted())
})

test('a full disk keeps them where they are, and what comes is written as far as it can be', async () => {
  const folder = olderFolder()
  let isFull = true
  const openFile: OpenFile = async (path, flags, mode) => {
    const file = await open(path, flags, mode)
    return {
      appendFile: async (bytes) => {
        if (isFull && path.endsWith('.new'))
          throw Object.assign(new Error('full'), { code: 'ENOSPC' })
        await file.appendFile(bytes)
      },
      truncate: (bytes) => file.truncate(bytes),
      datasync: () => file.datasync(),
      close: () => file.close(),
    }
  }
  const clock = clockAt(noon)
  const first = await opened(folder, { openFile, clock })
  await until(() => first.journal.facts.failures.copy > 0, 'the failure')
  first.keys.kept.set('late', '"claimed"')
  await first.journal.keeper.claim('late', '"claimed"')
  const killed = asIfKilled(folder)
  const second = await opened(killed)
  expect(second.keys.kept.delete('late')).toBe(true)
  expectAll(second)
  isFull = false
  clock.advance(600_000)
  await carriedOver(folder, first)
})

test('what of them cannot be read is set aside, and not removed', async () => {
  const folder = olderFolder()
  const path = join(folder, 'keys.ndjson')
  rmSync(path)
  mkdirSync(path)
  writeFileSync(join(path, 'kept'), '')
  const first = await opened(folder)
  await carriedOver(folder, first)
  const [, line] = first.lines(levels.warn)
  expect(line).toMatchObject({ files: 1, why: ['it could not be read to its end'] })
  const aside = join(folder, String(line?.setAsideAs), 'keys.ndjson')
  expect(readdirSync(aside)).toEqual(['kept'])
  expect(first.journal.facts.setAside).toBe(1)
})
