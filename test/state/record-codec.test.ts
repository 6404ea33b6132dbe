import fc from 'fast-check'
import { expect, test } from 'vitest'
import { decodeEntry, emptyMark, fillBatch, markAfter, newestOf } from '../../src/state/batch.ts'
import { encodeRecord, keyOf } from '../../src/state/record-codec.ts'
import type { StateRecord } from '../../src/state/state.ts'
import { quote } from './support.ts'

const amount = fc.double({ min: 0, max: 1e12, noNaN: true }).map((value) => value.toFixed(8))
const quotes = fc
  .record({
    id: fc.string({ unit: 'binary', minLength: 1 }),
    pairId: fc.string({ unit: 'binary' }),
    application: fc.string({ unit: 'binary' }),
    partition: fc.option(fc.string({ minLength: 1 }), { nil: undefined }),
    fromValue: amount,
    toValue: amount,
    other: fc.option(amount),
    cacheKey: fc.string({ unit: 'binary' }),
    lateMs: fc.option(fc.integer({ min: -86_400_000, max: 86_400_000 }), { nil: 0 }),
  })
  .map(({ other, lateMs, ...terms }): StateRecord => {
    const { expiresAtMs } = quote(1)
    const more = { requestedAmount: other ?? terms.fromValue, refusedFromMs: expiresAtMs + lateMs }
    return { kind: 'quote', value: quote(1, { ...terms, ...more }) }
  })
const serials = fc.integer({ min: 1, max: 36 ** 9 - 1 })

test('a quote is read back as it was written', () => {
  fc.assert(
    fc.property(quotes, serials, (record, serial) => {
      const key = keyOf(serial)
      const read = decodeEntry(key, encodeRecord(key, record), 5_000)
      expect(read?.record).toEqual({ ...record, serial, value: { ...record.value, wallAheadMs: 5_000 } })
    }),
  )
})

test('with one changed character in its key or its content, no record is read', () => {
  fc.assert(
    fc.property(quotes, serials, fc.nat(), fc.integer({ min: 0, max: 6 }), (record, serial, at, bit) => {
      const key = keyOf(serial)
      const written = encodeRecord(key, record)
      const changed = (text: string) => {
        const index = at % text.length
        return `${text.slice(0, index)}${String.fromCharCode(text.charCodeAt(index) ^ (1 << bit))}${text.slice(index + 1)}`
      }
      expect(decodeEntry(changed(key), written, 0)).toBeUndefined()
      const checksum = written.slice(0, 7)
      expect(decodeEntry(key, checksum + changed(written.slice(7)), 0)).toBeUndefined()
      // Another spelling of the same checksum does no harm.
      const spelled = decodeEntry(key, changed(checksum) + written.slice(7), 0)
      expect([undefined, serial]).toContain(spelled?.record?.serial)
    }),
    { numRuns: 1_000 },
  )
})

test('the newest mark that is found is that of the last batch, whatever the batches wrote and removed', () => {
  const changes = fc.uniqueArray(fc.tuple(fc.nat(20), fc.option(quotes, { nil: undefined })), {
    selector: ([serial]) => serial,
    minLength: 1,
  })
  fc.assert(
    fc.property(fc.array(changes, { minLength: 1, maxLength: 8 }), (batches) => {
      const content = new Map<string, string>()
      const batch = {
        put: (key: string, value: string) => content.set(key, value),
        del: (key: string) => content.delete(key),
      }
      let mark = emptyMark
      for (const one of batches) {
        const changed = new Map(one)
        mark = markAfter(mark, { changes: changed, nextSerial: 21, writtenAtMs: 7 })
        fillBatch(batch, { changes: changed, after: mark })
      }
      const entries = Array.from(content, ([key, value]) => decodeEntry(key, value, 0))
      expect(
        entries.reduce((newest, entry) => newestOf(newest, entry?.mark ?? emptyMark), emptyMark),
      ).toEqual(mark)
      const live = new Map(batches.flat().map(([serial, record]) => [keyOf(serial), record]))
      const found = entries.flatMap((entry) => entry?.record?.serial ?? [])
      expect(found.map(keyOf).toSorted()).toEqual(
        [...live].flatMap(([key, record]) => (record === undefined ? [] : [key])).toSorted(),
      )
    }),
  )
})
