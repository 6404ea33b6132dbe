import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { AmountClaim } from '../../src/orders/order-terms.ts'
import {
  amountGroup,
  amountGroups,
  createAmountMatcher,
  readStatedAmount,
} from '../../src/orders/stated-amount.ts'
import { parseDecimal } from '../../src/quotes/decimal.ts'

const canonicalOf = (text: string) => parseDecimal(text) ?? ''
const number = (text: string): AmountClaim => ({ text, canonical: canonicalOf(text), isNumber: true })
const string = (text: string): AmountClaim => ({ ...number(text), isNumber: false })

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
    ['0.034512', 5, 5],
    ['0.0345120', 6, 5],
    ['0.10000', 5, 1],
    ['1.0000', 5, 1],
    ['100000', 6, 1],
    ['3.4512e-2', 5, 5],
    ['1.50e3', 3, 2],
    ['12345678', 8, 8],
  ])('has its digits as written, without trailing zeros: %s', (text, writtenDigits, digits) => {
    expect(readStatedAmount(string(text))).toMatchObject({ writtenDigits, digits })
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
  it('down, up or half up is known, and found in at most two groups if it has five digits', () => {
    fc.assert(
      fc.property(stated, ({ units, decimals, way }) => {
        const quoted = canonicalOf(written(units, places))
        const text = written(round(units, decimals, way), decimals)
        const claim = string(text)
        if (claim.canonical === '0') return
        const amount = readStatedAmount(claim)
        expect(amount.isRounded(quoted)).toBe(true)
        const groups = amountGroups(claim.canonical)
        expect(groups.length).toBeLessThanOrEqual(2)
        if (amount.writtenDigits >= 5) expect(groups).toContain(amountGroup(quoted))
      }),
      { numRuns: 20_000 },
    )
  })

  it('is not another amount', () => {
    fc.assert(
      fc.property(stated, digits, ({ units, decimals, way }, other) => {
        const near = round(units, decimals, way)
        const ways = [0, 1, 2].map((kind) => round(other, decimals, kind))
        const claim = string(written(near, decimals))
        const isRounded = readStatedAmount(claim).isRounded(canonicalOf(written(other, places)))
        expect(isRounded).toBe(ways.includes(near))
      }),
      { numRuns: 20_000 },
    )
  })

  it('that is a double is found in the groups of the number that a browser writes', () => {
    fc.assert(
      fc.property(digits, fc.integer({ min: 0, max: 99 }), (units, more) => {
        const quoted = canonicalOf(`${written(units, places)}${String(more).padStart(20, '0')}`)
        const claim = number(String(Number(quoted)))
        if (!createAmountMatcher(claim)(quoted)) return
        expect(amountGroups(claim.canonical)).toContain(amountGroup(quoted))
      }),
      { numRuns: 20_000 },
    )
  })
})
