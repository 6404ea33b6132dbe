import { z } from 'zod'
import { diskOperations } from '../events.ts'
import { upstreamNames } from '../http/upstreams.ts'
import { guardRules } from '../orders/guard.ts'

/**
 * What /status and /settings answer. The server's types and the OpenAPI document come from here, and tests check each
 * answer. The program has only the types.
 */

const count = z.number()
const orNull = z.number().nullable()
const number = (meaning: string) => z.number().describe(meaning)
const numberOrNull = (meaning: string) => orNull.describe(meaning)
const string = (meaning: string) => z.string().describe(meaning)
const boolean = (meaning: string) => z.boolean().describe(meaning)
const object = <Shape extends z.ZodRawShape>(meaning: string, shape: Shape) =>
  z.object(shape).describe(meaning)
const list = <Item extends z.ZodType>(meaning: string, item: Item) =>
  z.array(item).describe(meaning)
const oneOf = <const Value extends string>(meaning: string, values: readonly Value[]) =>
  z.enum(values).describe(meaning)
/** Members whose names say all. */
const each = <Of extends z.ZodType, Name extends string>(of: Of, ...names: Name[]) =>
  Object.fromEntries(names.map((name) => [name, of])) as Record<Name, Of>
const at = number('Milliseconds since the epoch.')
const clientStatus = number('0: the caller left, or the answer broke off.')
const counted = number(
  'Counted up: a request id may be the caller’s own, and come twice.',
)
const maskedAddress = string(
  'The user’s address, masked; where it was not read, as for payments, the peer’s.',
)

const shownCalls = z.object({
  traffic: z.enum(['quotes', 'orders', 'rest']),
  seconds: number('How far the figures reach back: 50 to 60, or less after the start.'),
  callsPerSecond: z.number(),
  failedShare: numberOrNull(
    'Of all requests, those that were not sent included; null: there was none.',
  ),
  notSent: number(
    'Requests that a breaker refused, or that no connection became free for.',
  ),
  ...each(orNull, 'p50Ms', 'p95Ms'),
  lastError: z
    .object({ what: string('Such as `503` or `timeout after 10 s`.'), at })
    .nullable(),
  notKept: object('Answers to quote calls that were not cached.', {
    answers: count,
    reason: string('The most frequent one, such as `429` or `its expiry is in seconds`.'),
  })
    .nullable()
    .describe('null: all were cached, or this is other traffic.'),
})

export const upstream = z.enum(upstreamNames)

export const outage = z.object({
  id: z.number(),
  what: z.enum([
    'upstream',
    'failing',
    'no-quotes',
    'pairs',
    'slow',
    'store',
    'disk',
    'clock',
    'trust-proxy',
    'client-ip-header',
    'no-client-header',
    'unknown-orders',
  ] as const),
  name: string('Such as `swap quotes`.'),
  says: string('What is wrong with it, in words.'),
  text: string('The sentence of the page and of the events, which has both.'),
  isSevere: z.boolean(),
  since: number(
    'Milliseconds since the epoch: when its first failure ended, or it was first seen.',
  ),
  requests: number(
    'How many requests it has concerned since then; `concerned` says how.',
  ),
  concerned: z.enum(['refused', 'forwarded', 'misplaced', 'none']),
  runbook: string(
    'The section of the runbook that says what to do, relative to /status.',
  ),
  upstream: upstream.optional(),
  failing: list(
    'The kinds of requests to the upstream that fail.',
    z.enum(['quotes', 'orders', 'rest']),
  ).optional(),
  lastFailure: string(
    'Such as `connection refused`, `503` or `timeout after 10 s`.',
  ).optional(),
  retryInMs: number(
    'Until a request may try; absent: one is trying, or nothing is tried.',
  ).optional(),
  stillServed: list(
    'What has succeeded since, and is not stopped.',
    z.string(),
  ).optional(),
  howMany: number(
    'Pairs that fail, or peers whose header with the user’s address is not read.',
  ).optional(),
  names: list('20 of them at most; none without the ADMIN_TOKEN.', z.string()).optional(),
  askedFor: number(
    'Pairs asked for since the first failure, if no quote has succeeded.',
  ).optional(),
  offsetMs: number('The provider’s clock less this one; absent: unknown.').optional(),
  share: number(
    'Of the calls of the last minute: those that failed; or of the float orders of 30 min: those forwarded as unknown.',
  ).optional(),
  usualShare: number('The same over a day.').optional(),
  p95Ms: number(
    'Of a slow upstream: the p95 of its calls of the last ten minutes.',
  ).optional(),
  usualP95Ms: number(
    'The median of that figure over the last day; absent: not known before an hour has passed.',
  ).optional(),
})

export const pastOutage = z.object({
  what: outage.shape.what,
  since: outage.shape.since,
  until: at,
})

