import { hash, randomBytes } from 'node:crypto'
import { applicationAmong } from '../client/partition.ts'
import { readHttpDate } from '../http/date.ts'
import { headerLines, headerValues } from '../http/headers.ts'
import { Problem } from '../http/problem.ts'
import type { AskedAs } from '../quotes/cool-downs.ts'
import type { QuoteRequest } from '../quotes/quote-key.ts'

const salt = randomBytes(32).toString('base64url')

/** Whom the provider takes the sender of a quote call for. `headers` are all that it is sent. */
export function askedAs(
  { keyedHeaders }: QuoteRequest,
  headers: readonly string[],
  address: string | undefined,
): AskedAs {
  const authorization = headerLines(headers, 'authorization') ?? ''
  const application = applicationAmong(keyedHeaders)
  const credentials = hash(
    'sha256',
    `${salt}${application.length}:${application}${authorization}`,
    'base64url',
  )
  return { application, credentials, address: address ?? 'unknown' }
}

export function limitProblem(leftMs: number): Problem {
  const seconds = Math.max(1, Math.ceil(leftMs / 1_000))
  return new Problem('provider-limit', {
    detail: `The provider answered 429 to quotes of this application and client address, so this request was not sent. Retry after ${seconds} s.`,
    headers: { 'Retry-After': String(seconds) },
    members: { upstream: 'swap' },
  })
}

export function isLimitProblem(error: unknown): boolean {
  return error instanceof Problem && error.slug === 'provider-limit'
}

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
