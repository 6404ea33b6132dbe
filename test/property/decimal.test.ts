import fc from 'fast-check'
import { expect, it } from 'vitest'
import { parseDecimal, productOf, sameAsDouble } from '../../src/http/decimal.ts'

const digits = (maxLength: number) =>
  fc.array(fc.integer({ min: 0, max: 9 }), { maxLength }).map((list) => list.join(''))

/** Spellings of all kinds, with the fraction `numerator / 10 ** 400` that each of them means. */
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
    const tail = exponent === undefined ? '' : `${mark}${exponent < 0 ? '' : plus}${exponent}`
    const text = `${integer}${fraction === '' ? '' : '.'}${fraction}${tail}`
    return { text, numerator: oracle(integer, fraction, exponent ?? 0) }
  })

function oracle(integer: string, fraction: string, exponent: number): bigint {
  return BigInt(integer + fraction) * 10n ** BigInt(400 + exponent - fraction.length)
}

function numeratorOf(canonical: string): bigint {
  const [integer = '', fraction = ''] = canonical.split('.')
  return oracle(integer, fraction, 0)
}

function digitsWrittenOut(numerator: bigint): number {
  const text = numerator.toString().padStart(401, '0')
  return text.slice(0, -400).length + text.slice(-400).replace(/0+$/, '').length
}

it('keeps the value of every spelling, exactly', () => {
  fc.assert(
    fc.property(spelling, ({ text, numerator }) => {
      const canonical = parseDecimal(text)
      if (canonical === undefined) expect(digitsWrittenOut(numerator)).toBeGreaterThan(80)
      else expect(numeratorOf(canonical)).toBe(numerator)
    }),
    { numRuns: 2_000 },
  )
})

it('writes every value in one way only, which reads back as itself', () => {
  fc.assert(
    fc.property(spelling, ({ text }) => {
      const canonical = parseDecimal(text)
      fc.pre(canonical !== undefined)
      expect(canonical).toMatch(/^(?:0|[1-9]\d*)(?:\.\d*[1-9])?$/)
      expect(parseDecimal(String(canonical))).toBe(canonical)
    }),
    { numRuns: 2_000 },
  )
})

it('accepts every spelling of a double that a browser prints, within 80 digits', () => {
  fc.assert(
    fc.property(fc.double({ min: 1e-60, max: 1e60, noNaN: true }), (double) => {
      const canonical = parseDecimal(String(double))
      expect(canonical).toBeDefined()
      expect(Number(canonical)).toBe(double)
    }),
  )
})

it('accepts no text that Number() would refuse, and gives it the same value', () => {
  const text = fc.array(fc.constantFrom(...'019.eE+-_, xn'), { maxLength: 8 }).map((list) => list.join(''))
  fc.assert(
    fc.property(text, (candidate) => {
      const canonical = parseDecimal(candidate)
      if (canonical !== undefined) expect(Number(canonical)).toBe(Number(candidate))
    }),
    { numRuns: 5_000 },
  )
})

it('recognises every decimal in the JSON that a browser makes of it', () => {
  fc.assert(
    fc.property(spelling, ({ text }) => {
      const canonical = parseDecimal(text)
      fc.pre(canonical !== undefined)
      const inBrowser = JSON.stringify(Number(canonical))
      // Rounding may add a digit to a number that already has as many as allowed.
      fc.pre(parseDecimal(inBrowser) !== undefined)
      expect(sameAsDouble(inBrowser, String(canonical))).toBe(true)
    }),
    { numRuns: 2_000 },
  )
})

/** A plain decimal as people write it, with the integer `numerator` and the decimals that make it. */
const plain = fc.record({ integer: digits(20), fraction: digits(20) }).map(({ integer, fraction }) => ({
  text: `${integer || '0'}${fraction === '' ? '' : `.${fraction}`}`,
  numerator: BigInt(`0${integer}${fraction}`),
  decimals: fraction.length,
}))

it('multiplies exactly, cut off after so many decimals, in canonical form', () => {
  fc.assert(
    fc.property(plain, plain, fc.integer({ min: 0, max: 18 }), (amount, price, decimals) => {
      const paid = productOf(amount.text, price.text, decimals)
      expect(paid).toMatch(/^(?:0|[1-9]\d*)(?:\.\d*[1-9])?$/)
      expect(paid.split('.')[1]?.length ?? 0).toBeLessThanOrEqual(decimals)
      const exact = amount.numerator * price.numerator * 10n ** BigInt(400 - amount.decimals - price.decimals)
      const lost = exact - numeratorOf(paid)
      expect(lost >= 0n && lost < 10n ** BigInt(400 - decimals)).toBe(true)
    }),
    { numRuns: 2_000 },
  )
})