export const savings = object('What the gateway has saved and stopped since its start.', {
  ...each(count, 'quotes', 'orders', 'expiredOrdersStopped'),
  callsSaved: number('Quotes that took no call of their own to the provider.'),
  ordersMatched: number('Float orders whose quote was found.'),
})

const column = z.array(count)
export const sparklines = object(
  'The last 15 min, a value a slot, the oldest first. The last slot still grows.',
  {
    slotMs: z.number(),
    ...each(column, 'requests', 'quotes', 'hits'),
    errors: column.describe('Calls to upstreams that failed.'),
    refused: column.describe('Float orders.'),
    inFlight: column.describe('The most within the slot.'),
    p95Ms: list(
      'Of answers to callers, over the minute that ends with the slot; null: there were none.',
      orNull,
    ),
  },
)

export const seenEvent = z.object({
  id: number('Goes up with each event.'),
  at,
  tone: z.enum(['good', 'warn', 'bad', 'note']),
  text: z.string(),
})

const breaker = z.object({
  name: oneOf('It stops, with connections, everything; else one kind.', [
    'connections',
    'orders',
    'rest',
  ]),
  state: z.enum(['closed', 'open', 'half-open']),
  retryAfterMs: number(
    'How long until one request may try; 0 while the breaker is closed.',
  ),
})

export const upstreamState = z.object({
  name: upstream,
  sandbox: z.boolean(),
  breakers: z.array(breaker),
  openPairs: number(
    'Pairs whose quotes keep failing, so that only a try is sent now and then.',
  ),
  ...each(count, 'inFlight', 'connectionsMost', 'queueMost'),
  connections: object(
    'Connections, and requests that wait for one.',
    each(count, 'busy', 'idle', 'waiting'),
  ),
  traffic: list('Of the last minute, by kind of traffic.', shownCalls),
})

const journal = {
  appended: number('Records since the start.'),
  waiting: number('Records that are not in it yet.'),
  skipped: number('What was read and is not a record, or is damaged.'),
  awaySinceMs: numberOrNull(
    'Since when it fails or hangs, by the clock; null: it does not.',
  ),
}

const hold = z.object({
  pair: z.string().nullable().describe('null: of all pairs.'),
  application: z.string().nullable().describe('null: of all applications.'),
  quotes: boolean('Quotes are held too, and not orders alone.'),
  reason: z.string(),
  since: at,
  until: at,
})

const coolDown = z.object({
  application: z.string(),
  address: string('Masked; `all addresses`: the application is limited as a whole.'),
  leftMs: z.number(),
})
const coolDowns = object(
  'Whom the provider answered with 429: not asked for quotes until its wait is over.',
  {
    clients: number('Applications at a user’s address whose quotes are not asked for.'),
    longestLeftMs: z.number(),
    shown: list('At most 20 of them.', coolDown),
  },
)

const consideredQuote = z.object({
  ...each(z.string(), 'id', 'amount', 'toAmount'),
  lateMs: number('Since its expiry; negative: it was live for so long still.'),
  isOwn: boolean('It was given to the user who orders.'),
  decided: boolean('The order was refused or reported because of this quote.'),
})

export const refusal = z.object({
  number: counted,
  at,
  reason: z.enum(['expired', 'unknown']),
  sent: boolean('Only reported, because ORDER_EXPIRED_QUOTE is report.'),
  rule: oneOf('The rule that decided; docs/orders.md explains each.', guardRules),
  why: string('The same in words.'),
  ...each(z.string(), 'pair', 'amount', 'application', 'requestId'),
  toAmount: z.string().nullable().describe('As the order states it.'),
  quoteIds: list('The quotes that the order names.', z.string()),
  client: maskedAddress,
  quoteId: z.string().nullable().describe('The quote that was too old.'),
  ...each(orNull, 'quoteAgeMs', 'expiredForMs'),
  quotes: list(
    'Five at most: the one that decided, then those that expired last.',
    consideredQuote,
  ),
  quotesConsidered: count,
})

const reported =
  'Sent, though their quotes had expired, because ORDER_EXPIRED_QUOTE is report.'
const ordersOfApplication = z.object({
  application: z.string().nullable().describe('null: all further applications.'),
  orders: count,
  expired: number('Refused, because their quotes had expired.'),
  unknown: number('Refused, because no quote seen here matches them.'),
  reported: number(reported),
  ...each(orNull, 'leastLateMs', 'mostLateMs'),
})

export const seenRequest = z.object({
  number: counted,
  at,
  ...each(z.string(), 'method', 'route', 'path', 'requestId', 'application'),
  why: z.string().optional(),
  status: clientStatus,
  source: oneOf('Who caused the error; absent: it did not fail.', [
    'provider',
    'gateway',
    'client',
  ]).optional(),
  notSent: oneOf('A breaker was open, or no connection was free.', [
    'breaker',
    'saturated',
  ]).optional(),
  cacheStatus: z.string().optional(),
  durationMs: z.number(),
  queueMs: number('It waited for a connection.').optional(),
  upstreamMs: number(
    'From the sending to the head of the answer, or else to its failure or end.',
  ).optional(),
  transferMs: number('From the head to the last byte of the answer.').optional(),
  ownMs: number(
    'All else; absent: it waited for the call of another request.',
  ).optional(),
  client: maskedAddress,
})

