import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { JournalRecord } from '../../src/memory/journal.ts'
import {
  decodeLine,
  encodeEnd,
  encodeRecord,
  maxRecordLength,
  sealLine,
  unsealLine,
} from '../../src/memory/records.ts'
import type { Note } from '../../src/quotes/note.ts'

const now = { nowMs: 1_763_640_000_000, steadyMs: 5_000 }
const wallAheadMs = now.nowMs - now.steadyMs
/** No age at all: read at once where it was written. */
const atOnce = (line: string) => decodeLine(line, now, (wallMs) => now.nowMs - wallMs)

const anyText = fc.string({ unit: 'binary', maxLength: 40 })
const instants = fc.integer({
  min: now.nowMs - 100_000_000,
  max: now.nowMs + 100_000_000,
})
const decimals = fc.oneof(
  fc.integer({ min: 1, max: 1_000_000_000 }).map(String),
  fc
    .tuple(fc.nat(1_000_000), fc.integer({ min: 1, max: 9 }))
    .map(([whole, last]) => `${whole}.0${last}`),
)

const quotes: fc.Arbitrary<Note> = fc
  .record({
    id: anyText,
    pairId: anyText,
    application: anyText,
    cacheKey: anyText,
    partition: fc.option(anyText, { nil: undefined }),
    fromValue: decimals,
    requestedAmount: decimals,
    toValue: fc.oneof(decimals, fc.constant('')),
    hasNumbers: fc.boolean(),
    expiresAtMs: instants,
    refusedFromMs: instants,
    notedAtMs: instants,
  })
  .map((quote) => ({ ...quote, wallAheadMs }))
const records: fc.Arbitrary<JournalRecord> = fc.oneof(
  quotes.map((quote): JournalRecord => ({ kind: 'noted', quote })),
  fc
    .record({ id: anyText, expiresAtMs: instants })
    .map((quote): JournalRecord => ({ kind: 'used', quote })),
)

test('a record is read as it was written, from one line of characters that UTF-8 has', () => {
  fc.assert(
    fc.property(records, (record) => {
      const line = encodeRecord(record, now)
      expect(atOnce(line)).toEqual({ record, wallMs: now.nowMs })
      expect(line).not.toContain('\n')
      expect(Buffer.from(line).toString()).toBe(line)
    }),
    { numRuns: 2_000 },
  )
})

test('of a line that is cut, or has another character, or a part of another line, nothing is read', () => {
  const character = fc.string({ unit: 'binary', minLength: 1, maxLength: 1 })
  fc.assert(
    fc.property(records, records, fc.nat(), character, (record, next, place, other) => {
      const line = encodeRecord(record, now)
      const at = place % line.length
      const cut = line.slice(0, at)
      expect(atOnce(cut)).toBeUndefined()
      if (at > 0) expect(atOnce(cut + encodeRecord(next, now))).toBeUndefined()
      if (line[at] !== other)
        expect(atOnce(cut + other + line.slice(at + 1))).toBeUndefined()
    }),
    { numRuns: 2_000 },
  )
})

test('no text stops the reading', () => {
  const texts = fc.oneof(anyText, fc.json(), fc.array(fc.jsonValue()).map(sealLine))
  fc.assert(fc.property(texts, (text) => void [atOnce(text), unsealLine(text)]))
})

describe('a quote that is read later, or by another process', () => {
  const quote: Note = {
    id: 'q',
    pairId: 'ETH_USDC',
    application: 'wallet',
    partition: 'p',
    cacheKey: '',
    fromValue: '0.1',
    requestedAmount: '0.1',
    toValue: '300.5',
    hasNumbers: false,
    wallAheadMs,
    notedAtMs: now.nowMs,
    expiresAtMs: now.nowMs + 30_000,
    refusedFromMs: now.nowMs + 30_000,
  }
  const line = encodeRecord({ kind: 'noted', quote }, now)
  const readAt = (nowMs: number, steadyMs: number, ageMs: number) =>
    decodeLine(line, { nowMs, steadyMs }, () => ageMs)?.record?.quote

  test('has as much left as was left when it was written, less its age, on both of the clocks of its reader', () => {
    // That wall clock is an hour behind.
    const nowMs = now.nowMs - 3_600_000
    expect(readAt(nowMs, 70, 10_000)).toMatchObject({
      refusedFromMs: nowMs + 20_000,
      notedAtMs: nowMs - 10_000,
      wallAheadMs: nowMs - 70,
      expiresAtMs: quote.expiresAtMs,
    })
  })

  test('is over where it is older than what was left', () => {
    expect(readAt(now.nowMs + 60_000, 60_000, 60_000)).toMatchObject({
      refusedFromMs: now.nowMs + 30_000,
    })
  })
})

test('an end is read as an end, and not as a record', () => {
  expect(atOnce(encodeEnd(now.nowMs))).toEqual({ record: undefined, wallMs: now.nowMs })
})

test.each([
  ['a member too few', ['n', now.nowMs, 5, 5, 'id', 'pair', 'app', '1 2', 0, 0, '']],
  [
    'a member too many',
    ['n', now.nowMs, 5, 5, 'id', 'pair', 'app', '1 2', 0, 0, '', 5, 5],
  ],
  [
    'an amount that is not canonical',
    ['n', now.nowMs, 5, 5, 'id', 'pair', 'app', '1 2.0', 0, 0, '', 5],
  ],
  [
    'a toAmount that cannot be one',
    ['n', now.nowMs, 5, 5, 'id', 'pair', 'app', '1 many', 0, 0, '', 5],
  ],
])('a line with %s is not a record, although its checksum is right', (_, members) =>
  expect(atOnce(sealLine(members))).toBeUndefined(),
)

test('a line with one member of another kind is not a record, although its checksum is right', () => {
  const noted = [
    'n',
    now.nowMs,
    5,
    5,
    'id',
    'pair',
    'app',
    '1 2',
    '1',
    'partition',
    '',
    5,
  ]
  for (const members of [noted, ['u', now.nowMs, 'id', 5]]) {
    expect(atOnce(sealLine(members))).toBeDefined()
    for (const [at, member] of members.entries())
      for (const other of [null, true, typeof member === 'string' ? 7 : '7'])
        expect(
          atOnce(sealLine(members.with(at, other as never))),
          `${at}: ${other}`,
        ).toBeUndefined()
  }
})

test('a line that is too long is not a record', () => {
  const used = (id: string) =>
    encodeRecord({ kind: 'used', quote: { id, expiresAtMs: 5 } }, now)
  const around = used('').length
  expect(atOnce(used('x'.repeat(maxRecordLength - around - 1)))).toBeDefined()
  expect(atOnce(used('x'.repeat(maxRecordLength)))).toBeUndefined()
})
