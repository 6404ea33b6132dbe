import type { ProblemSlug } from '../../src/http/problem.ts'
import { headerRefs } from './headers.ts'
import { ofAnyRequest, ofAnyUpstream, ofOrderKey, ofQuote, ofSwap } from './problems.ts'

/** An operation before its problems are spelt out as responses. */
export interface Operation {
  operationId: string
  tags: readonly string[]
  summary: string
  description?: string
  parameters?: readonly object[]
  requestBody?: object
  responses: Record<string, object>
  /** Empty: it takes no key. */
  security: readonly object[]
  problems: readonly ProblemSlug[]
}

export type Paths = Record<string, Record<string, Operation>>

export const upstreamAnswer = { $ref: '#/components/responses/UpstreamAnswer' }

export function parameter(name: string): object {
  return { $ref: `#/components/parameters/${name}` }
}

const swapProblems = [...ofAnyRequest, ...ofSwap, ...ofAnyUpstream] as const
const swapHeaders = ['AppName', 'AppVersion', 'UserAgent', 'Forwarded', 'XRequestId'].map(
  parameter,
)
const orderHeaders = [
  parameter('QuotegateQuote'),
  parameter('IdempotencyKey'),
  ...swapHeaders,
]
const optionalKey = [{}, { bearer: [] }]

const quoteBase = {
  tags: ['Swap'],
  parameters: ['PairId', 'Amount'].map(parameter).concat(swapHeaders),
  security: optionalKey,
  problems: ['app-name-missing', 'bad-amount', ...ofQuote, ...swapProblems],
} as const

const quoteHeaders = headerRefs([
  'Cache-Control',
  'Cache-Status',
  'Vary',
  'X-Request-Id',
  'RateLimit',
  'RateLimit-Policy',
])

function quoteOperation(operation: {
  operationId: string
  summary: string
  description: string
}): Operation {
  return {
    ...quoteBase,
    ...operation,
    responses: {
      '200': {
        description:
          'A quote that is live now. End-to-end headers of the provider come with it, less its cookies; on a hit also ' +
          'less what described the one exchange that brought it. A 200 of the provider that is not a quote is relayed ' +
          'as it came, with `Cache-Status: quotegate; fwd=bypass; detail=…`.',
        headers: quoteHeaders,
        content: {
          'application/json': { schema: { $ref: '#/components/schemas/Quote' } },
        },
      },
      default: upstreamAnswer,
    },
  }
}

const orderBody = (description: string, examples: Record<string, object>) => ({
  description,
  required: true,
  content: {
    'application/json': { schema: { $ref: '#/components/schemas/FloatOrder' }, examples },
  },
})

const addresses = { fromAddress: '0xfrom', toAddress: '0xto' }
const byTerms = { pairId: 'ETH_USDC', fromAmount: 0.1, ...addresses, toAmount: 289.645 }
const byId = {
  quoteId: 'bb206d2a78049b6a5c54f10c07bc32c459fd583d52e0c644e567aa34941fede3',
  ...byTerms,
}

const takenOrder = {
  description: 'The provider took the order; its answer is relayed as it came.',
  headers: headerRefs(['X-Request-Id', 'Idempotent-Replayed']),
  content: { '*/*': {} },
}

export const swapPaths: Paths = {
  '/v3/pairs/{pairId}/quotes': {
    get: quoteOperation({
      operationId: 'getQuote',
      summary: 'A quote for one amount, from the cache while it is live',
      description:
        'Quotes are cached until their own `expiry`, by the provider’s clock; equal requests in flight share one call. ' +
        'Equal are the pair, the amount as a number, the further query, every header in QUOTE_KEY_HEADERS, and the ' +
        'place of the client (QUOTE_PARTITION). A path that differs only in escapes, case, slashes or path parameters is ' +
        'a quote too, cached apart.',
    }),
    head: quoteOperation({
      operationId: 'headQuote',
      summary: 'The headers of a quote',
      description: 'As GET, without the body of the answer.',
    }),
    trace: {
      operationId: 'traceQuote',
      tags: ['Swap'],
      summary: 'Not allowed',
      description:
        'GET, HEAD and OPTIONS (which passes to the provider) are the methods of a quote: any other is answered like ' +
        'this. TRACE and CONNECT are answered like this at every path.',
      parameters: [parameter('PairId')],
      responses: {},
      security: [],
      problems: [...ofAnyRequest, 'method-not-allowed'],
    },
  },
  '/v3/orders/float': {
    post: {
      operationId: 'createFloatOrder',
      tags: ['Swap'],
      summary: 'An order for a quote',
      description:
        'Read (64 KiB at most, without a content coding), matched with the quote that it uses, and judged at the ' +
        'moment at which it would be sent on. The bytes that are sent on are the caller’s. It is sent once or not at all.',
      parameters: orderHeaders,
      requestBody: orderBody('A JSON object.', {
        terms: { summary: 'By its terms, which is what clients send', value: byTerms },
        id: { summary: 'By the id of its quote', value: byId },
      }),
      responses: { '2XX': takenOrder, default: upstreamAnswer },
      security: optionalKey,
      problems: [
        'bad-order',
        'order-too-large',
        'content-coding',
        'quote-expired',
        'quote-unknown',
        ...ofOrderKey,
        ...swapProblems,
      ],
    },
  },
  '/v3/orders': {
    post: {
      operationId: 'createOrder',
      tags: ['Swap'],
      summary: 'A fixed order, from a rate',
      description:
        'Passes as it is, unless it names a quote that was served here: that takes a float order.',
      parameters: orderHeaders,
      requestBody: orderBody('Whatever the provider asks for.', {
        fixed: {
          summary: 'One that names no quote',
          value: { ...byTerms, slippage: 0.5 },
        },
      }),
      responses: { '2XX': takenOrder, default: upstreamAnswer },
      security: optionalKey,
      problems: [
        'bad-order',
        'order-too-large',
        'float-order-required',
        ...ofOrderKey,
        ...swapProblems,
      ],
    },
    get: {
      operationId: 'listOrders',
      tags: ['Swap'],
      summary: 'The orders from or to an address',
      description:
        'Passes as it is. `lookup` of a problem names it, if an order may have been accepted.',
      parameters: [
        ...['FromAddress', 'FromAsset', 'ToAddress', 'ToAsset'].map(parameter),
        ...swapHeaders,
      ],
      responses: { default: upstreamAnswer },
      security: optionalKey,
      problems: swapProblems,
    },
  },
}
