import { z } from 'zod'

export const shownCalls = z.object({
  traffic: z.enum(['quotes', 'orders', 'rest']),
  seconds: z.number().describe('How far the figures reach back: 50 to 60, or less after the start.'),
  callsPerSecond: z.number(),
  failedShare: z
    .number()
    .nullable()
    .describe('Of all requests, those that were not sent included; null: there was none.'),
  notSent: z.number().describe('Requests that a breaker refused, or that no connection became free for.'),
  p50Ms: z.number().nullable(),
  p95Ms: z.number().nullable(),
  lastError: z.object({ what: z.string(), at: z.number() }).nullable(),
})

export const outage = z.object({
  id: z.number(),
  what: z.enum([
    'upstream',
    'pairs',
    'slow',
    'store',
    'clock',
    'trust-proxy',
    'client-ip-header',
    'unknown-orders',
  ]),
  isSevere: z.boolean(),
  since: z
    .number()
    .describe(
      'When its first failure ended, in milliseconds since the epoch; of a slow upstream, the clock, TRUST_PROXY, CLIENT_IP_HEADER and unknown orders: when it was first seen.',
    ),
  until: z.number().nullable().describe('Null: it goes on.'),
  requests: z.number().describe('How many requests it has concerned since then; `concerned` says how.'),
  concerned: z.enum(['refused', 'forwarded', 'misplaced', 'none']),
  runbook: z.string().describe('The section of the runbook that says what to do.'),
  upstream: z.string().optional(),
  traffic: z
    .enum(['connections', 'orders', 'rest', 'quotes'])
    .optional()
    .describe(
      'What has stopped: with connections everything, else requests of one kind; of quotes, those of the pairs in `names`.',
    ),
  lastFailure: z.string().optional().describe('Such as `connection refused`, `503` or `timeout after 10 s`.'),
  retryInMs: z
    .number()
    .optional()
    .describe('Until a request may try; 0: the next one does; absent: one is trying, or nothing is tried.'),
  stillServed: z.array(z.string()).optional(),
  names: z
    .array(z.string())
    .optional()
    .describe(
      'The pairs that fail, or the peers whose client-address header is not read: 20 at most, none without the ADMIN_TOKEN.',
    ),
  howMany: z.number().optional().describe('Such pairs or peers.'),
  headers: z.array(z.string()).optional().describe('What these peers send in place of CLIENT_IP_HEADER.'),
  clientIpHeader: z.string().optional(),
  askedFor: z
    .number()
    .optional()
    .describe(
      'No quote has succeeded since the first failure: how many pairs were asked for. Absent: some have.',
    ),
  offsetMs: z.number().optional().describe('The provider’s clock less this one; absent: unknown.'),
  share: z.number().optional().describe('Of the float orders of 30 min: those forwarded as unknown.'),
  usualShare: z.number().optional().describe('The same over a day.'),
  p95Ms: z.number().optional().describe('Of a slow upstream: the p95 of its calls of the last ten minutes.'),
  usualP95Ms: z.number().optional().describe('The median of that figure over the last day.'),
})

export const savings = z
  .object({
    forMs: z.number().describe('A day, or less after the start.'),
    quotes: z.number(),
    callsSaved: z.number().describe('Quotes that took no call of their own to the provider.'),
    expiredOrdersStopped: z.number(),
    orders: z.number(),
    ordersMatched: z.number().describe('Float orders whose quote was found.'),
  })
  .describe('What the gateway has saved and stopped.')

const slots = z.object({
  slotMs: z.number(),
  slots: z.number().describe('How many are kept.'),
  last: z
    .number()
    .describe(
      'The number of the last slot, which may still grow; numbers go up by one a slot, from 0 at the start.',
    ),
  values: z
    .record(z.string(), z.array(z.number().nullable()))
    .describe('For each column a value a slot, the oldest first; null: nothing is known of it.'),
})

export const history = z
  .object({
    seconds: slots.describe('15 min by ten seconds.'),
    minutes: slots.describe('24 h by the minute.'),
    outages: z
      .array(
        outage.pick({
          id: true,
          what: true,
          upstream: true,
          traffic: true,
          since: true,
          until: true,
          isSevere: true,
        }),
      )
      .describe('The last 100 that are over.'),
    events: z
      .array(
        z.object({
          id: z.number(),
          at: z.number(),
          tone: z.enum(['good', 'warn', 'bad', 'note']),
          text: z.string(),
          replaces: z
            .number()
            .optional()
            .describe('The id of an earlier event that said the same of a moment before.'),
        }),
      )
      .describe('The last 200, the oldest first.'),
  })
  .meta({ description: 'What was kept since the start, whether a console was open or not.' })
