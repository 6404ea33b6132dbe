import { z } from 'zod'
import {
  Problem,
  type ProblemOptions,
  type ProblemSlug,
  problemBody,
  problemTypes,
} from '../../src/http/problem.ts'
import { headerRefs } from './headers.ts'

/** What any request to the traffic listener may be answered, before it is clear where it goes. */
export const ofAnyRequest = [
  'malformed-request',
  'bad-target',
  'request-timeout',
  'target-too-long',
  'expectation-failed',
  'head-too-large',
  'internal-error',
  'too-many-connections',
] as const satisfies readonly ProblemSlug[]

/** Where an upstream gave no answer that could be passed on, or was not asked. */
export const ofAnyUpstream = [
  'upstream-unreachable',
  'upstream-reset',
  'upstream-invalid',
  'saturated',
  'breaker-open',
  'upstream-timeout',
] as const satisfies readonly ProblemSlug[]

/** Where the provider has answered quotes with 429, or its quotes live too short. */
export const ofQuote = [
  'provider-limit',
  'quote-expired-waiting',
] as const satisfies readonly ProblemSlug[]

export const ofSwap = [
  'rate-limited',
  'loop-detected',
] as const satisfies readonly ProblemSlug[]

/** Of an order with an Idempotency-Key. */
export const ofOrderKey = [
  'bad-idempotency-key',
  'order-in-progress',
  'order-outcome-unknown',
  'order-answered',
  'idempotency-key-reused',
] as const satisfies readonly ProblemSlug[]

const quoteId = z.string().describe('The id of the quote that the order uses.')

/** Of an order that the provider may have carried out. */
const outcome = {
  lookup: z
    .string()
    .optional()
    .describe(
      'Path and query that list the orders to the toAddress of this order, which may have been accepted.',
    ),
  accepted: z
    .literal(true)
    .optional()
    .describe('The provider accepted this float order, and only its answer was lost.'),
}

/** Members of one problem, besides those that each has. */
const furtherMembers: Partial<Record<ProblemSlug, z.ZodRawShape>> = {
  'app-name-missing': { header: z.literal('App-Name') },
  'bad-amount': { parameter: z.literal('amount') },
  'quote-expired': {
    quoteId,
    pairId: z.string(),
    expiry: z
      .number()
      .describe(
        'When the quote expired, in milliseconds since the epoch, by the provider’s clock.',
      ),
    expiredForMs: z
      .int()
      .nonnegative()
      .describe('For how long; 0 within ORDER_EXPIRY_MARGIN_MS of its expiry.'),
    requote: z
      .string()
      .describe('Path and query for a new quote of the same pair and amount.'),
  },
  'provider-limit': { upstream: z.literal('swap') },
  'float-order-required': { quoteId, use: z.literal('/v3/orders/float') },
  'order-outcome-unknown': { lookup: outcome.lookup },
  'order-answered': { lookup: outcome.lookup },
  'upstream-reset': { lookup: outcome.lookup },
  'upstream-invalid': outcome,
  'upstream-timeout': outcome,
  'breaker-open': {
    breaker: z
      .enum(['connections', 'orders', 'pair', 'rest'])
      .describe(
        'What is not sent for a moment: all that needs a connection, or requests of one kind.',
      ),
  },
}

/** One that is sent as it stands here, ids and times aside. */
const examples: Partial<Record<ProblemSlug, ProblemOptions>> = {
  'app-name-missing': {
    detail:
      'The swap API requires an App-Name header: send one, or set SWAP_APP_NAME at the gateway.',
    members: { header: 'App-Name' },
  },
  'bad-amount': {
    detail: 'The query parameter "amount" is missing.',
    members: { parameter: 'amount' },
  },
  'bad-order': {
    detail:
      'The request has more than one Quotegate-Quote, or one with a comma in it. Nothing was sent to the provider. ' +
      'Send the id of one quote; an id that has a comma goes into the body (ORDER_QUOTE_ID_FIELDS).',
  },
  'quote-expired': {
    detail:
      'The quote of this order is too old. Nothing was sent to the provider. Request a new quote at ' +
      '`requote`, show it, and order again.',
    members: {
      quoteId: '8a968a6a77f9d538af3f44427243f7581691336432ba231a6e434329bc92a4a0',
      pairId: 'ETH_USDC',
      expiry: 1795260895616,
      expiredForMs: 1246,
      requote: '/v3/pairs/ETH_USDC/quotes?amount=0.1',
    },
  },
  'float-order-required': {
    detail:
      'This order names a quote. Send it to POST /v3/orders/float. Nothing was sent to the provider.',
    members: {
      quoteId: '8a968a6a77f9d538af3f44427243f7581691336432ba231a6e434329bc92a4a0',
      use: '/v3/orders/float',
    },
  },
  'quote-expired-waiting': {
    detail:
      '3 quotes in a row expired before they could be sent to this client. Request the quote again.',
  },
  'order-too-large': {
    detail: 'The order has more than 65536 bytes. Nothing was sent to the provider.',
  },
  'upstream-unreachable': {
    detail:
      'The swap API refused the connection. Nothing was sent: the request can be sent again.',
    members: { upstream: 'swap' },
    retryable: true,
  },
}

