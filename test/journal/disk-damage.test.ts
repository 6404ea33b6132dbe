import { mkdirSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { sealLine } from '../../src/journal/records.ts'
import { levels } from '../support/observing/log-lines.ts'
import { idsOf, newFolder, noted, opened, segmentsOf, textOf, untilWritten } from './disk-support.ts'

const perSegment = 50
const segments = 4
const idsFrom = (segment: number) =>
  Array.from({ length: perSegment }, (_, at) => `quote-${segment * perSegment + at}`)
const allIds = Array.from({ length: segments }, (_, segment) => idsFrom(segment)).flat()

/** Four segments of fifty records, of a process that ended as it should. */
async function filled(): Promise<string> {
  const folder = newFolder()
  const { journal } = await opened(folder, { maxRecords: 4 * perSegment })
  for (let number = 0; number < segments * perSegment; number += 1) {
    journal.append(noted(number))
    if (number % perSegment === perSegment - 1) await untilWritten({ journal })
  }
  await journal.close()
  return folder
}

test('a folder that is whole says nothing', async () => {
  const { memory, lines, journal } = await opened(await filled())
  expect(idsOf(memory.restored)).toEqual(allIds)
  expect(memory.doubts).toBe(0)
  expect(journal.facts).toMatchObject({ skipped: 0, setAside: 0 })
  expect(lines()).toEqual([])
})

type Damage = (file: string) => void
const edit =
  (change: (bytes: Buffer) => Buffer): Damage =>
  (file) =>
    writeFileSync(file, change(readFileSync(file)))
const flipAt = (share: number) =>
  edit((bytes) => {
    const at = Math.floor((bytes.length - 1) * share)
    bytes[at] = (bytes[at] ?? 0) ^ 0x04
    return bytes
  })

// One between others, and the newest.
describe.each([1, 3])('of segment %i', (segment) => {
  const isNewest = segment === segments - 1

  test.each<[string, Damage]>([
    ['a cut in its head', (file) => truncateSync(file, 20)],
    ['emptied', (file) => truncateSync(file, 0)],
    ['filled with garbage', edit((bytes) => Buffer.from(bytes.map((_, at) => (at * 7_919) % 251)))],
    ['filled with zeros, as a loss of power leaves it', edit((bytes) => bytes.fill(0))],
    ['a flipped bit in its head', flipAt(0.001)],
  ])('%s: it is set aside with a line, and all others are read', async (_, damage) => {
    const folder = await filled()
    const name = segmentsOf(folder)[segment] ?? ''
    damage(join(folder, name))
    const damaged = readFileSync(join(folder, name))
    const { memory, lines, journal } = await opened(folder)
    expect(idsOf(memory.restored)).toEqual(allIds.filter((id) => !idsFrom(segment).includes(id)))
    expect(memory.doubts).toBe(1)
    const [line, ...more] = lines()
    expect(line).toMatchObject({ level: levels.warn, files: 1, why: ['damaged at the first line'] })
    expect(more).toEqual([])
    expect(readFileSync(join(folder, String(line?.setAsideAs), name))).toEqual(damaged)
    expect(journal.facts).toMatchObject({ skipped: 0, setAside: 1 })
  })

  test.each([0.1, 0.3, 0.5, 0.7, 0.9])(
    'a flipped bit at %d: one line is lost, and the log says so',
    async (share) => {
      const folder = await filled()
      flipAt(share)(join(folder, segmentsOf(folder)[segment] ?? ''))
      const { memory, lines, journal } = await opened(folder)
      // A newline that is flipped takes two lines, which stand for one.
      expect(memory.restored.length).toBeGreaterThanOrEqual(allIds.length - 2)
      expect(idsOf(memory.restored)).toEqual(allIds.filter((id) => idsOf(memory.restored).includes(id)))
      expect(journal.facts.skipped).toBe(1)
      expect(memory.doubts).toBe(1)
      expect(lines()).toMatchObject([{ level: levels.error, lines: 1, restored: memory.restored.length }])
    },
  )

  test.each([0.2, 0.5, 0.8])('cut at %d: what stands before is read', async (share) => {
    const folder = await filled()
    const file = join(folder, segmentsOf(folder)[segment] ?? '')
    truncateSync(file, Math.floor(readFileSync(file).length * share))
    const { memory, lines, journal } = await opened(folder)
    const kept = idsFrom(segment).filter((id) => idsOf(memory.restored).includes(id))
    expect(kept).toEqual(idsFrom(segment).slice(0, kept.length))
    expect(Math.abs(kept.length - share * perSegment)).toBeLessThan(3)
    expect(memory.restored).toHaveLength(allIds.length - perSegment + kept.length)
    expect(memory.doubts).toBe(1)
    // A torn end of the newest one is what kill -9 leaves.
    expect(journal.facts.skipped).toBe(isNewest ? 0 : 1)
    expect(lines()).toHaveLength(isNewest ? 0 : 1)
  })

  test('garbage in the middle: it is counted, and what stands around it is read', async () => {
    const folder = await filled()
    edit((bytes) => {
      const text = bytes.toString('utf8').split('\n')
      text.splice(20, 0, '{"id":"quote-1"}', '[1,"n"]', `${'x'.repeat(300_000)}`, 'null')
      return Buffer.from(text.join('\n'))
    })(join(folder, segmentsOf(folder)[segment] ?? ''))
    const { memory, lines, journal } = await opened(folder)
    expect(idsOf(memory.restored)).toEqual(allIds)
    expect(journal.facts.skipped).toBe(4)
    expect(memory.doubts).toBe(1)
    expect(lines()).toMatchObject([{ level: levels.error, lines: 4, restored: allIds.length }])
  })
})

test.each([0, 1, 3])(
  'segment %i deleted: all others are read, and a missing number is doubted',
  async (segment) => {
    const folder = await filled()
    rmSync(join(folder, segmentsOf(folder)[segment] ?? ''))
    const { memory } = await opened(folder)
    expect(idsOf(memory.restored)).toEqual(allIds.filter((id) => !idsFrom(segment).includes(id)))
    // The oldest one goes by itself in time.
    expect(memory.doubts).toBe(segment === 0 ? 0 : 1)
  },
)

test('a file that cannot be read at all is set aside, whatever it is', async () => {
  const folder = await filled()
  const [name = ''] = segmentsOf(folder)
  rmSync(join(folder, name))
  mkdirSync(join(folder, name))
  const { memory, lines } = await opened(folder)
  expect(memory.restored).toHaveLength(allIds.length - perSegment)
  expect(lines()).toMatchObject([{ why: ['damaged at the first line'] }])
})

test('after damage the next process goes on, and the one after it reads both', async () => {
  const folder = await filled()
  writeFileSync(join(folder, segmentsOf(folder)[3] ?? ''), 'garbage')
  const second = await opened(folder)
  second.journal.append(noted(1_000))
  second.memory.doubtsRestored = false
  await second.journal.close()
  expect(segmentsOf(folder).at(-1)).toBe('journal-5.ndjson')
  const { memory } = await opened(folder)
  expect(idsOf(memory.restored)).toEqual([...idsFrom(0), ...idsFrom(1), ...idsFrom(2), 'quote-1000'])
})

describe('is set aside with a line', () => {
  const why = 'written with another salt, which VALKEY_URL decides'

  test.each([
    [
      'another SWAP_BASE_URL',
      {},
      { swapBaseUrl: 'https://other.example' },
      'of another SWAP_BASE_URL (https://swap.example)',
    ],
    ['no shared store', { salt: 'one' }, {}, why],
    ['a shared store', {}, { salt: 'one' }, why],
    ['another shared store', { salt: 'one' }, { salt: 'two' }, why],
  ])('what was written under %s', async (_, before, now, reason) => {
    const folder = newFolder()
    const first = await opened(folder, before)
    first.journal.append(noted(1))
    await first.journal.close()
    const { memory, lines, journal } = await opened(folder, now)
    expect(memory).toMatchObject({ restored: [], doubts: 0 })
    expect(journal.facts.setAside).toBe(1)
    const [line] = lines(levels.warn)
    expect(line).toMatchObject({ files: 1, why: [reason] })
    expect(line?.setAsideAs).toMatch(/^set-aside-2025-11-20T/)
    expect(readdirSync(join(folder, String(line?.setAsideAs)))).toEqual(['journal-1.ndjson'])
    journal.append(noted(2))
    await journal.close()
    const third = await opened(folder, now)
    expect(idsOf(third.memory.restored)).toEqual(['quote-2'])
    expect(third.lines()).toEqual([])
    expect(third.journal.facts.setAside).toBe(1)
  })

  test('a segment of another folder, whose salt is another: that of the newest one counts', async () => {
    const [folder, other] = [await filled(), await filled()]
    writeFileSync(join(folder, 'journal-1.ndjson'), textOf(other, 'journal-1.ndjson'))
    const { memory, lines } = await opened(folder)
    expect(idsOf(memory.restored)).toEqual(allIds.slice(perSegment))
    expect(lines()).toMatchObject([{ files: 1, why: [why] }])
  })

  test('a segment of another layout', async () => {
    const folder = await filled()
    writeFileSync(join(folder, 'journal-5.ndjson'), `${sealLine(['h', 4, 'https://swap.example', 's'])}\n`)
    const { memory, lines } = await opened(folder)
    expect(memory.restored).toHaveLength(allIds.length)
    expect(lines()).toMatchObject([{ why: ['of layout 4, and this version reads 3'] }])
  })

  test('what 1.1.0 left, its lock included', async () => {
    const folder = newFolder()
    for (const name of ['store', 'lock', 'opening']) mkdirSync(join(folder, name))
    for (const name of ['about', 'synced', 'lock/LOCK', 'store/CURRENT'])
      writeFileSync(join(folder, name), 'x')
    writeFileSync(join(folder, 'keep.txt'), 'not ours')
    const { memory, lines, journal } = await opened(folder)
    expect(memory.restored).toEqual([])
    const [line] = lines()
    expect(line).toMatchObject({ level: levels.warn, files: 5, why: ['of an older version'] })
    expect(readdirSync(join(folder, String(line?.setAsideAs))).sort()).toEqual([
      ...['about', 'lock.old', 'opening', 'store', 'synced'],
    ])
    expect(readdirSync(folder).sort()).toEqual(['keep.txt', 'lock', line?.setAsideAs])
    await journal.close()
    expect((await opened(folder)).lines()).toEqual([])
  })
})
