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
    security: upstream === 'payments' ? [{ bearer: [] }] : [],
    problems: [...ofAnyRequest, ...ofAnyUpstream, upstreamTable[upstream].missing.slug],
  }
}

const id = { parameters: ['Id'] }
const price = { amount: '10.00', currency: 'USD' }
const pay = (operationId: string, summary: string, more?: Parameters<typeof untouched>[3]) =>
  untouched('payments', operationId, summary, more)

/** Its path is known, its methods and bodies are not. */
const paySeen = (operationId: string, summary: string, more?: Parameters<typeof untouched>[3]) => ({
  ...pay(operationId, summary, more),
  description: 'Any method and any body pass; which of them the provider takes is not known.',
})

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
  '/subscription-checkouts': {
    post: paySeen('createSubscriptionCheckout', 'A payment session for a subscription', { body: price }),
    get: paySeen('listSubscriptionCheckouts', 'The payment sessions for subscriptions'),
  },
  '/subscription-checkouts/{id}': {
    get: paySeen('getSubscriptionCheckout', 'One payment session for a subscription', id),
  },
  '/payments': {
    post: paySeen('createPayment', 'A payment', { body: price }),
    get: paySeen('listPayments', 'The payments'),
  },
  '/payments/{id}': { get: paySeen('getPayment', 'One payment', id) },
  '/payments/{id}/refund': {
    post: paySeen('refundPayment', 'Refunds a payment', { ...id, body: { amount: '4.00' } }),
  },
  '/merchants/{id}/charges': {
    post: paySeen('createCharge', 'A charge of a merchant', { ...id, body: price }),
    get: paySeen('listCharges', 'The charges of a merchant', id),
  },
  '/settings': {
    put: paySeen('putSettings', 'Sets the settings', { body: { currency: 'USD' } }),
    get: paySeen('getSettings', 'The settings'),
  },
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
      description:
        'Paths below another `/v<number>` than `/v3` are answered like this, whatever PAYMENTS_PATHS says.',
      parameters: [parameter('Elsewhere')],
      responses: {},
      security: [],
      problems: [...ofAnyRequest, 'not-found'],
    },
  },
}
