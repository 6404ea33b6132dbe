import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseDecimal } from '../../src/http/decimal.ts'
import {
  createAmountMatcher,
  type Price,
  readStatedAmount,
  statedAmountOf,
} from '../../src/orders/amounts.ts'
import type { AmountClaim } from '../../src/orders/order-terms.ts'

const canonicalOf = (text: string) => parseDecimal(text) ?? ''
const number = (text: string): AmountClaim => ({ text, canonical: canonicalOf(text), isNumber: true })
const string = (text: string): AmountClaim => ({ ...number(text), isNumber: false })
const priceOf = (text: string): Price => ({ decimal: canonicalOf(text), double: Number(canonicalOf(text)) })

describe('an amount in an order', () => {
  it('that is a number means every decimal whose nearest double it spells', () => {
    expect(createAmountMatcher(number('123456789.12345679'))('123456789.123456789')).toBe(true)
    expect(createAmountMatcher(number('123456789.12345678'))('123456789.123456789')).toBe(false)
    expect(createAmountMatcher(number('0.1'))('0.1')).toBe(true)
    expect(createAmountMatcher(number('1e21'))('1000000000000000000000')).toBe(true)
    expect(createAmountMatcher(number('0.1000000000000000055'))('0.1')).toBe(false)
  })

  it('that is a string means exactly that decimal', () => {
    expect(createAmountMatcher(string('123456789.123456789'))('123456789.123456789')).toBe(true)
    expect(createAmountMatcher(string('123456789.12345679'))('123456789.123456789')).toBe(false)
  })

  it.each([
    ['0.034512', 5],
    ['0.0345120', 5],
    ['0.10000', 1],
    ['1.0000', 1],
    ['100000', 1],
    ['3.4512e-2', 5],
    ['1.50e3', 2],
    ['12345678', 8],
    ['100000.01', 8],
    ['0.000000012', 2],
  ])('has its digits without zeros at the end or before the first: %s', (text, count) => {
    expect(readStatedAmount(string(text)).digits).toBe(count)
  })

  it('is compared exactly with the decimal of a quote, and as the double that it spells', () => {
    const isExactly = (claim: AmountClaim, quoted: string) =>
      readStatedAmount(claim).isExactly(priceOf(quoted))
    expect(isExactly(string('289.6450'), '289.645')).toBe(true)
    expect(isExactly(string('289.6451'), '289.645')).toBe(false)
    expect(isExactly(number('123456789.12345679'), '123456789.123456789')).toBe(true)
    expect(isExactly(string('123456789.12345679'), '123456789.123456789')).toBe(false)
    expect(isExactly(string('9007199254740993'), '9007199254740992')).toBe(false)
  })

  it('has one spelling with every decimal and number that may be the same', () => {
    const double = (text: string) => readStatedAmount(string(text)).double
    expect(double('123456789.123456789')).toBe(double('123456789.12345679'))
    expect(double('9007199254740993')).toBe(double('9007199254740992'))
    expect(double('0.0000001')).toBe(double('1e-7'))
    expect(double('289.645')).toBe('289.645')
  })

  it('is read from an order, unless that states none that can be read', () => {
    expect(statedAmountOf({ toAmount: string('289.645') })?.digits).toBe(6)
    expect(statedAmountOf({ toAmount: 'unreadable' })).toBeUndefined()
    expect(statedAmountOf({ toAmount: undefined })).toBeUndefined()
  })
})

/** An amount as an integer of its 12th decimal. */
const places = 12
const unit = 10n ** BigInt(places)
const written = (units: bigint, decimals: number) => {
  const text = `${units / unit}.${String(units % unit).padStart(places, '0')}`
  return decimals === 0 ? text.slice(0, text.indexOf('.')) : text.slice(0, text.indexOf('.') + 1 + decimals)
}
const digits = fc.oneof(
  fc.bigInt({ min: 1n, max: 10n ** 18n }),
  fc.bigInt({ min: 1n, max: 10n ** 6n }),
  // Around powers of ten, where rounding adds a digit.
  fc
    .tuple(fc.integer({ min: 6, max: 17 }), fc.bigInt({ min: -100_000n, max: 100_000n }))
    .map(([power, beside]) => 10n ** BigInt(power) + beside)
    .filter((units) => units > 0n),
)

/** The quote's amount rounded in one of three ways, as an order would state it. */
const stated = fc.record({ units: digits, decimals: fc.integer({ min: 0, max: places }), way: fc.nat(2) })

function round(units: bigint, decimals: number, way: number): bigint {
  const step = 10n ** BigInt(places - decimals)
  const down = (units / step) * step
  if (way === 0 || down === units) return down
  if (way === 1) return down + step
  return units - down >= step / 2n ? down + step : down
}

describe('an amount that was rounded', () => {
  it('down, up or half up is known', () => {
    fc.assert(
      fc.property(stated, ({ units, decimals, way }) => {
        const claim = string(written(round(units, decimals, way), decimals))
        if (claim.canonical === '0') return
        expect(readStatedAmount(claim).isRounded(priceOf(written(units, places)))).toBe(true)
      }),
      { numRuns: 20_000 },
    )
  })

  it('is not another amount', () => {
    fc.assert(
      fc.property(stated, digits, ({ units, decimals, way }, other) => {
        const near = round(units, decimals, way)
        const claim = string(written(near, decimals))
        // Zeros at the end are dropped: an amount says as many decimals as it has without them.
        const [, fraction = ''] = claim.canonical.split('.')
        const ways = [0, 1, 2].map((kind) => round(other, fraction.length, kind))
        const isRounded = readStatedAmount(claim).isRounded(priceOf(written(other, places)))
        expect(isRounded).toBe(ways.includes(near))
      }),
      { numRuns: 20_000 },
    )
  })
})

describe('what a quote pays', () => {
  it('is at least the stated amount, compared as decimals', () => {
    fc.assert(
      fc.property(digits, digits, fc.boolean(), (left, right, isNear) => {
        const paid = isNear ? left + (right % 3n) - 1n : right
        if (paid <= 0n) return
        const isPaidBy = readStatedAmount(string(written(left, places))).isPaidBy
        expect(isPaidBy(priceOf(written(paid, places)))).toBe(paid >= left)
      }),
      { numRuns: 20_000 },
    )
  })

  it.each([
    ['9007199254740993', '9007199254740992', false],
    ['9007199254740992', '9007199254740993', true],
    ['1000000000000000000001', '1000000000000000000000', false],
    ['0.10000000000000000001', '0.1', false],
    ['99.999', '100', true],
    ['100', '99.999', false],
  ])('is distinguished where two decimals share a double: %s of %s is paid: %s', (amount, paid, expected) => {
    expect(readStatedAmount(string(amount)).isPaidBy(priceOf(paid))).toBe(expected)
  })

  it('is the stated number if a browser writes the quote as that number', () => {
    const quoted = '123456789.123456789'
    expect(readStatedAmount(number(String(Number(quoted)))).isPaidBy(priceOf(quoted))).toBe(true)
    expect(readStatedAmount(string(String(Number(quoted)))).isPaidBy(priceOf(quoted))).toBe(false)
  })
})
