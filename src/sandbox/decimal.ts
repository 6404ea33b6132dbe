/** The number `digits / 10 ** scale`: exact, which a float is not. */
export interface Decimal {
  digits: bigint
  scale: number
}

const numberPattern = /^(\d*)(?:\.(\d*))?(?:e([+-]?\d{1,3}))?$/i
const plainPattern = /^\d+(?:\.\d+)?$/
const maxPlainLength = 100

/** Parses a positive number in plain or exponent form. Undefined for other text and if the plain form is too long. */
export function parseDecimal(text: string): Decimal | undefined {
  if (text.length > maxPlainLength) return undefined
  const match = numberPattern.exec(text)
  if (match === null) return undefined
  const [, whole = '', fraction = '', exponent = '0'] = match
  if (whole + fraction === '') return undefined
  const scale = fraction.length - Number(exponent)
  const digits = BigInt(whole + fraction) * 10n ** BigInt(Math.max(0, -scale))
  const decimal = { digits, scale: Math.max(0, scale) }
  if (digits <= 0n || formatDecimal(decimal).length > maxPlainLength) return undefined
  return decimal
}

/** Plain form without needless zeros; never an exponent, which many readers of amounts refuse. */
export function formatDecimal({ digits, scale }: Decimal): string {
  const padded = digits.toString().padStart(scale + 1, '0')
  const whole = padded.slice(0, padded.length - scale)
  const fraction = padded.slice(padded.length - scale).replace(/(?<!0)0+$/, '')
  return fraction === '' ? whole : `${whole}.${fraction}`
}

/** The caller's own spelling if it is a plain decimal, because the documented quote echoes it. */
export function spellDecimal(text: string, decimal: Decimal): string {
  return plainPattern.test(text) ? text : formatDecimal(decimal)
}

/** The product, cut off after `decimals` decimals: rounding up would promise money. */
export function multiplyDecimals(one: Decimal, other: Decimal, decimals: number): Decimal {
  const digits = one.digits * other.digits
  const scale = one.scale + other.scale
  if (scale <= decimals) return { digits, scale }
  return { digits: digits / 10n ** BigInt(scale - decimals), scale: decimals }
}
