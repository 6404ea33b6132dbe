import { z } from 'zod'
import { guardRules } from '../../src/orders/guard.ts'
import { quoteWithoutExpiry } from '../../src/quotes/quote.ts'
import { outage, savings, shownCalls } from './history-schemas.ts'

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
      .describe('When the quote expires, in milliseconds since the epoch, by the provider’s clock.'),
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
    toAmount: orderAmount.nullable().optional().describe('Likewise; an order may leave it open.'),
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
  .describe('Whether the store that replicas share does not answer; no request fails for it.')

export const readiness = z.object({ status: z.enum(['ready', 'not ready']), degraded })

const shownBreaker = z.object({
  name: z
    .enum(['connections', 'orders', 'rest'])
    .describe(
      'What it stops: with connections everything, else requests of one kind. Only swap has kinds; `openPairs` are its quotes.',
    ),
  state: z.enum(['closed', 'open', 'half-open']),
  retryAfterMs: z.number().describe('How long until one request may try; 0 while the breaker is closed.'),
})

const upstreamState = z.object({
  name: z.enum(['swap', 'payments', 'webhooks']),
  sandbox: z.boolean(),
  breakers: z.array(shownBreaker),
  openPairs: z.number().describe('Pairs whose quotes keep failing, so that only a try is sent now and then.'),
  inFlight: z.number(),
  connections: z
    .object({ busy: z.number(), idle: z.number(), waiting: z.number() })
    .describe('Connections, and requests that wait for one.'),
  traffic: z.array(shownCalls).describe('Of the last minute, by kind of traffic.'),
  connectionsMost: z.number(),
  queueMost: z.number(),
})

const journal = {
  appended: z.number().describe('Records since the start.'),
  waiting: z.number().describe('Records that are not in it yet.'),
  skipped: z.number().describe('What was read and is not a record, or is damaged.'),
  awaySinceMs: z
    .number()
    .nullable()
    .describe('Since when it fails or hangs, by the clock; null: it does not.'),
}

const coolDowns = z
  .object({
    clients: z.number().describe('Applications at a client address whose quotes are not asked for now.'),
    longestLeftMs: z.number(),
    shown: z
      .array(
        z.object({
          application: z.string(),
          address: z.string().describe('Masked.'),
          leftMs: z.number(),
        }),
      )
      .describe('At most 20 of them.'),
  })
  .describe(
    'Whose quotes the provider answered with 429 and is not asked for, until its Retry-After is over.',
  )

const consideredQuote = z.object({
  id: z.string(),
  amount: z.string(),
  toAmount: z.string(),
  lateMs: z.number().describe('Since its expiry; negative: it was live for so long still.'),
  isOwn: z.boolean().describe('It was given to the client that orders.'),
  decided: z.boolean().describe('The order was refused or reported because of this quote.'),
})

const refusal = z.object({
  at: z.number().describe('Milliseconds since the epoch.'),
  reason: z.enum(['expired', 'unknown']),
  sent: z.boolean().describe('Only reported, because ORDER_EXPIRED_QUOTE is report.'),
  rule: z.enum(guardRules).describe('The rule that decided; docs/orders.md explains each.'),
  why: z.string().describe('The same in words.'),
  pair: z.string(),
  amount: z.string(),
  toAmount: z.string().nullable().describe('As the order states it.'),
  quoteIds: z.array(z.string()).describe('The quotes that the order names.'),
  application: z.string(),
  client: z.string().describe('The client’s address, masked.'),
  quoteId: z.string().nullable().describe('The quote that was too old.'),
  quoteAgeMs: z.number().nullable(),
  expiredForMs: z.number().nullable(),
  quotes: z
    .array(consideredQuote)
    .describe(
      'At most five of those that were considered: the one that decided, then those that expired last.',
    ),
  quotesConsidered: z.number(),
  requestId: z.string(),
})

const ordersOfApplication = z.object({
  application: z.string().nullable().describe('null: all further applications.'),
  orders: z.number(),
  expired: z.number().describe('Refused, because their quotes had expired.'),
  unknown: z.number().describe('Refused, because no quote seen here matches them.'),
  reported: z
    .number()
    .describe('Sent, though their quotes had expired, because ORDER_EXPIRED_QUOTE is report.'),
  leastLateMs: z.number().nullable(),
  mostLateMs: z.number().nullable(),
})