const clock = object('The provider’s clock less this one, and its bounds.', {
  ...each(orNull, 'lowMs', 'highMs'),
  estimateMs: z.number(),
  unknown: boolean('Three answers came, and none had a Date that can be read.'),
})

const journals = z.object({
  disk: object('The folder of STATE_DIRECTORY; null where that is not set.', {
    ...journal,
    bytes: count,
    syncedAtMs: z.number(),
    restored: number('Records that were read at the start.'),
    setAside: number('Files that were set aside and that nothing reads.'),
    failures: z.object(each(count, ...diskOperations)),
  }).nullable(),
  stream: object('What the replicas share; null without VALKEY_URL.', {
    ...journal,
    behind: number('Records of other replicas that are not read yet.'),
  }).nullable(),
})

const slowest = object('The slowest request of the last minute; null: there was none.', {
  area: z.string(),
  method: z.string(),
  status: clientStatus,
  durationMs: z.number(),
  agoMs: number('How long ago it ended.'),
  requestId: string('Empty without full rights.'),
  traceId: z.string().nullable().describe('null: it was in no trace.'),
  sampled: boolean('Whether its trace was recorded here.'),
}).nullable()

export const settings = list(
  'The settings in effect, secrets masked.',
  z.object(each(z.string(), 'name', 'value', 'source', 'meaning')),
)

const peers = { count, peers: z.array(z.string()) }

export const shownQuote = z.object({
  ...each(z.string(), 'id', 'pair', 'amount', 'toAmount', 'toAsset'),
  ...each(z.number(), 'hits', 'leftMs', 'lifeMs'),
  drift: number(
    'From the previous quote of the same key, as a share of its price; absent: there was none.',
  ).optional(),
})

const refusedByApplication = list(
  'Of the last hour: at most 20 that had orders refused or reported, and the others in one. Empty without full rights.',
  ordersOfApplication,
)

export const status = object(
  'How the gateway is: what the console draws, and machines may read. Members may be added.',
  {
    version: z.string(),
    mode: z.enum(['SANDBOX', 'LIVE']),
    now: at,
    uptimeMs: z.number(),
    ready: z.boolean(),
    degraded: boolean(
      'Whether the shared store or its journal cannot be used; no request fails for it.',
    ),
    access: oneOf('reading: read-only, and without request details.', [
      'full',
      'reading',
    ]),
    needsToken: boolean('Whether the ADMIN_TOKEN gives full rights.'),
    outages: list('What is wrong now.', outage),
    pastOutages: list('The last 20 that are over, the newest last.', pastOutage),
    events: list('The last 50, newest first.', seenEvent),
    upstreams: z.array(upstreamState),
    recent: z.object({
      p95Ms: orNull,
      seconds: number('How far the p95 reaches back.'),
      requestsPerSecond: number('Over the last ten to twenty seconds.'),
    }),
    sparklines,
    savings,
    clock,
    store: z.object({ kind: z.enum(['memory', 'valkey']), up: z.boolean() }),
    cache: z.object(each(count, 'entries', 'bytes')),
    ledger: z.object({ entries: count }),
    journal: journals,
    holds: list('What operators hold.', hold),
    coolDowns,
    inFlight: count,
    slowest,
    quotes: list('Live ones, at most 80, those with the most hits first.', shownQuote),
    ordersRefused: count,
    ordersReported: number(reported),
    lastRefusals: list(
      'The last 50, newest first. Without full rights they have no data of users.',
      refusal,
    ),
    refusedByApplication,
    lastRequests: list(
      'The last 100, newest first; up to 50 that failed stay longer than others. At most 60 a second of either kind are listed. Empty without full rights.',
      seenRequest,
    ),
    untrustedPeers: z.object(peers),
    otherHeaderPeers: z.object({ ...peers, headers: z.array(z.string()) }),
    faults: z
      .record(z.string(), z.unknown())
      .nullable()
      .describe('Of the sandbox; null without one, and without full rights.'),
    traffic: object('Where trials of the console go.', {
      url: z.string().nullable(),
      clientIpHeader: z.string(),
      loopbackTrusted: z.boolean(),
    }),
  },
)

export type Outage = z.infer<typeof outage>
export type PastOutage = z.infer<typeof pastOutage>
export type Sparklines = z.infer<typeof sparklines>
export type SeenEvent = z.infer<typeof seenEvent>
export type SeenRequest = z.infer<typeof seenRequest>
export type SeenRefusal = z.infer<typeof refusal>
export type OrdersOfApplication = z.infer<typeof ordersOfApplication>
export type Status = z.infer<typeof status>
export type Settings = z.infer<typeof settings>
