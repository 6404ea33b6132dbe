import {
  type UpstreamFacts,
  type UpstreamName,
  upstreamNames,
  upstreamTable,
} from '../../src/http/upstreams.ts'
import { anyBody, type Operation, type Paths, parameter, upstreamAnswer } from './operation.ts'
import { ofAnyRequest, ofAnyUpstream } from './problems.ts'

/** Nothing is added and nothing is missing: what the caller signed stays signed. */
function untouched(
  upstream: UpstreamName,
  operationId: string,
  summary: string,
  { parameters = [], body }: { parameters?: readonly string[]; body?: object } = {},
): Operation {
  return {
    operationId,
    tags: [upstreamTable[upstream].title],
    summary,
    ...(parameters.length > 0 && { parameters: parameters.map(parameter) }),
    ...(body && { requestBody: anyBody(body) }),
    responses: { default: upstreamAnswer },
    ...(upstream === 'payments' && { security: [{ bearer: [] }] }),
    problems: [...ofAnyRequest, ...ofAnyUpstream, upstreamTable[upstream].missing.slug],
  }
}

const id = { parameters: ['Id'] }
const price = { amount: '10.00', currency: 'USD' }
const pay = (operationId: string, summary: string, more?: Parameters<typeof untouched>[3]) =>
  untouched('payments', operationId, summary, more)

const payments: Paths = {
  '/checkouts': {
    post: pay('createCheckout', 'A one-time payment session', { body: price }),
    get: pay('listCheckouts', 'The checkouts'),
  },
  '/checkouts/{id}': { get: pay('getCheckout', 'One checkout', id) },
  '/checkouts/{id}/cancel': { post: pay('cancelCheckout', 'Cancels a checkout', id) },
  '/subscriptions': {
    post: pay('createSubscription', 'Recurring billing', { body: price }),
    get: pay('listSubscriptions', 'The subscriptions'),
  },
  '/subscriptions/{id}': { get: pay('getSubscription', 'One subscription', id) },
  '/subscriptions/{id}/cancel': { post: pay('cancelSubscription', 'Cancels a subscription', id) },
  '/refunds': {
    post: pay('createRefund', 'Refunds a completed payment', { body: { checkoutId: 'a1b2', ...price } }),
    get: pay('listRefunds', 'The refunds'),
  },
  '/refunds/{id}': { get: pay('getRefund', 'One refund', id) },
}

const event = { body: { type: 'checkout.completed', id: 'a1b2' } }
const webhooks: Paths = {
  '/webhooks': { post: untouched('webhooks', 'deliverEvent', 'An event, for WEBHOOKS_BASE_URL', event) },
  '/webhooks/{rest}': {
    post: untouched('webhooks', 'deliverEventBelow', 'Likewise: any path below, any method', {
      parameters: ['Rest'],
      ...event,
    }),
  },
}

/** What is known of an upstream's paths; of others the document has the prefixes, and that everything passes. */
const known: Partial<Record<UpstreamName, Paths>> = { payments, webhooks }

/** The paths of every upstream that is passed through untouched. */
export const untouchedPaths: Paths = Object.assign(
  {},
  ...upstreamNames
    .filter((name) => upstreamTable[name].headers === 'untouched')
    .map((name) => known[name] ?? prefixesOf(name)),
)

function prefixesOf(name: UpstreamName): Paths {
  const { baseUrl, paths }: UpstreamFacts = upstreamTable[name]
  const below = { parameters: ['Rest'] }
  const entries = ('setting' in paths ? [] : paths).flatMap((prefix, index) => [
    [prefix, { post: untouched(name, `${name}${index}`, `Any method, for ${baseUrl.setting}`) }],
    [
      `${prefix}/{rest}`,
      { post: untouched(name, `${name}${index}Below`, 'Any path below, any method', below) },
    ],
  ])
  return Object.fromEntries(entries)
}

export const elsewhere: Paths = {
  '/{elsewhere}': {
    get: {
      operationId: 'elsewhere',
      tags: ['Elsewhere'],
      summary: 'Every other path, unless PAYMENTS_PATHS has it: any depth, any method',
      parameters: [parameter('Elsewhere')],
      responses: {},
      problems: [...ofAnyRequest, 'not-found'],
    },
  },
}
