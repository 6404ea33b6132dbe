import { compareDecimals, shortestDecimal } from '../http/decimal.ts'
import type { AmountClaim, Price } from './ports.ts'

/** The toAmount of an order, prepared for comparing it with many quotes. */
export interface StatedAmount {
  /** Significant digits, zeros at the end not counted. */
  readonly digits: number
  /** Equal amounts have equal keys, however an order spells them. */
  readonly key: string
  /** Whether the price is the stated decimal. If either is a JSON number, equal doubles are enough. */
  isExactly(price: Price): boolean
  /** Whether the price, rounded down or up to the decimals stated, is the stated amount. */
  isRounded(price: Price): boolean
  /** Whether the price is at least the stated amount. */
  isPaidBy(price: Price): boolean
}

/** Undefined: no readable amount is stated. */
export function statedAmountOf(
  toAmount: AmountClaim | 'unreadable' | undefined,
): StatedAmount | undefined {
  if (toAmount === undefined || toAmount === 'unreadable') return undefined
  const { canonical, isNumber } = toAmount
  const [integer = '', fraction = ''] = canonical.split('.')
  const decimals = fraction.length
  const units = integer + fraction
  const stated = Number(canonical)
  const doubt = stated * doubtful
  const farOff = 2 * 10 ** -decimals + doubt
  const isExactly = ({ toValue, double, hasNumbers }: Price) =>
    double === stated && (isNumber || hasNumbers || toValue === canonical)

  return {
    digits: units.replace(/^0+/, '').replace(finalZeros, '').length,
    key: shortestDecimal(canonical),
    isExactly,
    isRounded({ toValue, double }) {
      if (Math.abs(double - stated) > farOff) return false
      const [whole = '', rest = ''] = toValue.split('.')
      const cut = whole + rest.slice(0, decimals).padEnd(decimals, '0')
      if (cut === units) return true
      const unitsBelow = () => String(BigInt(units) - 1n).padStart(decimals + 1, '0')
      return rest.length > decimals && cut === unitsBelow()
    },
    isPaidBy(price) {
      if (Math.abs(price.double - stated) > doubt) return price.double > stated
      return compareDecimals(price.toValue, canonical) >= 0 || isExactly(price)
    },
  }
}

/** Two doubles that differ by more than this fraction settle a comparison. Closer ones need their decimals. */
const doubtful = 1e-12

// Without the lookbehind, a long row of zeros would be tried from each zero.
const finalZeros = /(?<!0)0+$/
