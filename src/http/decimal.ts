// Amounts stay strings: a double would turn 9007199254740993 into 9007199254740992.

const maxDigits = 80
// 80 digits, a point, and "e", a sign and three digits of exponent.
const maxTextLength = maxDigits + 6

// Only one alternative can match each character, so hostile input cannot cause backtracking.
const decimalForm = /^(?:(\d+)(?:\.(\d*))?|\.(\d+))(?:[eE]([+-]?\d{1,3}))?$/

/** Nearly every amount comes in this form. */
const canonicalForm = /^(?:0|[1-9]\d*)(?:\.\d*[1-9])?$/

const digitZero = 48

/**
 * The canonical form of a decimal or exponent literal: what `Number(text)` accepts, without blanks, signs, hex and
 * Infinity. It has no exponent and no needless zeros: all spellings of an amount become one. Undefined also with more
 * than 80 digits, with or without the exponent.
 */
export function parseDecimal(text: string): string | undefined {
  if (text.length <= maxDigits && canonicalForm.test(text)) return text
  if (text.length > maxTextLength) return undefined
  const match = decimalForm.exec(text)
  if (match === null) return undefined
  const integer = match[1] ?? ''
  const fraction = match[2] ?? match[3] ?? ''
  const written = integer + fraction
  if (written.length > maxDigits) return undefined

  let start = 0
  while (start < written.length && written.charCodeAt(start) === digitZero) start += 1
  let end = written.length
  while (end > start && written.charCodeAt(end - 1) === digitZero) end -= 1
  if (start === end) return '0'

  return writeOut(
    written.slice(start, end),
    integer.length - start + Number(match[4] ?? 0),
  )
}

/** `pointIndex`: where the point stands: -2 for `5e-3`, 4 for `5e3`. */
function writeOut(digits: string, pointIndex: number): string | undefined {
  // Checked before any zeros are written, so that `1e999` costs nothing.
  const digitCount =
    pointIndex <= 0 ? 1 - pointIndex + digits.length : Math.max(pointIndex, digits.length)
  if (digitCount > maxDigits) return undefined
  if (pointIndex <= 0) return `0.${'0'.repeat(-pointIndex)}${digits}`
  if (pointIndex >= digits.length) return digits + '0'.repeat(pointIndex - digits.length)
  return `${digits.slice(0, pointIndex)}.${digits.slice(pointIndex)}`
}

/** At most this many digits are always the shortest spelling of their nearest double. */
const maxExactDigits = 15

/** The shortest decimal with the same nearest double, which a JSON number would have. */
export function shortestDecimal(canonical: string): string {
  if (canonical.length <= maxExactDigits) return canonical
  return parseDecimal(String(Number(canonical))) ?? canonical
}

/** Compares as for `sort`: negative, zero or positive. */
export function compareDecimals(left: string, right: string): number {
  const [leftWhole = '', leftRest = ''] = left.split('.')
  const [rightWhole = '', rightRest = ''] = right.split('.')
  if (leftWhole.length !== rightWhole.length) return leftWhole.length - rightWhole.length
  return compareTexts(leftWhole, rightWhole) || compareTexts(leftRest, rightRest)
}

function compareTexts(left: string, right: string): number {
  return Number(left > right) - Number(left < right)
}

/** Whether a text is a decimal that differs by more than 1 %. */
export function differsByOverAHundredth(text: string, from: string): boolean {
  const canonical = parseDecimal(text)
  if (canonical === undefined || canonical === from) return false
  const scale = Math.max(decimalsOf(canonical), decimalsOf(from))
  const [value, base] = [scaled(canonical, scale), scaled(from, scale)]
  const difference = value > base ? value - base : base - value
  return difference * 100n > base
}

export function decimalsOf(canonical: string): number {
  const point = canonical.indexOf('.')
  return point === -1 ? 0 : canonical.length - point - 1
}

/** In units of the last of `scale` decimals. */
function scaled(canonical: string, scale: number): bigint {
  return BigInt(canonical.replace('.', '') + '0'.repeat(scale - decimalsOf(canonical)))
}

export function isZero(canonical: string): boolean {
  return canonical === '0'
}

export function isPositiveDecimal(text: string): boolean {
  const canonical = parseDecimal(text)
  return canonical !== undefined && !isZero(canonical)
}