const exampleRequestId = '3fe1f811-fd04-4461-87c2-0b24b0c8a37b'

/** By their name among the components. */
export function problemSchemas(): Record<string, z.ZodType> {
  const slugs = Object.keys(problemTypes) as ProblemSlug[]
  return Object.fromEntries(
    slugs.map((slug) => [`${pascalCase(slug)}Problem`, problemSchema(slug)]),
  )
}

function isOfUpstream(slug: ProblemSlug): boolean {
  return (ofAnyUpstream as readonly ProblemSlug[]).includes(slug)
}

function problemSchema(slug: ProblemSlug): z.ZodType {
  const type = problemTypes[slug]
  const always = 'retryable' in type
  return z
    .object({
      type: z.literal(`urn:quotegate:problem:${slug}`).describe('Decide by this one.'),
      title: z.literal(type.title),
      status: z.literal(type.status),
      detail: z
        .string()
        .describe(
          'What is wrong and what to do about it: for people, its wording may change.',
        ),
      instance: z.string().describe('This one answer, as a URN.'),
      requestId: z
        .string()
        .describe('The same as in X-Request-Id; the gateway’s log has it.'),
      retryable: (always
        ? z.literal(true)
        : isOfUpstream(slug)
          ? z.boolean()
          : z.literal(false)
      ).describe('Whether sending the same request again can do nothing twice.'),
      ...(isOfUpstream(slug)
        ? { upstream: z.enum(['swap', 'payments', 'webhooks']) }
        : {}),
      ...furtherMembers[slug],
    })
    .meta({ description: `${type.title}. See docs/problems.md#${slug}.` })
}

export interface ResponseComponent {
  description: string
  headers: Record<string, object>
  content: Record<string, object>
}

/** The responses of an operation that may be answered with these problems, and the components that they refer to. */
export function problemResponses(slugs: readonly ProblemSlug[]) {
  const responses: Record<string, object> = {}
  const components: Record<string, ResponseComponent> = {}
  const statuses = [...new Set(slugs.map((slug) => problemTypes[slug].status))].sort(
    (a, b) => a - b,
  )
  for (const status of statuses) {
    const ofStatus = slugs.filter((slug) => problemTypes[slug].status === status)
    const name = ofStatus.map(pascalCase).join('Or')
    responses[status] = { $ref: `#/components/responses/${name}` }
    components[name] = problemResponse(ofStatus)
  }
  return { responses, components }
}

function problemResponse(slugs: readonly ProblemSlug[]): ResponseComponent {
  const schemas = slugs.map((slug) => ({
    $ref: `#/components/schemas/${pascalCase(slug)}Problem`,
  }))
  const shown = slugs.flatMap((slug) => {
    const example = examples[slug]
    if (example === undefined) return []
    const value: unknown = JSON.parse(
      problemBody(new Problem(slug, example), exampleRequestId),
    )
    return [[slug, { value }] as const]
  })
  return {
    description: `${slugs.map((slug) => problemTypes[slug].title).join('; or: ')}. Or the upstream’s own answer.`,
    headers: problemHeaders(slugs),
    content: {
      'application/problem+json': {
        schema: schemas.length === 1 ? schemas[0] : { oneOf: schemas },
        ...(shown.length > 0 ? { examples: Object.fromEntries(shown) } : {}),
      },
      // An upstream may answer with the same status in any form of its own.
      '*/*': {},
    },
  }
}

function problemHeaders(slugs: readonly ProblemSlug[]): Record<string, object> {
  const names = ['X-Request-Id', 'Cache-Control']
  const [status] = slugs.map((slug) => problemTypes[slug].status)
  if (status === 405) names.push('Allow')
  if (status === 415) names.push('Accept-Encoding')
  if (status === 429 || status === 503 || slugs.includes('order-in-progress'))
    names.push('Retry-After')
  if (status === 429) names.push('RateLimit', 'RateLimit-Policy')
  if (slugs.some((slug) => isOfUpstream(slug) || slug === 'loop-detected'))
    names.push('Proxy-Status')
  return headerRefs(names)
}

function pascalCase(slug: string): string {
  return slug.replace(/(?:^|-)([a-z])/g, (_all, letter: string) => letter.toUpperCase())
}
