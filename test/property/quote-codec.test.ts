import fc from 'fast-check'
import { expect, it } from 'vitest'
import { decodeQuote, encodeQuote } from '../../src/memory/quote-copies.ts'

const latin1 = fc
  .uint8Array({ maxLength: 300 })
  .map((bytes) => Buffer.from(bytes).toString('latin1'))
const quote = fc.record({
  // Any text that JSON can hold, halves of surrogate pairs too.
  id: fc.oneof(
    fc.string({ unit: 'binary', minLength: 1 }),
    fc.constantFrom('\n', '"', '\ud800', '\\"\n'),
  ),
  body: latin1,
  headers: fc
    .array(fc.tuple(latin1, latin1), { maxLength: 6 })
    .map((pairs): readonly string[] => pairs.flat()),
  lifeMs: fc.integer(),
  expiresAtMs: fc.integer(),
})

it('decodes every encoded quote to the same quote, whatever its bytes', () => {
  fc.assert(
    fc.property(quote, (original) => {
      expect(decodeQuote(encodeQuote(original))).toEqual(original)
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
        const bytes = encodeQuote(original)
        const place = at % bytes.length
        decodeQuote(
          Buffer.concat([bytes.subarray(0, place), other, bytes.subarray(place)]),
        )
        decodeQuote(bytes.subarray(0, place))
        expect(decodeQuote(Buffer.from(other))).toBeUndefined()
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
  expect(decodeQuote(Buffer.from(text))).toBeUndefined(),
)
