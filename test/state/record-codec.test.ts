import fc from 'fast-check'
import { expect, test } from 'vitest'
import { decodeRecord, encodeRecord, keyOf } from '../../src/state/record-codec.ts'
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
    ownEnd: fc.option(fc.record({ fromMs: fc.integer(), untilMs: fc.integer() }), { nil: undefined }),
  })
  .map(({ other, ...terms }): StateRecord => {
    return { kind: 'quote', value: quote(1, { ...terms, requestedAmount: other ?? terms.fromValue }) }
  })
const serials = fc.integer({ min: 1, max: 36 ** 9 - 1 })

test('a quote is read back as it was written', () => {
  fc.assert(
    fc.property(quotes, serials, (record, serial) => {
      const key = keyOf(serial)
      const read = decodeRecord(key, encodeRecord(key, record, 5_000), 5_000)
      expect(read).toEqual({ ...record, serial, value: { ...record.value, serial } })
    }),
  )
})

test('with one changed character in its key or its content, no record is read', () => {
  fc.assert(
    fc.property(quotes, serials, fc.nat(), fc.integer({ min: 0, max: 6 }), (record, serial, at, bit) => {
      const key = keyOf(serial)
      const written = encodeRecord(key, record, 0)
      const changed = (text: string) => {
        const index = at % text.length
        return `${text.slice(0, index)}${String.fromCharCode(text.charCodeAt(index) ^ (1 << bit))}${text.slice(index + 1)}`
      }
      expect(decodeRecord(changed(key), written, 0)).toBeUndefined()
      const checksum = written.slice(0, 7)
      expect(decodeRecord(key, checksum + changed(written.slice(7)), 0)).toBeUndefined()
      // Another spelling of the same checksum does no harm.
      const spelled = decodeRecord(key, changed(checksum) + written.slice(7), 0)
      expect([undefined, serial]).toContain(spelled?.serial)
    }),
    { numRuns: 1_000 },
  )
})
