import { parseDecimal } from '../http/decimal.ts'
import type { AmountClaim, OrderTerms } from './order-terms.ts'

/** The toAmount that an order states, ready to be compared with those of many quotes. */
export interface StatedAmount {
  /** Significant digits, zeros at the end not counted. */
  readonly digits: number
  /** The spelling that all decimals and numbers share which may be the stated one: the shortest of its double. */
  readonly double: string
  /** The same decimal, or the same double. */
  isExactly(price: Price): boolean
  /** Whether the price, rounded to the decimals stated, is the stated amount: down, up or half up. */
  isRounded(price: Price): boolean
  /** Whether the price is at least the stated amount. */
  isPaidBy(price: Price): boolean
}

/**
 * What a quote gives: its canonical decimal, and the double nearest to that, which decides most comparisons at a glance.
 */
export interface Price {
  readonly toValue: string
  readonly double: number
}

/** Two decimals of which one is greater have doubles that differ by less than this only if the decimals nearly agree. */
const doubtful = 1e-12

/** A decimal of so few digits is the shortest spelling of its double, and another decimal has another double. */
const maxExactLength = 15

/** A comparison with an amount in an order. What does not change from quote to quote is computed once. */
export function createAmountMatcher({ canonical, isNumber }: AmountClaim): (decimal: string) => boolean {
  const isOfDouble =
    canonical.length <= maxExactLength || parseDecimal(String(Number(canonical))) === canonical
  // A number with more digits than its double needs means these digits.
  const double = isNumber && isOfDouble ? Number(canonical) : Number.NaN
  return (decimal) => decimal === canonical || (decimal.length > maxExactLength && Number(decimal) === double)
}

/** Undefined: the order states no amount that can be read. */
export function statedAmountOf({ toAmount }: Pick<OrderTerms, 'toAmount'>): StatedAmount | undefined {
  if (toAmount === undefined || toAmount === 'unreadable') return undefined
  const { canonical } = toAmount
  const [integer = '', fraction = ''] = canonical.split('.')
  const decimals = fraction.length
  const stated = Number(canonical)
  const unit = 10 ** -decimals
  const isExactly = createAmountMatcher(toAmount)
  const oneLess = lessOneUnit(integer, fraction)
  const isNear = (double: number, by: number) => Math.abs(double - stated) <= by + stated * doubtful

  return {
    digits: (integer + fraction).replace(/^0+/, '').replace(finalZeros, '').length,
    double: doubleText(canonical),
    isExactly: ({ toValue, double }) => isNear(double, 0) && isExactly(toValue),
    isRounded({ toValue, double }) {
      if (!isNear(double, unit)) return false
      // Half up gives what either down or up gives.
      const down = cutTo(toValue, decimals)
      return down === canonical || (down === oneLess && down !== toValue)
    },
    isPaidBy({ toValue, double }) {
      return isNear(double, 0) ? isAtLeast(toValue, canonical) || isExactly(toValue) : double > stated
    },
  }
}

/** The shortest spelling of the amount's nearest double. */
export function doubleText(canonical: string): string {
  const isSpelledOut = canonical.length <= maxExactLength && !canonical.startsWith('0.000000')
  return isSpelledOut ? canonical : String(Number(canonical))
}

// Without the look behind, each zero of a long row would be tried as the first.
const finalZeros = /(?<!0)0+$/

/** Of two canonical decimals. */
function isAtLeast(left: string, right: string): boolean {
  const [leftInteger = '', leftFraction = ''] = left.split('.')
  const [rightInteger = '', rightFraction = ''] = right.split('.')
  if (leftInteger.length !== rightInteger.length) return leftInteger.length > rightInteger.length
  if (leftInteger !== rightInteger) return leftInteger > rightInteger
  return leftFraction >= rightFraction
}

function cutTo(decimal: string, decimals: number): string {
  const point = decimal.indexOf('.')
  if (point === -1 || decimal.length - point - 1 <= decimals) return decimal
  let end = point + 1 + decimals
  while (decimal[end - 1] === '0') end -= 1
  return decimal.slice(0, decimal[end - 1] === '.' ? end - 1 : end)
}

/** The amount less one unit of its last decimal, or undefined for an amount below one unit. */
function lessOneUnit(integer: string, fraction: string): string | undefined {
  const units = BigInt(integer + fraction) - 1n
  if (units < 0n) return undefined
  const digits = String(units).padStart(fraction.length + 1, '0')
  const pointAt = digits.length - fraction.length
  return parseDecimal(`${digits.slice(0, pointAt)}.${digits.slice(pointAt)}`)
}
