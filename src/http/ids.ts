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

/** Whose trace a request belongs to, as its caller says. */
interface TraceParent {
  readonly traceId: string
  readonly spanId: string
  /** Whether the caller records its part of the trace. */
  readonly sampled: boolean
}

// Version ff is invalid. Later versions than 00 may have more after the flags. Several lines are not a valid
// `traceparent`.
const traceparentForm = /^(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-[^\n]*)?$/
const lengthOfVersion00 = 55
const noTrace = '0'.repeat(32)
const noSpan = '0'.repeat(16)

/** W3C Trace Context 3.2; undefined if the request is in no trace. */
export function readTraceparent(rawHeaders: readonly string[]): TraceParent | undefined {
  const lines = headerLines(rawHeaders, 'traceparent')
  const read = lines === undefined ? null : traceparentForm.exec(lines)
  if (read === null) return undefined
  const [, version, traceId = '', spanId = '', flags = ''] = read
  if (traceId === noTrace || spanId === noSpan) return undefined
  if (version === '00' && lines?.length !== lengthOfVersion00) return undefined
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 }
}

/** The id of the trace that a request belongs to; undefined if it is in none. */
export function traceIdOf(rawHeaders: readonly string[]): string | undefined {
  return readTraceparent(rawHeaders)?.traceId
}

export function formatTraceparent({ traceId, spanId, sampled }: TraceParent): string {
  return `00-${traceId}-${spanId}-0${sampled ? 1 : 0}`
}

function eightDigits(): string {
  return Math.floor(Math.random() * 2 ** 32)
    .toString(16)
    .padStart(8, '0')
}

/** Sixteen hexadecimal digits, not all of them 0. */
export function newSpanId(): string {
  const id = eightDigits() + eightDigits()
  return id === '0000000000000000' ? '0000000000000001' : id
}
