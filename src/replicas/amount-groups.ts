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
