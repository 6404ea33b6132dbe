import fc from 'fast-check'
import { expect, it } from 'vitest'
import { parseDecimal } from '../../src/http/decimal.ts'
import { productOf } from '../../src/sandbox/prices.ts'
import { decimal, plain } from './guard-model.ts'

const digits = (maxLength: number) =>
  fc
    .array(fc.integer({ min: 0, max: 9 }), { maxLength, size: 'max' })
    .map((list) => list.join(''))

/** Spellings of all kinds. */
const spelling = fc
  .record({
    integer: digits(30),
    fraction: digits(30),
    exponent: fc.option(fc.integer({ min: -60, max: 60 }), { nil: undefined }),
    mark: fc.constantFrom('e', 'E'),
    plus: fc.constantFrom('', '+'),
  })
  .filter(({ integer, fraction }) => integer + fraction !== '')
  .map(({ integer, fraction, exponent, mark, plus }) => {
    const tail =
      exponent === undefined ? '' : `${mark}${exponent < 0 ? '' : plus}${exponent}`
    return `${integer}${fraction === '' ? '' : '.'}${fraction}${tail}`
  })

it('writes the exact value of every spelling in one way, up to 80 digits', () => {
  fc.assert(
    fc.property(spelling, (text) => {
      const written = plain(`0${text}`)
      const isTooLong = written.replace('.', '').length > 80
      expect(parseDecimal(text)).toBe(isTooLong ? undefined : written)
    }),
    { numRuns: 2_000 },
  )
})

it('accepts no text that Number() would refuse, and gives it the same value', () => {
  const text = fc
    .array(fc.constantFrom(...'019.eE+-_, xn'), { maxLength: 8 })
    .map((list) => list.join(''))
  fc.assert(
    fc.property(text, (candidate) => {
      const canonical = parseDecimal(candidate)
      if (canonical !== undefined) expect(Number(canonical)).toBe(Number(candidate))
    }),
    { numRuns: 5_000 },
  )
})

it('multiplies exactly, cut off after so many decimals, in canonical form', () => {
  const amount = fc
    .tuple(digits(20), digits(20))
    .map(([integer, fraction]) => plain(`0${integer}.${fraction}`))
  fc.assert(
    fc.property(
      amount,
      amount,
      fc.integer({ min: 0, max: 18 }),
      (one, other, decimals) => {
        const [left, right] = [decimal(one), decimal(other)]
        const exact = left.units * right.units * 10n ** BigInt(decimals)
        const cut = exact / 10n ** BigInt(left.decimals + right.decimals)
        expect(productOf(one, other, decimals)).toBe(plain(`${cut}e-${decimals}`))
      },
    ),
    { numRuns: 2_000 },
  )
})
