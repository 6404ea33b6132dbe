import { shortestDecimal } from '../http/decimal.ts'
import type { AmountClaim } from '../orders/ports.ts'

/** Under which keys a quote for an amount is found: its decimal, and the number that most clients make of it. */
export function keysOfAmount(amount: string): string[] {
  const shortest = shortestDecimal(amount)
  return shortest === amount ? [amount] : [amount, keyOfNumber(shortest)]
}

/** The same of a quote that has numbers: the texts that spell the amount in more digits than its double has find it. */
export function keysOfNumber(amount: string): string[] {
  return [...keysOfAmount(amount), keyOfLongText(shortestDecimal(amount))]
}

/** A text means one decimal. A JSON number means every decimal of which it is the nearest double. */
export function keysOfClaim({ canonical, isNumber }: AmountClaim): string[] {
  if (isNumber) return [canonical, keyOfNumber(canonical)]
  const shortest = shortestDecimal(canonical)
  return shortest === canonical ? [canonical] : [canonical, keyOfLongText(shortest)]
}

/** Apart from the decimal that is spelled alike, so that other decimals of the same double displace none of its quotes. */
function keyOfNumber(shortest: string): string {
  return `~${shortest}`
}

function keyOfLongText(shortest: string): string {
  return `~~${shortest}`
}