const partOfTime = z.number().nullable()
const failedRequest = z.object({
  number: z.number().describe('Counted up.'),
  at: z.number().describe('Milliseconds since the epoch.'),
  method: z.string(),
  route: z.string(),
  path: z.string(),
  status: z.number().describe('0: the client left, or the answer broke off.'),
  source: z.enum(['provider', 'gateway', 'client']).nullable().describe('Who caused the error.'),
  notSent: z
    .enum(['breaker', 'saturated'])
    .nullable()
    .describe('Why it was not sent: a breaker was open, or no connection became free.'),
  cacheStatus: z.string().nullable(),
  durationMs: z.number(),
  queueMs: partOfTime.describe('It waited for a connection.'),
  upstreamMs: partOfTime.describe(
    'From the sending to the head of the answer; without one, until the upstream failed or the request ended.',
  ),
  transferMs: partOfTime.describe('From the head to the last byte of the answer.'),
  ownMs: partOfTime.describe('All else; null: it waited for the call of another request.'),
  requestId: z.string(),
  client: z.string().describe('The client’s address, masked.'),
  application: z.string(),
  why: z.string(),
})

export const status = z
  .object({
    version: z.string(),
    mode: z.enum(['SANDBOX', 'LIVE']),
    now: z.number().describe('Milliseconds since the epoch.'),
    outages: z.array(outage).describe('What is wrong now.'),
    savings,
    uptimeMs: z.number(),
    ready: z.boolean(),
    upstreams: z.array(upstreamState),
    clock: z
      .object({
        estimateMs: z.number(),
        lowMs: z.number().nullable(),
        highMs: z.number().nullable(),
        unknown: z.boolean(),
      })
      .describe(
        'The provider’s clock less this one, and between what bounds it is known. Unknown: three answers came, and none had ' +
          'a Date that can be read.',
      ),
    degraded,
    store: z.object({ kind: z.enum(['memory', 'valkey']), up: z.boolean() }),
    cache: z.object({ entries: z.number(), bytes: z.number() }),
    ledger: z.object({ entries: z.number() }),
    journal: z.object({
      disk: z
        .object({
          ...journal,
          bytes: z.number(),
          syncedAtMs: z.number(),
          restored: z.number().describe('Records that were read at the start.'),
          setAside: z.number().describe('Files that were set aside and that nothing reads.'),
          failures: z.object({ open: z.number(), write: z.number(), sync: z.number() }),
        })
        .nullable()
        .describe('The folder of STATE_DIRECTORY; null where that is not set.'),
      stream: z
        .object({
          ...journal,
          behind: z.number().describe('Records of other replicas that are not read yet.'),
        })
        .nullable()
        .describe('What the replicas share; null without VALKEY_URL.'),
    }),
    coolDowns,
    inFlight: z.number(),
    slowest: z
      .object({
        area: z.string(),
        method: z.string(),
        status: z.number().describe('0: the client left, or the answer broke off.'),
        durationMs: z.number(),
        agoMs: z.number().describe('How long ago it ended.'),
        requestId: z.string().describe('Empty without full rights.'),
        traceId: z.string().nullable().describe('null: it was in no trace.'),
        sampled: z.boolean().describe('Whether its trace was recorded here.'),
      })
      .nullable()
      .describe('The slowest request of the last minute; null: there was none.'),
    access: z
      .enum(['full', 'reading'])
      .describe('reading: read-only and without request details, because ADMIN_TOKEN is not set.'),
    ordersRefused: z.number(),
    ordersReported: z
      .number()
      .describe('Sent, though their quotes had expired, because ORDER_EXPIRED_QUOTE is report.'),
    lastRefusals: z
      .array(refusal)
      .describe(
        'At most 50, refused or reported, the newest first. Without full rights they have no data of clients.',
      ),
    refusedByApplication: z
      .array(ordersOfApplication)
      .describe(
        'Float orders of the last hour, by applications of which some were refused or reported: at most 20, and the others in one sum whose application is null. Empty without full rights.',
      ),
    lastFailures: z
      .array(failedRequest)
      .describe('The last 50 requests that failed, the newest first. Empty without full rights.'),
    untrustedPeers: z.object({ count: z.number(), peers: z.array(z.string()) }),
    otherHeaderPeers: z
      .object({ count: z.number(), peers: z.array(z.string()), headers: z.array(z.string()) })
      .describe('Trusted proxies that sent another client-address header than CLIENT_IP_HEADER.'),
    settings: z
      .array(z.object({ name: z.string(), value: z.string(), source: z.string() }))
      .describe('The settings in effect, secrets masked.'),
  })
  .meta({ description: 'How the gateway is, for machines. Members may be added.' })
