import { z } from 'zod'
import { quoteWithoutExpiry } from '../../src/quotes/quote.ts'

/** Bodies that the gateway reads or makes, problems aside. Read for the document alone, never for a request. */

const { shape } = quoteWithoutExpiry
const quoteId = 'bb206d2a78049b6a5c54f10c07bc32c459fd583d52e0c644e567aa34941fede3'

export const amount = shape.fromAmount.loose().meta({
  description: 'An asset and how much of it; the value is a decimal written as a string.',
  examples: [{ assetId: 'ETH', value: '0.1' }],
})

/** Loose, because the bytes are the provider's: whatever else stands in them is relayed. */
export const quote = quoteWithoutExpiry
  .extend({
    id: shape.id.describe('Of this quote; "can be used for tracking".'),
    pairId: shape.pairId.describe('The pair that the quote is for.'),
    fromAmount: amount.describe('What is swapped.'),
    toAmount: amount.describe('What is received.'),
    expiry: z
      .int()
      .describe(
        'When the quote expires, in milliseconds since the epoch, by the provider’s clock.',
      ),
  })
  .loose()
  .meta({
    description:
      'A quote, in the very bytes in which the provider wrote it. Further members may be there: they are relayed, ' +
      'and a client must ignore those that it does not know.',
    examples: [
      {
        fromAmount: { assetId: 'ETH', value: '0.1' },
        id: quoteId,
        pairId: 'ETH_USDC',
        toAmount: { assetId: 'USDC', value: '289.645' },
        expiry: 1763651841481,
      },
    ],
  })

const plainAmount = z.union([z.number(), z.string()])
const orderAmount = z.union([plainAmount, z.looseObject({ value: plainAmount })])
const namesQuote = 'A quote’s id; ORDER_QUOTE_ID_FIELDS says which members may hold one.'

export const floatOrder = z
  .looseObject({
    pairId: z.string().optional().describe('The pair of the quote.'),
    fromAmount: orderAmount
      .optional()
      .describe('A number, a decimal as a string, or an amount with a `value`.'),
    toAmount: orderAmount
      .nullable()
      .optional()
      .describe('Likewise; an order may leave it open.'),
    quoteId: z.string().optional().describe(namesQuote),
    quote: z.looseObject({ id: z.string().optional() }).optional().describe(namesQuote),
    id: z.string().optional().describe(namesQuote),
  })
  .meta({
    description:
      'What the gateway reads of an order: the quote that it uses, named by an id or by its terms (pair, amounts, ' +
      'App-Name). All of it goes on byte for byte, whatever else it holds; the provider decides what it needs.',
  })

export const operationsError = z
  .object({ error: z.string() })
  .meta({ description: 'Why the operations listener does not do as asked.' })

export const health = z.object({ status: z.literal('ok') })

const degraded = z
  .boolean()
  .describe(
    'Whether the shared store or its journal cannot be used; no request fails for it.',
  )

export const readiness = z.object({ status: z.enum(['ready', 'not ready']), degraded })
