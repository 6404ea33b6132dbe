import { expect } from 'vitest'
import { type ParsedAnswer, valuesOf } from './raw-connection.ts'

/** What a problem that the gateway made must always look like; its body for closer looks. */
export function expectProblem(
  answer: ParsedAnswer,
  status: number,
  slug: string,
): Record<string, unknown> {
  expect(answer.status).toBe(status)
  expect(valuesOf(answer.rawHeaders, 'content-type')).toEqual([
    'application/problem+json',
  ])
  const body = JSON.parse(answer.body.toString()) as Record<string, unknown>
  expect(body).toMatchObject({ type: `urn:quotegate:problem:${slug}`, status })
  expect(body.requestId).toBe(valuesOf(answer.rawHeaders, 'x-request-id')[0])
  // Neither where the upstream is nor how we noticed is the caller's business.
  expect(answer.body.toString()).not.toMatch(
    /127\.0\.0\.1|localhost|ECONN|UND_ERR|\\n\s+at /,
  )
  return body
}

export function proxyStatus(answer: ParsedAnswer): string | undefined {
  return valuesOf(answer.rawHeaders, 'proxy-status')[0]
}
