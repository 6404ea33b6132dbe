import type { ProblemSlug } from '../../src/http/problem.ts'
import { upstreamNames, upstreamTable } from '../../src/http/upstreams.ts'
import { ofAnyRequest, ofOrder, ofSwap, problemReferences } from './problems.ts'
import { reference } from './references.ts'
import { sandboxRoutes } from './sandbox-routes.ts'

/** An operation before its problems are responses. */
interface Operation {
  readonly operationId: string
  readonly summary: string
  readonly description?: string
  readonly parameters: readonly string[]
  readonly problems: readonly ProblemSlug[]
  /** Those of an upstream. */
  readonly responses?: object
  readonly [field: string]: unknown
}

type Paths = Record<string, Record<string, Operation>>

const swapHeaders = ['AppName', 'AppVersion', 'UserAgent', 'Forwarded', 'XRequestId']
const upstreamAnswer = { default: reference('responses', 'UpstreamAnswer') }

const ofQuotes = {
  tags: ['Swap'],
  parameters: ['PairId', 'Amount', ...swapHeaders],
  responses: { '200': reference('responses', 'Quote'), ...upstreamAnswer },
  problems: [
    'app-name-missing',
    'bad-amount',
    'provider-limit',
    'quote-expired-waiting',
    ...ofSwap,
  ],
} as const

const addresses = { fromAddress: '0xfrom', toAddress: '0xto' }
const terms = { pairId: 'ETH_USDC', fromAmount: 0.1, ...addresses, toAmount: 289.645 }
const quoteId = 'bb206d2a78049b6a5c54f10c07bc32c459fd583d52e0c644e567aa34941fede3'

const ofOrders = {
  tags: ['Swap'],
  parameters: ['QuotegateQuote', 'IdempotencyKey', ...swapHeaders],
  responses: { '2XX': reference('responses', 'TakenOrder'), ...upstreamAnswer },
}

const orderBody = (examples: object) => ({
  required: true,
  content: {
    'application/json': { schema: reference('schemas', 'FloatOrder'), examples },
  },
})

const read: Paths = {
  '/v3/pairs/{pairId}/quotes': {
    get: {
      operationId: 'getQuote',
      summary: 'A quote for one amount, from the cache while it is live',
      description:
        'Quotes are cached until their own `expiry`, by the provider’s clock; equal requests in flight share one call. ' +
        'Equal are the pair, the amount as a number, the further query, every header in QUOTE_KEY_HEADERS, and the ' +
        'place of the client (QUOTE_PARTITION). A path that differs only in escapes, case, slashes or path parameters is ' +
        'a quote too, cached apart.',
      ...ofQuotes,
    },
    head: {
      operationId: 'headQuote',
      summary: 'The headers of a quote',
      ...ofQuotes,
    },
    trace: {
      operationId: 'traceQuote',
      summary: 'Not allowed',
      description:
        'The methods of a quote are GET, HEAD and OPTIONS, which passes to the provider. TRACE and CONNECT are not ' +
        'allowed at any path.',
      tags: ['Swap'],
      parameters: ['PairId'],
      security: [],
      problems: ['method-not-allowed', ...ofAnyRequest],
    },
  },
  '/v3/orders/float': {
    post: {
      operationId: 'createFloatOrder',
      summary: 'An order for a quote',
      description:
        'Read (64 KiB at most, without a content coding), matched with the quote that it uses, and judged at the ' +
        'moment at which it would be sent on. The bytes that are sent on are the caller’s. It is sent once or not at all.',
      ...ofOrders,
      requestBody: orderBody({
        terms: { summary: 'By its terms, which is what clients send', value: terms },
        id: { summary: 'By the id of its quote', value: { quoteId, ...terms } },
      }),
      problems: ['content-coding', 'quote-expired', 'quote-unknown', ...ofOrder],
    },
  },
  '/v3/orders': {
    post: {
      operationId: 'createOrder',
      summary: 'A fixed order, from a rate',
      description:
        'Passes as it is, unless it names a quote that was served here: that takes a float order.',
      ...ofOrders,
      requestBody: orderBody({ fixed: { value: { ...terms, slippage: 0.5 } } }),
      problems: ['float-order-required', ...ofOrder],
    },
    get: {
      operationId: 'listOrders',
      summary: 'The orders from or to an address',
      description: 'Passes as it is. It is the `lookup` of problems.',
      tags: ['Swap'],
      parameters: ['FromAddress', 'FromAsset', 'ToAddress', 'ToAsset', ...swapHeaders],
      responses: upstreamAnswer,
      problems: ofSwap,
    },
  },
}

function isRead(route: string): boolean {
  const [method = '', path = ''] = route.split(' ')
  return read[path]?.[method.toLowerCase()] !== undefined
}

const paths: Paths = {
  ...read,
  '/{path}': {
    get: {
      operationId: 'passThrough',
      summary: 'Every other path: any depth, any method, any body',
      description:
        'Below `/v3` requests pass to SWAP_BASE_URL with one clean `Forwarded`, `Via`, `X-Request-Id` and the SWAP_ defaults. ' +
        'The paths in PAYMENTS_PATHS pass to PAYMENTS_BASE_URL, `/webhooks` and what is below it to WEBHOOKS_BASE_URL, both ' +
        'byte for byte, so that what the caller signed stays signed. Any other path, and every path below another ' +
        '`/v<number>`, is 404 `not-found`.\n\nThe sandbox answers:\n\n' +
        sandboxRoutes
          .filter((route) => !isRead(route))
          .map((route) => `- \`${route}\``)
          .join('\n'),
      tags: upstreamNames.map((name) => upstreamTable[name].title),
      parameters: ['Path'],
      responses: upstreamAnswer,
      problems: [
        ...ofSwap,
        ...upstreamNames.map((name) => upstreamTable[name].missing.slug),
      ],
    },
  },
}

const operations = Object.values(paths).flatMap((path) => Object.values(path))
export const problemsOfOperations = operations.map(({ problems }) => problems)

export const trafficPaths = Object.fromEntries(
  Object.entries(paths).map(([path, methods]) => [
    path,
    Object.fromEntries(
      Object.entries(methods).map(([method, operation]) => [
        method,
        described(operation),
      ]),
    ),
  ]),
)

/** Each answers what the gateway and, where it is asked, the upstream may. */
function described({ problems, parameters, responses, ...operation }: Operation): object {
  return {
    security: [{}, { bearer: [] }],
    ...operation,
    parameters: parameters.map((name) => reference('parameters', name)),
    responses: { ...problemReferences(problems), ...responses },
  }
}
