import fc from 'fast-check'
import { expect, it } from 'vitest'
import { parseDecimal, shortestDecimal } from '../../src/http/decimal.ts'
import { statedAmountOf } from '../../src/orders/stated-amount.ts'
import {
  compare,
  isRounded,
  isSame,
  meant,
  plain,
  significantDigits,
} from '../property/guard-model.ts'

const claimOf = (text: string, isNumber = false) => {
  const canonical = parseDecimal(text) ?? ''
  return { text, canonical: isNumber ? shortestDecimal(canonical) : canonical, isNumber }
}
/** Of an order that states it. */
function readStatedAmount(toAmount: ReturnType<typeof claimOf>) {
  const stated = statedAmountOf(toAmount)
  if (stated === undefined) throw new Error('no amount')
  return stated
}
const priceOf = (text: string, hasNumbers = false) => ({
  toValue: parseDecimal(text) ?? '',
  hasNumbers,
  double: Number(text),
})

it.each([
  ['0.034512', 5],
  ['0.0345120', 5],
  ['100000', 1],
  ['3.4512e-2', 5],
  ['100000.01', 8],
])(
  'the digits of an amount are without zeros at the end or before the first: %s',
  (text, count) => expect(readStatedAmount(claimOf(text)).digits).toBe(count),
)

it.each([
  // A number means every decimal whose nearest double it spells, a string one decimal.
  [
    '123456789.12345679',
    true,
    '123456789.123456789',
    { isExactly: true, isPaidBy: true },
  ],
  [
    '123456789.12345679',
    false,
    '123456789.123456789',
    { isExactly: false, isPaidBy: false },
  ],
  [
    '123456789.12345678',
    true,
    '123456789.123456789',
    { isExactly: false, isPaidBy: true },
  ],
  ['1e21', true, '1000000000000000000000', { isExactly: true, isPaidBy: true }],
  // With more digits than its double needs, as Swift, PHP before 7.1 and printf("%.17g") write a double.
  ['0.10000000000000001', true, '0.1', { isExactly: true, isPaidBy: true }],
  ['0.1000000000000000055', true, '0.1', { isExactly: true, isPaidBy: true }],
  ['0.10000000000000001', false, '0.1', { isExactly: false, isPaidBy: false }],
  ['289.6450', false, '289.645', { isExactly: true, isPaidBy: true }],
  // Two decimals share a double.
  ['9007199254740993', false, '9007199254740992', { isExactly: false, isPaidBy: false }],
  ['9007199254740992', false, '9007199254740993', { isExactly: false, isPaidBy: true }],
  ['100', false, '99.999', { isExactly: false, isPaidBy: false }],
])(
  'an order for %s (a number: %s) and a quote of %s: %j',
  (text, isNumber, paid, expected) => {
    const { isExactly, isPaidBy } = readStatedAmount(claimOf(text, isNumber))
    expect({
      isExactly: isExactly(priceOf(paid)),
      isPaidBy: isPaidBy(priceOf(paid)),
    }).toEqual(expected)
  },
)

it('an amount has one key with every decimal and number that may be the same', () => {
  const key = (text: string) => readStatedAmount(claimOf(text)).key
  expect(key('123456789.123456789')).toBe(key('123456789.12345679'))
  expect(key('9007199254740993')).toBe(key('9007199254740992'))
  expect(key('0.0000001')).toBe(key('1e-7'))
  expect(key('289.645')).toBe('289.645')
})

it('an amount is read from an order, unless that states none that can be read', () => {
  expect(statedAmountOf(claimOf('289.645'))?.digits).toBe(6)
  expect(statedAmountOf('unreadable')).toBeUndefined()
  expect(statedAmountOf(undefined)).toBeUndefined()
})

/** Of the 12th decimal. */
const units = fc.oneof(
  fc.bigInt({ min: 1n, max: 10n ** 18n }),
  fc.bigInt({ min: 1n, max: 10n ** 6n }),
  // Around powers of ten, where rounding adds a digit.
  fc
    .tuple(fc.integer({ min: 6, max: 17 }), fc.bigInt({ min: -100_000n, max: 100_000n }))
    .map(([power, beside]) => 10n ** BigInt(power) + beside),
)
const decimalOf = (units: bigint) => plain(`${units}e-12`)

/** Of 0: down, or up by as many units of the last decimal. */
function rounded(units: bigint, decimals: number, up: number): bigint {
  const step = 10n ** BigInt(12 - decimals)
  return (units / step + BigInt(up)) * step
}

it('an amount is compared with a quote as decimals are that are written out', () => {
  const stated = fc.record({
    decimals: fc.integer({ min: 0, max: 12 }),
    up: fc.constantFrom(0, 0, 1, 1, 2),
    isNumber: fc.boolean(),
    hasNumbers: fc.boolean(),
  })
  const seen = { rounded: 0, not: 0 }
  fc.assert(
    fc.property(
      units,
      units,
      fc.boolean(),
      stated,
      (one, another, isNear, { decimals, up, isNumber, hasNumbers }) => {
        const decimal = decimalOf(one)
        const quoted = hasNumbers ? plain(String(Number(decimal))) : decimal
        const amount = decimalOf(rounded(isNear ? one : another, decimals, up))
        fc.pre(amount !== '0')
        const spelled = { text: isNumber ? String(Number(amount)) : amount, isNumber }
        const {
          digits,
          isExactly,
          isRounded: isRoundedTo,
          isPaidBy,
        } = readStatedAmount(claimOf(spelled.text, isNumber))
        const price = priceOf(quoted, hasNumbers)
        const isTheSame = isSame(spelled, quoted, hasNumbers)
        const expected = {
          digits: significantDigits(meant(spelled)),
          isExactly: isTheSame,
          isRounded: isRounded(meant(spelled), quoted),
          isPaidBy: compare(quoted, meant(spelled)) >= 0 || isTheSame,
        }
        expect({
          digits,
          isExactly: isExactly(price),
          isRounded: isRoundedTo(price),
          isPaidBy: isPaidBy(price),
        }).toEqual(expected)
        seen[expected.isRounded ? 'rounded' : 'not'] += 1
      },
    ),
    { numRuns: 30_000 },
  )
  expect(Math.min(seen.rounded, seen.not)).toBeGreaterThan(5_000)
})
