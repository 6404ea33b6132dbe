import { headerLines } from './headers.ts'

const noTrace = '0'.repeat(32)

/** The id of the trace that a request belongs to (W3C Trace Context 3.2); undefined if it is in none. */
export function traceIdOf(rawHeaders: readonly string[]): string | undefined {
  const traceparent = headerLines(rawHeaders, 'traceparent')
  // Later versions may have more after the flags. Version ff is invalid.
  const read =
    traceparent && /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:$|-)/.exec(traceparent)
  const traceId = read ? read[1] : undefined
  return traceId === noTrace ? undefined : traceId
}
