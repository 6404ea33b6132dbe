import { describe, expect, it } from 'vitest'
import { differsByOverAHundredth, isZero, parseDecimal } from '../../src/http/decimal.ts'

describe('parseDecimal', () => {
  it.each(['0', '000', '0.0', '.0', '0.', '0e999', '0e-999'])(
    'reads %s as zero',
    (text) => {
      const canonical = parseDecimal(text)
      expect(canonical).toBe('0')
      expect(isZero(String(canonical))).toBe(true)
    },
  )

  // What Number() refuses is refused: test/property/decimal.test.ts. These it accepts, or they look like a number.
  it.each(['', '+1', '-1', '1 ', '1\n', '0x10', 'Infinity', '१', '１', '1%'])(
    'refuses %j',
    (text) => expect(parseDecimal(text)).toBeUndefined(),
  )

  it('takes 80 digits and refuses 81, as written and written out, without expanding a huge exponent', () => {
    expect(parseDecimal('9'.repeat(80))).toBe('9'.repeat(80))
    expect(parseDecimal('1e79')).toBe(`1${'0'.repeat(79)}`)
    expect(parseDecimal('1e-79')).toBe(`0.${'0'.repeat(78)}1`)
    const written = ['9'.repeat(81), `${'0'.repeat(80)}1`, `1.${'0'.repeat(80)}`]
    for (const text of [
      ...written,
      '1e80',
      '1e-80',
      '1e999',
      '1e-999999999999',
      '0e1000',
    ])
      expect(parseDecimal(text)).toBeUndefined()
  })

  it('refuses a megabyte of digits quickly', () => {
    const startMs = performance.now()
    expect(parseDecimal('1'.repeat(1_000_000))).toBeUndefined()
    expect(performance.now() - startMs).toBeLessThan(2_000)
  })
})

describe('differsByOverAHundredth', () => {
  it.each([
    ['1010', '1000', false],
    ['1010.000000000000000000001', '1000', true],
    ['989.999999999999999999999', '1000', true],
    ['1000', '1', true],
    // Doubles cannot tell these two apart.
    ['9090909090909090.909', '9000900090009000.9', false],
    ['9090909090909090.91', '9000900090009000.9', true],
  ])('%s from %s: %s', (value, from, expected) =>
    expect(
      differsByOverAHundredth(String(parseDecimal(value)), String(parseDecimal(from))),
    ).toBe(expected),
  )
})
