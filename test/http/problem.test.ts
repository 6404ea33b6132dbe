import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { UpstreamFailure, type UpstreamFault } from '../../src/http/failure.ts'
import {
  Problem,
  type ProblemSlug,
  problemBody,
  problemOf,
  problemSlugs,
  problemTypes,
} from '../../src/http/problem.ts'

const faults: Record<UpstreamFault, string> = {
  connection_refused: 'upstream-unreachable',
  destination_unavailable: 'upstream-unreachable',
  dns_error: 'upstream-unreachable',
  tls_certificate_error: 'upstream-unreachable',
  tls_protocol_error: 'upstream-unreachable',
  connection_terminated: 'upstream-reset',
  http_response_incomplete: 'upstream-invalid',
  http_response_body_size: 'upstream-invalid',
  http_protocol_error: 'upstream-invalid',
  connection_timeout: 'upstream-timeout',
  http_response_timeout: 'upstream-timeout',
  connection_limit_reached: 'saturated',
  breaker_open: 'breaker-open',
}
const everyFault = Object.entries(faults) as [UpstreamFault, string][]

function failure(fault: UpstreamFault, maybeSeen: boolean): UpstreamFailure {
  const cause = Object.assign(
    new Error('connect ECONNREFUSED 10.1.2.3:4711 sk_live_secret'),
    {
      code: 'ECONNREFUSED',
    },
  )
  return new UpstreamFailure('payments', { fault, maybeSeen, cause })
}

const document = readFileSync(new URL('../../docs/openapi.json', import.meta.url), 'utf8')
const { schemas } = (JSON.parse(document) as OpenApi).components

interface OpenApi {
  components: { schemas: Record<string, { properties: object }> }
}

function membersOf(slug: ProblemSlug): string[] {
  const ref = slug.replace(/(?:^|-)([a-z])/g, (_all, letter: string) =>
    letter.toUpperCase(),
  )
  const ofEach = schemas.Problem?.properties
  return Object.keys({ ...ofEach, ...schemas[`${ref}Problem`]?.properties })
}

describe('docs/problems.md', () => {
  const page = readFileSync(new URL('../../docs/problems.md', import.meta.url), 'utf8')
  const sections = [...page.matchAll(/^### `(.+)`\n([\s\S]*?)(?=^##|$(?![\s\S]))/gm)]
  const documented = new Map(sections.map(([, slug = '', text = '']) => [slug, text]))

  test('explains every problem type that exists, and no other', () => {
    expect([...documented.keys()].sort()).toEqual(Object.keys(problemTypes).sort())
    expect(sections).toHaveLength(documented.size)
  })

  const seen = new Set(Object.values(faults))
  test.each(Object.entries(problemTypes))(
    'describes %s as the code does',
    (slug, type) => {
      const again =
        'retryable' in type ? 'always' : seen.has(slug) ? 'if it was not seen' : 'never'
      const closes = 'closes' in type ? ' · closes the connection' : ''
      const [facts] = (documented.get(slug) ?? '').split('\n')
      expect(facts).toBe(`Status ${type.status} · retryable: ${again}${closes}`)
    },
  )

  // The OpenAPI document has the members; its own tests compare them with the answers of a gateway.
  const ofEvery = [
    'type',
    'title',
    'status',
    'detail',
    'instance',
    'requestId',
    'retryable',
  ]
  const members = new Map(problemSlugs.map((slug) => [slug, membersOf(slug)]))

  test.each(problemSlugs)('names the extra members of %s', (slug) => {
    const further = members
      .get(slug)
      ?.filter((name) => ![...ofEvery, 'upstream'].includes(name))
    expect(
      further?.filter((name) => !documented.get(slug)?.includes(`\`${name}\``)),
    ).toEqual([])
  })

  test('lists every member that problems have, and no other', () => {
    const [, table = ''] = page.split('\n|---|---|\n')
    const [rows = ''] = table.split('\n\n')
    const listed = rows
      .split('\n')
      .flatMap((row) => row.split(' | ')[0]?.match(/(?<=`)\w+(?=`)/g) ?? [])
    expect(listed.sort()).toEqual([...new Set([...members.values()].flat())].sort())
  })
})

describe('the body of a problem', () => {
  test('has the members of RFC 9457, the request id, and whether it is retryable', () => {
    const problem = new Problem('bad-amount', {
      detail: 'Send it once.',
      members: { parameter: 'amount' },
    })
    expect(JSON.parse(problemBody(problem, 'id/1'))).toEqual({
      type: 'urn:quotegate:problem:bad-amount',
      title: problemTypes['bad-amount'].title,
      status: 400,
      detail: 'Send it once.',
      instance: 'urn:quotegate:request:id%2F1',
      requestId: 'id/1',
      retryable: false,
      parameter: 'amount',
    })
  })

  test('contains no text of the underlying error', () => {
    const secret = 'sk_live_secret at 10.1.2.3'
    for (const error of [new TypeError(secret), secret, failure('dns_error', false)]) {
      const problem = problemOf(error, 'GET')
      const shown = problemBody(problem, 'id') + JSON.stringify(problem.headers)
      expect(shown).not.toMatch(/sk_live|10\.1\.2\.3|4711|ECONN|TypeError|\.ts\b|\bat /)
      expect(problem.cause).toBe(error)
    }
  })
})

describe('a failure of an upstream', () => {
  test.each(everyFault)('%s becomes %s and is named in Proxy-Status', (fault, slug) => {
    const problem = problemOf(failure(fault, false), 'GET')
    expect(problem.slug).toBe(slug)
    const named = fault === 'breaker_open' ? 'destination_unavailable' : fault
    expect(problem.headers['Proxy-Status']).toBe(`quotegate; error=${named}`)
    expect(problem.members).toEqual({ upstream: 'payments' })
  })

  test.each(['POST', 'DELETE', 'PROPFIND'])(
    'of a %s is not retryable once perhaps seen',
    (method) => {
      for (const [fault] of everyFault) {
        const problem = problemOf(failure(fault, true), method)
        expect(problem.retryable).toBe(false)
        expect(problem.detail).toContain('may have been carried out')
        expect(problemOf(failure(fault, false), method).retryable).toBe(true)
      }
    },
  )

  test.each(['GET', 'HEAD', 'OPTIONS'])('of a %s is retryable, seen or not', (method) => {
    for (const [fault] of everyFault)
      for (const maybeSeen of [true, false])
        expect(problemOf(failure(fault, maybeSeen), method).retryable).toBe(true)
  })

  test('has Retry-After if every connection is busy', () =>
    expect(
      problemOf(failure('connection_limit_reached', false), 'GET').headers['Retry-After'],
    ).toBe('1'))
})

test('a problem that was thrown is answered as it is, an unexpected error as a 500 that is not to be sent again', () => {
  const problem = new Problem('loop-detected', { detail: 'Twice.' })
  expect(problemOf(problem, 'POST')).toBe(problem)
  const unexpected = { slug: 'internal-error', status: 500, retryable: false }
  expect(problemOf(new Error('boom'), 'GET')).toMatchObject(unexpected)
})
