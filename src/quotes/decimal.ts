// Amounts are strings from end to end: a double would take 9007199254740993 for its even neighbour.

const digitsMost = 80
// 80 digits, a point, and "e", a sign and three digits of exponent.
const writtenLengthMost = digitsMost + 6

// Unambiguous at every character, so a hostile text cannot make it backtrack.
const decimalForm = /^(?:(\d+)(?:\.(\d*))?|\.(\d+))(?:[eE]([+-]?\d{1,3}))?$/

const digitZero = 48

/**
 * The canonical form of a plain decimal or exponent literal: what `Number(text)` accepts, less blanks, signs,
 * hex and Infinity. No exponent, no needless zeros, so that two spellings of one amount are one string.
 * `undefined` if the text is no such number or has more than 80 digits, as written or written out.
 */
export function parseDecimal(text: string): string | undefined {
  if (text.length > writtenLengthMost) return undefined
  const match = decimalForm.exec(text)
  if (match === null) return undefined
  const integer = match[1] ?? ''
  const fraction = match[2] ?? match[3] ?? ''
  const written = integer + fraction
  if (written.length > digitsMost) return undefined

  let start = 0
  while (start < written.length && written.charCodeAt(start) === digitZero) start += 1
  let end = written.length
  while (end > start && written.charCodeAt(end - 1) === digitZero) end -= 1
  if (start === end) return '0'

  return writeOut(written.slice(start, end), integer.length - start + Number(match[4] ?? 0))
}

/** `pointIndex` counts from the first significant digit and lies outside the digits for `5e-3` and `5e3`. */
function writeOut(digits: string, pointIndex: number): string | undefined {
  // Counted before anything is expanded: `1e999` must cost nothing.
  const digitCount = pointIndex <= 0 ? 1 - pointIndex + digits.length : Math.max(pointIndex, digits.length)
  if (digitCount > digitsMost) return undefined
  if (pointIndex <= 0) return `0.${'0'.repeat(-pointIndex)}${digits}`
  if (pointIndex >= digits.length) return digits + '0'.repeat(pointIndex - digits.length)
  return `${digits.slice(0, pointIndex)}.${digits.slice(pointIndex)}`
}

export function isZero(canonical: string): boolean {
  return canonical === '0'
}

/**
 * Whether the source text of a JSON number means the given decimal. A browser that was quoted
 * "123456789.123456789" orders 123456789.12345679, the shortest spelling of the nearest double, so that
 * spelling matches whatever shares its double. A client that writes more digits than a double needs means
 * them, and is compared digit by digit.
 */
export function sameAsDouble(jsonNumberText: string, decimal: string): boolean {
  const ordered = parseDecimal(jsonNumberText)
  const quoted = parseDecimal(decimal)
  if (ordered === undefined || quoted === undefined) return false
  if (ordered === quoted) return true
  const double = Number(ordered)
  return double === Number(quoted) && parseDecimal(String(double)) === ordered
}
