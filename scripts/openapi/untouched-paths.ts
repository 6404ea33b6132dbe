import { anyBody, type Operation, type Paths, parameter, upstreamAnswer } from './operation.ts'
import { ofAnyRequest, ofAnyUpstream } from './problems.ts'

/** Nothing is added and nothing is missing: what the caller signed stays signed. */
function untouched(
  tag: 'Payments' | 'Webhooks',
  operationId: string,
  summary: string,
  { parameters = [], body }: { parameters?: readonly string[]; body?: object } = {},
): Operation {
  return {
    operationId,
    tags: [tag],
    summary,
    ...(parameters.length > 0 && { parameters: parameters.map(parameter) }),
    ...(body && { requestBody: anyBody(body) }),
    responses: { default: upstreamAnswer },
    ...(tag === 'Payments' && { security: [{ bearer: [] }] }),
    problems: [
      ...ofAnyRequest,
      ...ofAnyUpstream,
      tag === 'Payments' ? 'no-payments-upstream' : 'no-webhooks-upstream',
    ],
  }
}

const id = { parameters: ['Id'] }
const price = { amount: '10.00', currency: 'USD' }
const pay = (operationId: string, summary: string, more?: Parameters<typeof untouched>[3]) =>
  untouched('Payments', operationId, summary, more)

export const paymentsPaths: Paths = {
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
export const webhookPaths: Paths = {
  '/webhooks': { post: untouched('Webhooks', 'deliverEvent', 'An event, for WEBHOOKS_BASE_URL', event) },
  '/webhooks/{rest}': {
    post: untouched('Webhooks', 'deliverEventBelow', 'Likewise: any path below, any method', {
      parameters: ['Rest'],
      ...event,
    }),
  },
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
