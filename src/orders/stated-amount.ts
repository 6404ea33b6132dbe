import { parseDecimal, sameAsDouble } from '../quotes/decimal.ts'
import type { AmountClaim, OrderTerms } from './order-terms.ts'

/** The toAmount that an order states, ready to be compared with those of many quotes. */
export interface StatedAmount {
  /** Significant digits as written, zeros at the end counted. */
  readonly writtenDigits: number
  /** Significant digits, zeros at the end not counted. */
  readonly digits: number
  /** The same decimal, or the same double. */
  isExactly(decimal: string): boolean
  /** Whether the decimal, rounded to the decimals stated, is the stated amount: down, up or half up. */
  isRounded(decimal: string): boolean
}

/** A comparison with an amount in an order. What does not change from quote to quote is computed once. */
export function createAmountMatcher({
  canonical,
  text,
  isNumber,
}: AmountClaim): (decimal: string) => boolean {
  // A number with more digits than its double needs means these digits.
  const double = isNumber && sameAsDouble(text, String(Number(canonical))) ? Number(canonical) : Number.NaN
  // A decimal of so few digits is the shortest spelling of its double, and another decimal has another double.
  return (decimal) => decimal === canonical || (decimal.length > 15 && Number(decimal) === double)
}

/** Undefined: the order states no amount. */
export function statedAmountOf({ toAmount }: OrderTerms): StatedAmount | undefined {
  return toAmount === undefined || toAmount === 'unreadable' ? undefined : readStatedAmount(toAmount)
}

export function readStatedAmount(claim: AmountClaim): StatedAmount {
  const { canonical } = claim
  const { writtenDigits, decimals } = readSpelling(claim.text)
  const oneLess = lessOneUnit(canonical, decimals)
  return {
    writtenDigits,
    digits: significanceOf(canonical).digits.length,
    isExactly: createAmountMatcher(claim),
    isRounded(decimal) {
      // Half up gives what either down or up gives.
      const down = cutTo(decimal, decimals)
      return down === canonical || (down === oneLess && down !== decimal)
    },
  }
}

/** The text is one that `parseDecimal` reads. */
function readSpelling(text: string): { writtenDigits: number; decimals: number } {
  const [mantissa = '', exponent = '0'] = text.toLowerCase().split('e')
  const [integer = '', fraction = ''] = mantissa.split('.')
  return {
    writtenDigits: (integer + fraction).replace(/^0+/, '').length,
    decimals: Math.max(0, fraction.length - Number(exponent)),
  }
}

function cutTo(decimal: string, decimals: number): string {
  const point = decimal.indexOf('.')
  if (point === -1 || decimal.length - point - 1 <= decimals) return decimal
  let end = point + 1 + decimals
  while (decimal[end - 1] === '0') end -= 1
  return decimal.slice(0, decimal[end - 1] === '.' ? end - 1 : end)
}

/** The amount less one unit of its last decimal, or undefined for an amount below one unit. */
function lessOneUnit(canonical: string, decimals: number): string | undefined {
  const [integer = '', fraction = ''] = canonical.split('.')
  const units = BigInt(integer + fraction.padEnd(decimals, '0')) - 1n
  if (units < 0n) return undefined
  const digits = String(units).padStart(decimals + 1, '0')
  const pointAt = digits.length - decimals
  return parseDecimal(`${digits.slice(0, pointAt)}.${digits.slice(pointAt)}`)
}

// Without the look behind, each zero of a long row would be tried as the first.
const finalZeros = /(?<!0)0+$/

/** The value is `0.digits` times ten to the exponent, and the digits begin and end with another digit than 0. */
function significanceOf(canonical: string): { digits: string; exponent: number } {
  const [integer = '', fraction = ''] = canonical.split('.')
  const all = integer + fraction
  const digits = all.replace(/^0+/, '')
  return { digits: digits.replace(finalZeros, ''), exponent: integer.length - (all.length - digits.length) }
}

const groupDigits = 5

/**
 * The group of all amounts with the same first five significant digits. Those that begin with 9999 are one group:
 * rounded up to five digits they reach over ten groups otherwise.
 */
export function amountGroup(canonical: string): string {
  const written = canonical.indexOf('.')
  const pointAt = written === -1 ? canonical.length : written
  let start = 0
  while (canonical[start] === '0' || start === pointAt) start += 1
  let digits = canonical.slice(start, start + groupDigits)
  if (start < pointAt && pointAt < start + groupDigits)
    digits = canonical.slice(start, pointAt) + canonical.slice(pointAt + 1, start + groupDigits + 1)
  // The point itself does not count as one of the digits after it.
  return nameGroup(digits.padEnd(groupDigits, '0'), start < pointAt ? pointAt - start : pointAt + 1 - start)
}

/** The groups of every amount that an order can mean by this one: exactly, or rounded if it states five digits. */
export function amountGroups(canonical: string): string[] {
  const { digits, exponent } = significanceOf(canonical)
  const group = amountGroup(canonical)
  // The amounts just below have the same first five digits.
  if (digits.length > groupDigits || digits === '') return [group]
  const below = Number(digits.padEnd(groupDigits, '0')) - 1
  const belowGroup =
    below < 10 ** (groupDigits - 1) ? nameGroup('99999', exponent - 1) : nameGroup(String(below), exponent)
  return belowGroup === group ? [group] : [belowGroup, group]
}

function nameGroup(digits: string, exponent: number): string {
  return `${digits.startsWith('9999') ? '9999' : digits}e${exponent}`
}
