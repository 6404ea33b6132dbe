import { type ProblemSlug, problemSlugs, problemTypes } from '../../src/http/problem.ts'

type Slugs = readonly ProblemSlug[]

/** Where an upstream gave no answer that could be passed on, or was not asked. */
const ofUpstream: Slugs = [
  'upstream-unreachable',
  'upstream-reset',
  'upstream-invalid',
  'saturated',
  'breaker-open',
  'upstream-timeout',
]

/** What any request to the traffic listener may be answered, before it is clear where it goes. */
const ofAnyRequest: Slugs = [
  'malformed-request',
  'bad-target',
  'request-timeout',
  'target-too-long',
  'expectation-failed',
  'head-too-large',
  'internal-error',
  'too-many-connections',
]

/** Problems of several operations, by their name in document.yaml. */
const groups: Readonly<Record<string, Slugs>> = {
  any: ofAnyRequest,
  swap: ['rate-limited', 'loop-detected', ...ofUpstream, ...ofAnyRequest],
  order: [
    'bad-order',
    'bad-idempotency-key',
    'order-in-progress',
    'order-outcome-unknown',
    'order-answered',
    'held',
    'order-too-large',
    'idempotency-key-reused',
    // Only a gateway that is mounted behind a body parser answers so.
    'body-already-read',
  ],
}

function pascalCase(slug: string): string {
  return slug.replace(/(?:^|-)([a-z])/g, (_all, letter: string) => letter.toUpperCase())
}

const only = (value: string | number | boolean) => ({ type: typeof value, const: value })

/** What follows from the table of problems, with the members that document.yaml has. */
export function problemSchemas(
  written: Readonly<Record<string, { properties: object }>>,
): Record<string, object> {
  const schemas = problemSlugs.map((slug) => {
    const type = problemTypes[slug]
    const name = `${pascalCase(slug)}Problem`
    const schema = {
      description: `${type.title}. docs/problems.md#${slug}`,
      type: 'object',
      allOf: [{ $ref: '#/components/schemas/Problem' }],
      ...written[name],
      properties: {
        type: only(`urn:quotegate:problem:${slug}`),
        status: only(type.status),
        retryable: only('retryable' in type),
        ...written[name]?.properties,
      },
    }
    return [name, schema]
  })
  return { Problem: written.Problem, ...Object.fromEntries(schemas) }
}

/** A response for each status, by its name among the components, which is that of its first problem. */
export function problemResponses(
  names: readonly string[],
): { status: number; name: string; response: object }[] {
  const slugs = names.flatMap((name) => groups[name] ?? [name as ProblemSlug])
  const statuses = new Set(slugs.map((slug) => problemTypes[slug].status))
  return [...statuses].map((status) => {
    const ofStatus = slugs.filter((slug) => problemTypes[slug].status === status)
    const [first = ''] = ofStatus
    const name = pascalCase(first) + (ofStatus.length > 1 ? 'OrOther' : '')
    return { status, name, response: problemResponse(status, ofStatus) }
  })
}

function problemResponse(status: number, slugs: Slugs): object {
  const schemas = slugs.map((slug) => ({
    $ref: `#/components/schemas/${pascalCase(slug)}Problem`,
  }))
  const headers = headersOf(status, slugs).map((name) => [
    name,
    { $ref: `#/components/headers/${name}` },
  ])
  return {
    description: 'Or the upstream’s own answer.',
    headers: Object.fromEntries(headers),
    content: {
      'application/problem+json': {
        schema: schemas.length === 1 ? schemas[0] : { oneOf: schemas },
      },
      '*/*': {},
    },
  }
}

function headersOf(status: number, slugs: Slugs): string[] {
  const names = ['X-Request-Id', 'Cache-Control']
  if (status === 405) names.push('Allow')
  if (status === 415) names.push('Accept-Encoding')
  if (status === 429 || status === 503 || slugs.includes('order-in-progress'))
    names.push('Retry-After')
  if (status === 429) names.push('RateLimit', 'RateLimit-Policy')
  if (slugs.some((slug) => ofUpstream.includes(slug) || slug === 'loop-detected'))
    names.push('Proxy-Status')
  return names
}
