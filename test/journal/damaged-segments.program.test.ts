import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodeLine, sealLine, unsealLine } from '../../src/memory/records.ts'
import { levels } from '../support/observing/log-lines.ts'
import {
  appendInSteps,
  asIfKilled,
  ids,
  idsOf,
  newFolder,
  noted,
  numberOf,
  opened,
  segmentsOf,
  textOf,
} from './disk-support.ts'

const perSegment = 20
const segments = 4

/** Four segments of twenty records, of a process that ended as it should. */
async function filled(): Promise<string> {
  const folder = newFolder()
  const first = await opened(folder, { maxRecords: 4 * perSegment })
  await appendInSteps(first, 0, segments * perSegment, perSegment)
  await first.journal.close()
  return folder
}

/** What is sound in a folder, line by line. */
function soundIn(folder: string) {
  const files = segmentsOf(folder).map((name) => ({
    name,
    lines: textOf(folder, name).split('\n'),
  }))
  const hasHead = ({ lines: [head = ''] }: (typeof files)[number]) =>
    unsealLine(head) !== undefined
  const unreadable = files.filter((file) => !hasHead(file)).map(({ name }) => name)
  const read = files.filter(hasHead)
  const found: string[] = []
  let skipped = 0
  let isLastWhole = false
  for (const [index, { lines }] of read.entries()) {
    const isTorn = lines.pop() !== ''
    // A torn end of the newest one is what kill -9 leaves.
    if (isTorn && index < read.length - 1) skipped += 1
    const decoded = lines
      .slice(1)
      .map((line) => decodeLine(line, { nowMs: 0, steadyMs: 0 }, () => 0))
    found.push(
      ...decoded.map((read) => read?.record?.quote.id).filter((id) => id !== undefined),
    )
    skipped += decoded.filter((read) => read === undefined).length
    const last = decoded.at(-1)
    isLastWhole = !isTorn && last !== undefined && last.record === undefined
  }
  const isMissing = read.some(
    ({ name }, at) => at > 0 && numberOf(name) !== numberOf(read[at - 1]?.name ?? '') + 1,
  )
  const isWhole = isLastWhole && skipped === 0 && unreadable.length === 0 && !isMissing
  return { ids: found, unreadable, skipped, isWhole }
}

type Damage = (bytes: Buffer, from: number, to: number) => Buffer | undefined
const damages: Readonly<Record<string, Damage>> = {
  none: (bytes) => bytes,
  'a flipped bit': (bytes, from) => bytes.fill((bytes[from] ?? 0) ^ 0x04, from, from + 1),
  'cut off': (bytes, from) => bytes.subarray(0, from),
  'zeros, as a loss of power leaves them': (bytes, from, to) => bytes.fill(0, from, to),
  garbage: (bytes, from, to) =>
    Buffer.from(
      bytes.map((byte, at) => (at < from || at > to ? byte : (at * 7_919) % 251)),
    ),
  'lines of others': (bytes, from) => {
    const others = `\n{"id":"quote-1"}\n[1,"n"]\n${'x'.repeat(300_000)}\nnull\n`
    return Buffer.concat([
      bytes.subarray(0, from),
      Buffer.from(others),
      bytes.subarray(from),
    ])
  },
  deleted: () => undefined,
}
const place = fc.oneof(
  fc.constantFrom(0, 0.001, 1),
  fc.double({ min: 0, max: 1, noNaN: true }),
)

test('of a damaged segment all that is sound is read; the rest is counted, logged and doubted, or set aside as it is', async () => {
  const sound = await filled()
  const segment = fc.nat(segments - 1)
  const damage = fc.constantFrom(...Object.keys(damages))
  const damaged = async (kind: string, at: number, from: number, to: number) => {
    const folder = asIfKilled(sound)
    const name = segmentsOf(folder)[at] ?? ''
    const bytes = readFileSync(join(folder, name))
    const [start = 0, end = 0] = [from, to]
      .map((share) => Math.floor((bytes.length - 1) * share))
      .toSorted((a, b) => a - b)
    const left = damages[kind]?.(bytes, start, end)
    if (left === undefined) rmSync(join(folder, name))
    else writeFileSync(join(folder, name), left)
    const { unreadable, skipped, isWhole, ...expected } = soundIn(folder)

    const { memory, lines, journal } = await opened(folder)
    expect(idsOf(memory.restored)).toEqual(expected.ids)
    expect(memory.doubts).toBe(isWhole ? 0 : 1)
    expect(journal.facts).toMatchObject({ skipped, setAside: unreadable.length })
    const [setAside] = lines(levels.warn)
    expect(lines()).toMatchObject([
      ...unreadable.map(() => ({
        level: levels.warn,
        files: 1,
        why: ['damaged at the first line'],
      })),
      ...(skipped > 0
        ? [{ level: levels.error, lines: skipped, restored: expected.ids.length }]
        : []),
    ])
    for (const file of unreadable)
      expect(readFileSync(join(folder, String(setAside?.setAsideAs), file))).toEqual(left)

    // This process goes on, and the next one reads both.
    journal.append(noted(1_000))
    await journal.close()
    const third = await opened(folder)
    expect(idsOf(third.memory.restored)).toEqual([...expected.ids, 'quote-1000'])
    expect(third.journal.facts.skipped).toBe(skipped)
    await third.journal.close()
  }
  await fc.assert(fc.asyncProperty(damage, segment, place, place, damaged), {
    numRuns: 60,
  })
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
    expect(readdirSync(join(folder, String(line?.setAsideAs)))).toEqual([
      'journal-1.ndjson',
    ])
    journal.append(noted(2))
    await journal.close()
    const third = await opened(folder, now)
    expect(idsOf(third.memory.restored)).toEqual(['quote-2'])
    expect(third.lines()).toEqual([])
    expect(third.journal.facts.setAside).toBe(1)
  })

  test('what cannot be read, is of another folder (the salt of the newest one counts), or of another layout', async () => {
    const [folder, other] = [await filled(), await filled()]
    rmSync(join(folder, 'journal-1.ndjson'))
    mkdirSync(join(folder, 'journal-1.ndjson'))
    writeFileSync(join(folder, 'journal-2.ndjson'), textOf(other, 'journal-2.ndjson'))
    writeFileSync(
      join(folder, 'journal-5.ndjson'),
      `${sealLine(['h', 4, 'https://swap.example', 's'])}\n`,
    )
    const { memory, lines } = await opened(folder)
    expect(idsOf(memory.restored)).toEqual(ids(2 * perSegment, segments * perSegment))
    const reasons = [
      'damaged at the first line',
      why,
      'of layout 4, and this version reads 3',
    ]
    expect(lines()).toMatchObject([{ files: 3, why: reasons }])
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
    expect(line).toMatchObject({
      level: levels.warn,
      files: 5,
      why: ['of an older version'],
    })
    const setAside = readdirSync(join(folder, String(line?.setAsideAs))).sort()
    expect(setAside).toEqual(['about', 'lock.old', 'opening', 'store', 'synced'])
    expect(readdirSync(folder).sort()).toEqual(['keep.txt', 'lock', line?.setAsideAs])
    await journal.close()
    expect((await opened(folder)).lines()).toEqual([])
  })
})
