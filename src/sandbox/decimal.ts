/** `digits / 10 ** scale`, so that no amount ever passes through a float. */
export interface Decimal {
  digits: bigint
  scale: number
}

const numberPattern = /^(\d*)(?:\.(\d*))?(?:e([+-]?\d{1,3}))?$/i
const plainPattern = /^\d+(?:\.\d+)?$/
const longestPlainForm = 100

/** A positive number in plain or exponent form; anything else, or one too long to write out, is undefined. */
export function parseDecimal(text: string): Decimal | undefined {
  if (text.length > longestPlainForm) return undefined
  const match = numberPattern.exec(text)
  if (match === null) return undefined
  const [, whole = '', fraction = '', exponent = '0'] = match
  if (whole + fraction === '') return undefined
  const scale = fraction.length - Number(exponent)
  const digits = BigInt(whole + fraction) * 10n ** BigInt(Math.max(0, -scale))
  const decimal = { digits, scale: Math.max(0, scale) }
  if (digits <= 0n || formatDecimal(decimal).length > longestPlainForm) return undefined
  return decimal
}

/** Plain form without needless zeros: never an exponent, which many readers of money refuse. */
export function formatDecimal({ digits, scale }: Decimal): string {
  const padded = digits.toString().padStart(scale + 1, '0')
  const whole = padded.slice(0, padded.length - scale)
  const fraction = padded.slice(padded.length - scale).replace(/0+$/, '')
  return fraction === '' ? whole : `${whole}.${fraction}`
}

/** The caller's own spelling where it is a plain decimal, as the documented quote echoes it. */
export function spellDecimal(text: string, decimal: Decimal): string {
  return plainPattern.test(text) ? text : formatDecimal(decimal)
}

/** The product, cut off (never rounded up, which would promise money) after so many decimals. */
export function multiplyDecimals(one: Decimal, other: Decimal, decimals: number): Decimal {
  const digits = one.digits * other.digits
  const scale = one.scale + other.scale
  if (scale <= decimals) return { digits, scale }
  return { digits: digits / 10n ** BigInt(scale - decimals), scale: decimals }
}
