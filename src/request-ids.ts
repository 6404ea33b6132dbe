import { randomUUID } from 'node:crypto'

/**
 * Ids in the form of UUIDs that no other process gives out: a random beginning, and ten digits that are different for
 * each and do not tell how many there were before. A new UUID for every request costs ten times as much.
 */
export function createRequestIds(): () => string {
  let beginning = ''
  let given = 0
  return () => {
    if (given % 2 ** 30 === 0) beginning = randomUUID().slice(0, -10)
    given += 1
    // By an odd factor no two numbers below 2 ** 30 become the same; the sum always has ten digits.
    return `${beginning}${1_000_000_000 + (Math.imul(given, 0x9e3779b1) & (2 ** 30 - 1))}`
  }
}
