import { randomUUID } from 'node:crypto'
import { headerLines } from './headers.ts'

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

export function formatTraceparent({ traceId, spanId, sampled }: TraceParent): string {
  return `00-${traceId}-${spanId}-0${sampled ? 1 : 0}`
}

/** Sixteen hexadecimal digits, not all of them 0: this half of a random UUID begins with 8, 9, a or b. */
export function newSpanId(): string {
  return randomUUID().slice(19).replace('-', '')
}
