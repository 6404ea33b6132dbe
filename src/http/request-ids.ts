import { randomUUID } from 'node:crypto'

/** The two hex digits of every byte. */
const digitsOf = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

/**
 * Ids in the form of UUIDs that no other process gives out: a random beginning, and eight digits that are different for
 * each and do not tell how many there were before. A new UUID for every request costs ten times as much. The digits
 * come from a table: V8 remembers the text of every number that it has written out, and each outlived its request.
 */
export function createRequestIds(): () => string {
  let beginning = ''
  let given = 0
  return () => {
    if (given % 2 ** 32 === 0) beginning = randomUUID().slice(0, -8)
    given += 1
    // By an odd factor no two numbers below 2 ** 32 become the same.
    const mixed = Math.imul(given, 0x9e3779b1)
    const upper = `${digitsOf[mixed >>> 24]}${digitsOf[(mixed >>> 16) & 0xff]}`
    const lower = `${digitsOf[(mixed >>> 8) & 0xff]}${digitsOf[mixed & 0xff]}`
    return `${beginning}${upper}${lower}`
  }
}
