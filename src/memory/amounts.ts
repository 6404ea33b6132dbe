import { compareDecimals, shortestDecimal } from '../http/decimal.ts'

/** An amount that an order states. */
export interface AmountClaim {
  /** As the order spells it, because a double would lose digits. If that is not a decimal, the double it stands for. */
  text: string
  /** A JSON number means its nearest double, of which this is the shortest decimal: 0.1 for 0.10000000000000001. */
  canonical: string
  isNumber: boolean
}

/** What a quote gives: its canonical decimal, and the nearest double, which decides most comparisons at a glance. */
export interface Price {
  readonly toValue: string
  readonly double: number
}

/** The toAmount of an order, prepared for comparing it with many quotes. */
export interface StatedAmount {
  /** Significant digits, zeros at the end not counted. */
  readonly digits: number
  /** Equal amounts have equal keys, however an order spells them. */
  readonly key: string
  /** Whether the price is the stated decimal, or the order has a number that is the price's nearest double. */
  isExactly(price: Price): boolean
  /** Whether the price, rounded down or up to the decimals stated, is the stated amount. */
  isRounded(price: Price): boolean
  /** Whether the price is at least the stated amount. */
  isPaidBy(price: Price): boolean
}

/** Undefined: the order states no amount that can be read. */
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
  const isExactly = ({ toValue, double }: Price) =>
    double === stated && (isNumber || toValue === canonical)

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

/** Under which keys a quote for an amount is found: its decimal, and the number that most clients make of it. */
export function keysOfAmount(amount: string): string[] {
  const shortest = shortestDecimal(amount)
  return shortest === amount ? [amount] : [amount, keyOfNumber(shortest)]
}

/** A text means one decimal. A JSON number means every decimal of which it is the nearest double. */
export function keysOfClaim({ canonical, isNumber }: AmountClaim): string[] {
  return isNumber ? [canonical, keyOfNumber(canonical)] : [canonical]
}

/** Apart from the decimal that is spelled alike, so that other decimals of the same double displace none of its quotes. */
function keyOfNumber(shortest: string): string {
  return `~${shortest}`
}

/** The doubles of two decimals differ by less than this part of them only if the decimals nearly agree. */
const doubtful = 1e-12

// Without the look behind, each zero of a long row would be tried as the first.
const finalZeros = /(?<!0)0+$/
