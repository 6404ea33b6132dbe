import { hash, randomBytes } from 'node:crypto'
import { applicationAmong } from '../client/application.ts'
import { headerLines } from '../http/headers.ts'
import { Problem } from '../http/problem.ts'
import { readRetryAfter } from '../http/retry-after.ts'
import type { Answered, AskedAs, CoolDown } from '../quotes/cool-downs.ts'
import type { QuoteRequest } from '../quotes/quote-key.ts'
import type { AnswerHead } from '../upstream/fetch.ts'

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

export function answeredBy({ status, rawHeaders, receivedAtMs }: AnswerHead): Answered {
  if (status === 429) return { retryAfterMs: readRetryAfter(rawHeaders, receivedAtMs) }
  return status >= 200 && status < 300 ? 'succeeded' : 'other'
}

const whose = {
  address: 'this application and client address',
  application: 'this application, whatever the client address',
} as const

export function limitProblem({ scope, leftMs }: CoolDown): Problem {
  const seconds = Math.max(1, Math.ceil(leftMs / 1_000))
  return new Problem('provider-limit', {
    detail: `The provider answered 429 to quotes of ${whose[scope]}, so this request was not sent. Retry after ${seconds} s.`,
    headers: { 'Retry-After': String(seconds) },
    members: { upstream: 'swap', scope },
  })
}

export function isLimitProblem(error: unknown): boolean {
  return error instanceof Problem && error.slug === 'provider-limit'
}
