import { headerValues } from './headers.ts'
import { readHttpDate } from './http-date.ts'

/**
 * How long an answer asks to wait; undefined if it does not say, or not readably. A date counts from the answer's own
 * Date, because both are of the same clock; without one, from `nowMs`, which is ours.
 */
export function readRetryAfter(rawHeaders: readonly string[], nowMs: number): number | undefined {
  const waits = headerValues(rawHeaders, 'retry-after').flatMap((value) => {
    const text = value.trim()
    if (/^\d+$/.test(text)) return [Number(text) * 1_000]
    const untilMs = readHttpDate(text, nowMs)
    return untilMs === undefined ? [] : [Math.max(0, untilMs - answeredAtMs(rawHeaders, nowMs))]
  })
  return waits.length === 0 ? undefined : Math.max(...waits)
}

function answeredAtMs(rawHeaders: readonly string[], nowMs: number): number {
  const [date] = headerValues(rawHeaders, 'date')
  return (date === undefined ? undefined : readHttpDate(date, nowMs)) ?? nowMs
}
