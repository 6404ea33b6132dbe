import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { decodeDiskLine, sealLine, unsealLine } from '../../src/memory/records.ts'
import { until } from '../support/gateways/between.ts'
import { levels } from '../support/observing/log-lines.ts'
import {
  append,
  appendAll,
  asIfKilled,
  fileName,
  idsOf,
  newFolder,
  noted,
  noteds,
  opened,
  textOf,
} from './disk-support.ts'

const records = 80
const keyOf = (number: number) => `key-${number}`

/** Of a process that ended as it should. */
async function filled(): Promise<string> {
  const folder = newFolder()
  const first = await opened(folder)
  await appendAll(first, noteds(0, records))
  for (let number = 0; number < 20; number += 1)
    first.keys.kept.set(
      keyOf(number),
      JSON.stringify({ digest: 'x'.repeat(number * 20) }),
    )
  await first.journal.close()
  return folder
}

/** What is sound in a file, line by line. */
function soundIn(text: string) {
  const lines = text.split('\n')
  const isTorn = lines.pop() !== ''
  const isReadable = unsealLine(text.split('\n', 1)[0] ?? '') !== undefined
  const decoded = lines
    .slice(1)
    .map((line) => decodeDiskLine(line, { nowMs: 0, steadyMs: 0 }))
  const records = decoded.map((read) => read?.record)
  const last = decoded.at(-1)
  return {
    isReadable,
    ids: records.flatMap((one) => (one?.kind === 'noted' ? [one.quote.id] : [])),
    keys: records.flatMap((one) => (one?.kind === 'key' ? [one.id] : [])),
    skipped: decoded.filter((read) => read === undefined).length,
    hasEnd: !isTorn && last !== undefined && last.record === undefined,
  }
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

test('a file of which another one takes the place is set aside only when that has its keys', async () => {
  const folder = await filled()
  const [, ...lines] = textOf(folder).split('\n')
  writeFileSync(join(folder, fileName), ['damaged', ...lines].join('\n'))
  const first = await opened(folder)
  expect(first.keys.kept.size).toBe(20)
  const killed = asIfKilled(folder)
  expect((await opened(killed)).keys.kept.size).toBe(20)
  // Killed before the other one has its name.
  const between = asIfKilled(folder)
  renameSync(join(between, fileName), join(between, `${fileName}.begun`))
  const second = await opened(between)
  expect(second.keys.kept.size).toBe(20)
  expect(second.lines()).toEqual([])
})

test('of a damaged file all that is sound is read; the rest is counted, logged and doubted, or set aside, but for its keys', async () => {
  const sound = await filled()
  const damage = fc.constantFrom(...Object.keys(damages))
  const damaged = async (kind: string, from: number, to: number) => {
    const folder = asIfKilled(sound)
    const path = join(folder, fileName)
    const bytes = readFileSync(path)
    const [start = 0, end = 0] = [from, to]
      .map((share) => Math.floor((bytes.length - 1) * share))
      .toSorted((a, b) => a - b)
    const left = damages[kind]?.(bytes, start, end)
    if (left === undefined) rmSync(path)
    else writeFileSync(path, left)
    const found = soundIn(left?.toString() ?? '')
    const { isReadable, skipped } = found
    const isThere = left !== undefined && left.length > 0
    const isSetAside = left !== undefined && !isReadable
    const expectedIds = isReadable ? found.ids : []

    const { memory, keys, lines, journal } = await opened(folder)
    expect(idsOf(memory.restored)).toEqual(expectedIds)
    expect([...keys.kept.keys()]).toEqual(isThere ? found.keys : [])
    const isWhole = isReadable && found.hasEnd && skipped === 0
    expect(memory.doubts).toBe(isWhole || expectedIds.length === 0 ? 0 : 1)
    expect(journal.facts).toMatchObject({
      skipped: isReadable ? skipped : 0,
      setAside: isSetAside ? 1 : 0,
    })
    const aside = { level: levels.warn, files: 1, why: ['damaged at the first line'] }
    const damage = { level: levels.error, lines: skipped, restored: expectedIds.length }
    expect(lines()).toMatchObject([
      ...(isSetAside ? [aside] : []),
      ...(isReadable && skipped > 0 ? [damage] : []),
    ])
    if (isSetAside) {
      const [line] = lines(levels.warn)
      expect(readFileSync(join(folder, String(line?.setAsideAs), fileName))).toEqual(left)
    }

    // This process goes on, and the next one reads both.
    append({ journal, memory }, [noted(1_000)])
    await journal.close()
    const third = await opened(folder)
    expect(idsOf(third.memory.restored)).toEqual([...expectedIds, 'quote-1000'])
    expect([...third.keys.kept]).toEqual([...keys.kept])
    await third.journal.close()
  }
  await fc.assert(fc.asyncProperty(damage, place, place, damaged), { numRuns: 60 })
})

test('a line without an end, as a loss of power leaves it, is put together once', async () => {
  const folder = await filled()
  const whole = textOf(folder)
  writeFileSync(join(folder, fileName), whole + '\0'.repeat(8_000_000))
  const concat = vi.spyOn(Buffer, 'concat')
  onTestFinished(() => concat.mockRestore())
  const { memory } = await opened(folder)
  const copied = concat.mock.results.map(({ value }) => value.length)
  expect(copied.reduce((sum, length) => sum + length, 0)).toBeLessThan(10_000_000)
  expect(memory.restored).toHaveLength(records)
})

test('a file of which much is damaged is written again, as every one that is long', async () => {
  const folder = await filled()
  const zeros = '\0'.repeat(4_000_000)
  writeFileSync(join(folder, fileName), `${textOf(folder)}${zeros}\n`)
  const { journal, memory } = await opened(folder)
  expect(memory.restored).toHaveLength(records)
  await until(() => journal.facts.bytes < 1_000_000, 'a file without the damage')
  expect(idsOf((await opened(asIfKilled(folder))).memory.restored)).toHaveLength(records)
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
    append(first, [noted(1)])
    first.keys.kept.set('key', '"claimed"')
    await first.journal.close()
    const second = await opened(folder, now)
    const { memory, lines, journal, keys } = second
    // A key's digest says whose it is. It may be used again where the setting is set back.
    expect([...keys.kept.keys()]).toEqual(['key'])
    expect(memory).toMatchObject({ restored: [], doubts: 0 })
    expect(journal.facts.setAside).toBe(1)
    const [line] = lines(levels.warn)
    expect(line).toMatchObject({ files: 1, why: [reason] })
    expect(line?.setAsideAs).toMatch(/^set-aside-2025-11-20T/)
    expect(readdirSync(join(folder, String(line?.setAsideAs)))).toEqual([fileName])
    append(second, [noted(2)])
    await journal.close()
    const third = await opened(folder, now)
    expect(idsOf(third.memory.restored)).toEqual(['quote-2'])
    expect([...third.keys.kept.keys()]).toEqual(['key'])
    expect(third.lines()).toEqual([])
    expect(third.journal.facts.setAside).toBe(1)
  })

  test('what is of another layout, or cannot be read', async () => {
    const folder = await filled()
    const [, ...lines] = textOf(folder).split('\n')
    const head = sealLine(['h', 5, 'https://swap.example', 's'])
    writeFileSync(join(folder, fileName), [head, ...lines].join('\n'))
    const later = await opened(folder)
    expect(later.lines()).toMatchObject([
      { files: 1, why: ['of layout 5, and this version reads 4'] },
    ])
    expect([later.memory.restored.length, later.keys.kept.size]).toEqual([0, 20])
    await later.journal.close()

    rmSync(join(folder, fileName), { force: true })
    mkdirSync(join(folder, fileName))
    const last = await opened(folder)
    expect(last.lines()).toMatchObject([{ files: 1, why: ['damaged at the first line'] }])
    await appendAll(last, [noted(1)])
    expect(last.journal.facts.setAside).toBe(2)
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
