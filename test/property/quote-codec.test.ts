import fc from 'fast-check'
import { expect, it } from 'vitest'
import { decodeCopy, encodeCopy } from '../../src/memory/records.ts'
import { aQuote } from '../support/stores/a-quote.ts'

const end = { servedUntilMs: 1, refusedFromMs: 2, wallAheadMs: 3 }
const latin1 = fc
  .uint8Array({ maxLength: 300 })
  .map((bytes) => Buffer.from(bytes).toString('latin1'))
/** What Node writes as a header. */
const value = latin1.map((text) => text.replace(/[^\t\x20-\x7e\x80-\xff]/g, ''))
const quote = fc
  .record({
    // Any text that JSON can hold, halves of surrogate pairs too.
    id: fc.oneof(
      fc.string({ unit: 'binary', minLength: 1, maxLength: 100 }),
      fc.constantFrom('\n', '"', '\ud800', '\\"\n'),
    ),
    note: fc.string({ unit: 'binary' }),
    headers: fc
      .array(fc.tuple(fc.constantFrom('X-A', 'x-b'), value), { maxLength: 6 })
      .map((pairs): readonly string[] => pairs.flat()),
    lifeMs: fc.integer(),
    expiresAtMs: fc.integer({ min: 1e11, max: Number.MAX_SAFE_INTEGER }),
  })
  .map(({ id, note, headers, lifeMs, expiresAtMs }) => {
    const fromAmount = { assetId: 'ETH', value: '0.10' }
    const toAmount = { assetId: 'USDC', value: '289.6450', note }
    const stated = { id, pairId: note || 'pair', fromAmount, toAmount }
    const text = `\r\n ${JSON.stringify({ ...stated, expiry: expiresAtMs })}`
    const body = Buffer.from(text).toString('latin1')
    return aQuote({ id, body, headers, lifeMs, expiresAtMs, end })
  })

it('decodes every copy to the same quote, whatever its bytes', () => {
  fc.assert(
    fc.property(quote, (original) => {
      expect(decodeCopy(encodeCopy(original), end)).toEqual(original)
    }),
    { numRuns: 2_000 },
  )
})

it('reads other bytes as missing, and never throws', () => {
  fc.assert(
    fc.property(
      quote,
      fc.nat(),
      fc.uint8Array({ maxLength: 40 }),
      (original, at, other) => {
        const bytes = encodeCopy(original)
        const place = at % bytes.length
        decodeCopy(
          Buffer.concat([bytes.subarray(0, place), other, bytes.subarray(place)]),
          end,
        )
        decodeCopy(bytes.subarray(0, place), end)
        expect(decodeCopy(Buffer.from(other), end)).toBeUndefined()
      },
    ),
    { numRuns: 2_000 },
  )
})

it.each([
  '',
  '"id"',
  '"id"\n[1,2]',
  '1\n[1,2]\n',
  '"id"\n[]\n',
  '"id"\n["1","2"]\n',
  '"id"\n[1,2,"a"]\n',
  '"id"\n[1,2,"a",3]\n',
  '"id"\n{}\n',
])('reads %j as missing', (text) =>
  expect(decodeCopy(Buffer.from(text), end)).toBeUndefined(),
)
