import { randomUUID } from 'node:crypto'
import { headerLines } from './headers.ts'

/** The two hex digits of every byte. */
const digitsOf = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

/**
 * Creates ids in the form of UUIDs that no other process creates: a random prefix, and eight digits that differ for
 * each id and do not tell how many ids came before. A random UUID for every request costs ten times as much. The digits
 * come from a table, because V8 caches the text of every number it formats, and each cached text outlived its request.
 */
export function createRequestIds(): () => string {
  let idPrefix = ''
  let issued = 0
  return () => {
    if (issued % 2 ** 32 === 0) idPrefix = randomUUID().slice(0, -8)
    issued += 1
    // Multiplied by an odd factor, all numbers below 2 ** 32 stay different.
    const mixed = Math.imul(issued, 0x9e3779b1)
    const upper = `${digitsOf[mixed >>> 24]}${digitsOf[(mixed >>> 16) & 0xff]}`
    const lower = `${digitsOf[(mixed >>> 8) & 0xff]}${digitsOf[mixed & 0xff]}`
    return `${idPrefix}${upper}${lower}`
  }
}

/** X-Request-Id for an answer with these headers; nothing where its upstream sent one. */
export function ownRequestId(received: readonly string[], id: string): readonly string[] {
  return headerLines(received, 'x-request-id') === undefined ? ['X-Request-Id', id] : []
}
