import { shortestDecimal } from '../http/decimal.ts'
import type { AmountClaim } from '../orders/ports.ts'

/** The keys of a quote for an amount: its decimal, and the number that most callers make of it. */
export function keysOfAmount(amount: string): string[] {
  const shortest = shortestDecimal(amount)
  return shortest === amount ? [amount] : [amount, keyOfNumber(shortest)]
}

/** A quote with numbers is also found by texts that spell the amount in more digits than its double has. */
export function keysOfNumber(amount: string): string[] {
  return [...keysOfAmount(amount), keyOfLongText(shortestDecimal(amount))]
}

/** A text means one decimal. A JSON number means every decimal of which it is the nearest double. */
export function keysOfClaim({ canonical, isNumber }: AmountClaim): string[] {
  if (isNumber) return [canonical, keyOfNumber(canonical)]
  const shortest = shortestDecimal(canonical)
  return shortest === canonical ? [canonical] : [canonical, keyOfLongText(shortest)]
}

/** Differs from the decimal itself, so that other decimals of the same double displace none of its quotes. */
function keyOfNumber(shortest: string): string {
  return `~${shortest}`
}

function keyOfLongText(shortest: string): string {
  return `~~${shortest}`
}
