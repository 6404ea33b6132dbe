import { decimalsOf, parseDecimal, scaled } from '../http/decimal.ts'
import type { AmountClaim, OrderTerms } from './order-terms.ts'

/** The toAmount that an order states, ready to be compared with those of many quotes. */
export type StatedAmount = NonNullable<ReturnType<typeof statedAmountOf>>

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
export function createAmountMatcher({
  canonical,
  isNumber,
}: AmountClaim): (decimal: string) => boolean {
  const isOfDouble =
    canonical.length <= maxExactLength ||
    parseDecimal(String(Number(canonical))) === canonical
  // A number with more digits than its double needs means these digits.
  const double = isNumber && isOfDouble ? Number(canonical) : Number.NaN
  return (decimal) =>
    decimal === canonical ||
    (decimal.length > maxExactLength && Number(decimal) === double)
}

/** Undefined: the order states no amount that can be read. */
export function statedAmountOf({ toAmount }: Pick<OrderTerms, 'toAmount'>) {
  if (toAmount === undefined || toAmount === 'unreadable') return undefined
  const { canonical } = toAmount
  const [integer = '', fraction = ''] = canonical.split('.')
  const stated = Number(canonical)
  const unit = 10 ** -fraction.length
  const doubt = stated * doubtful
  const isExactly = createAmountMatcher(toAmount)
  /** How much more a price is, exactly: in parts of which `one` is a unit of the last decimal stated. */
  const exactDifference = (toValue: string) => {
    const scale = Math.max(fraction.length, decimalsOf(toValue))
    const by = scaled(toValue, scale) - scaled(canonical, scale)
    return { by, one: 10n ** BigInt(scale - fraction.length) }
  }

  return {
    /** Significant digits, zeros at the end not counted. */
    digits: (integer + fraction).replace(/^0+/, '').replace(finalZeros, '').length,
    /** The spelling that all decimals and numbers share which may be the stated one: the shortest of its double. */
    double: doubleText(canonical),
    /** The same decimal, or the same double. */
    isExactly: ({ toValue, double }: Price) =>
      Math.abs(double - stated) <= doubt && isExactly(toValue),
    /** Whether the price, rounded to the decimals stated, is the stated amount: it differs by less than one unit. */
    isRounded({ toValue, double }: Price) {
      const about = Math.abs(double - stated)
      if (Math.abs(about - unit) > doubt) return about < unit
      const { by, one } = exactDifference(toValue)
      return -one < by && by < one
    },
    /** Whether the price is at least the stated amount. */
    isPaidBy({ toValue, double }: Price) {
      if (Math.abs(double - stated) > doubt) return double > stated
      return exactDifference(toValue).by >= 0n || isExactly(toValue)
    },
  }
}

/** The shortest spelling of the amount's nearest double. */
export function doubleText(canonical: string): string {
  const isSpelledOut =
    canonical.length <= maxExactLength && !canonical.startsWith('0.000000')
  return isSpelledOut ? canonical : String(Number(canonical))
}

// Without the look behind, each zero of a long row would be tried as the first.
const finalZeros = /(?<!0)0+$/
