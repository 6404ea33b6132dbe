import { type ProblemSlug, problemSlugs, problemTypes } from '../../src/http/problem.ts'
import { headerReferences, pascalCase, reference } from './references.ts'

type Slugs = readonly ProblemSlug[]

/** What any request to the traffic listener may be answered, before it is clear where it goes. */
export const ofAnyRequest: Slugs = [
  'malformed-request',
  'bad-target',
  'request-timeout',
  'target-too-long',
  'expectation-failed',
  'head-too-large',
  'internal-error',
  'too-many-connections',
]

/** Where an upstream gave no answer that could be passed on, or was not asked. */
const ofUpstream: Slugs = [
  'upstream-unreachable',
  'upstream-reset',
  'upstream-invalid',
  'saturated',
  'breaker-open',
  'upstream-timeout',
]

export const ofSwap: Slugs = [
  'rate-limited',
  'loop-detected',
  ...ofUpstream,
  ...ofAnyRequest,
]

export const ofOrder: Slugs = [
  'bad-order',
  'bad-idempotency-key',
  'order-in-progress',
  'order-outcome-unknown',
  'order-answered',
  'order-too-large',
  'idempotency-key-reused',
  // Only a gateway that is mounted behind a body parser answers so.
  'body-already-read',
  ...ofSwap,
]

const text = (description: string) => ({ type: 'string', description })

/** Each problem has these members (RFC 9457). */
const members = {
  type: text('Decide by this one; docs/problems.md has a section for each.'),
  title: { type: 'string' },
  status: { type: 'integer' },
  detail: text(
    'What is wrong and what to do about it: for people, its wording may change.',
  ),
  instance: text('This one answer, as a URN.'),
  requestId: text('The same as in X-Request-Id; the gateway’s log has it.'),
  retryable: {
    type: 'boolean',
    description: 'Whether sending the same request again can do nothing twice.',
  },
}

const only = (value: string | number | boolean) => ({ type: typeof value, const: value })

const upstream = reference('schemas', 'Upstream')
const quoteId = text('The id of the quote that the order uses.')
const lookup = text('The path that lists the orders to the `toAddress` of this one.')
const accepted = {
  ...only(true),
  description: 'The provider accepted this float order; only its answer was lost.',
}

/** Of an order that the provider may have carried out; absent where that is not known. */
const optional = ['lookup', 'accepted']

/** Members of one problem, besides those that each has. */
const furtherMembers: Partial<Record<ProblemSlug, Record<string, object>>> = {
  'app-name-missing': { header: only('App-Name') },
  'bad-amount': { parameter: only('amount') },
  'quote-expired': {
    quoteId,
    pairId: { type: 'string' },
    expiry: {
      type: 'number',
      description:
        'When it expired, in milliseconds since the epoch, by the provider’s clock.',
    },
    expiredForMs: {
      type: 'integer',
      minimum: 0,
      description: '0 within ORDER_EXPIRY_MARGIN_MS of its expiry.',
    },
    requote: text('Path and query for a new quote of the same pair and amount.'),
  },
  'provider-limit': { upstream: only('swap') },
  'float-order-required': { quoteId, use: only('/v3/orders/float') },
  'order-outcome-unknown': { lookup },
  'order-answered': { lookup },
  'upstream-unreachable': { upstream },
  'upstream-reset': { upstream, lookup },
  'upstream-invalid': { upstream, lookup, accepted },
  'upstream-timeout': { upstream, lookup, accepted },
  saturated: { upstream },
  'breaker-open': {
    upstream,
    breaker: {
      type: 'string',
      enum: ['connections', 'orders', 'pair', 'rest'],
      description:
        'All that needs a connection, or requests of one kind, is not sent for now.',
    },
  },
}

/** By their name among the components. */
export const problemSchemas: Record<string, object> = {
  Problem: { type: 'object', properties: members, required: Object.keys(members) },
  ...Object.fromEntries(
    problemSlugs.map((slug) => [schemaName(slug), problemSchema(slug)]),
  ),
}

function schemaName(slug: ProblemSlug): string {
  return `${pascalCase(slug)}Problem`
}

function problemSchema(slug: ProblemSlug): object {
  const type = problemTypes[slug]
  const further = furtherMembers[slug] ?? {}
  const required = Object.keys(further).filter((name) => !optional.includes(name))
  const isRetryable = 'retryable' in type
  // After a failure of the upstream it depends on the method, and on what the upstream may have seen.
  const retryable =
    isRetryable || !ofUpstream.includes(slug) ? { retryable: only(isRetryable) } : {}
  return {
    description: `${type.title}. docs/problems.md#${slug}`,
    type: 'object',
    allOf: [reference('schemas', 'Problem')],
    properties: {
      type: only(`urn:quotegate:problem:${slug}`),
      status: only(type.status),
      ...retryable,
      ...further,
    },
    ...(required.length > 0 ? { required } : {}),
  }
}

/** Those of each status: a response has one. */
function byStatus(slugs: Slugs): [number, Slugs][] {
  const statuses = new Set(slugs.map(statusOf))
  return [...statuses].map((status) => [
    status,
    slugs.filter((slug) => statusOf(slug) === status),
  ])
}

function statusOf(slug: ProblemSlug): number {
  return problemTypes[slug].status
}

/** Lists of problems begin with those of few operations, so that no other response begins with the same. */
function responseName([first = 'internal-error', ...others]: Slugs): string {
  return pascalCase(first) + (others.length > 0 ? 'OrOther' : '')
}

export function problemReferences(slugs: Slugs): Record<string, object> {
  return Object.fromEntries(
    byStatus(slugs).map(([status, ofStatus]) => [
      status,
      reference('responses', responseName(ofStatus)),
    ]),
  )
}

/** What the references of these operations lead to. */
export function problemResponses(operations: Slugs[]): Record<string, object> {
  return Object.fromEntries(
    operations
      .flatMap(byStatus)
      .map(([status, slugs]) => [responseName(slugs), problemResponse(status, slugs)]),
  )
}

function problemResponse(status: number, slugs: Slugs): object {
  const schemas = slugs.map((slug) => reference('schemas', schemaName(slug)))
  return {
    description: 'A problem, or the upstream’s own answer.',
    headers: headerReferences(...headersOf(status, slugs)),
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
