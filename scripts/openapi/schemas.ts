import { z } from 'zod'
import { status } from '../../src/operations/schemas.ts'
import { quoteWithoutExpiry } from '../../src/quotes/quote.ts'

/** Bodies that the gateway reads or makes, problems aside. Read for the document alone, never for a request. */

const { shape } = quoteWithoutExpiry

export const amount = shape.fromAmount.loose().meta({
  description: 'An asset and how much of it; the value is a decimal written as a string.',
})

/** Loose, because the bytes are the provider's: whatever else stands in them is relayed. */
export const quote = quoteWithoutExpiry
  .extend({
    fromAmount: amount,
    toAmount: amount,
    expiry: z
      .int()
      .describe(
        'When the quote expires, in milliseconds since the epoch, by the provider’s clock.',
      ),
  })
  .loose()
  .meta({
    description: 'In the very bytes in which the provider wrote it.',
    examples: [
      {
        fromAmount: { assetId: 'ETH', value: '0.1' },
        id: 'bb206d2a78049b6a5c54f10c07bc32c459fd583d52e0c644e567aa34941fede3',
        pairId: 'ETH_USDC',
        toAmount: { assetId: 'USDC', value: '289.645' },
        expiry: 1763651841481,
      },
    ],
  })

const plainAmount = z.union([z.number(), z.string()])
export const orderAmount = z.union([plainAmount, z.looseObject({ value: plainAmount })])

export const floatOrder = z
  .looseObject({
    pairId: z.string(),
    fromAmount: orderAmount,
    toAmount: orderAmount.nullable(),
    quoteId: z.string().describe('Or another of ORDER_QUOTE_ID_FIELDS.'),
    quote: z.looseObject({ id: z.string() }).partial(),
    id: z.string(),
  })
  .partial()
  .meta({
    description:
      'What the gateway reads of an order: the quote that it uses, named by an id or by its terms (pair, amounts, ' +
      'App-Name). All of it goes on byte for byte, whatever else it holds; the provider decides what it needs.',
  })

export const operationsError = z.object({ error: z.string() })
export const health = z.object({ status: z.literal('ok') })
export const readiness = z.object({
  status: z.enum(['ready', 'not ready']),
  degraded: status.shape.degraded,
})
