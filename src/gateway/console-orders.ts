import type { ApplicationOf } from '../client/partition.ts'
import type { Clock } from '../clock.ts'
import { maskedAddress } from '../http/ip-address.ts'
import type { Activity } from '../operations/activity.ts'
import type { CountedOrder } from '../operations/orders-by-application.ts'
import type { ConsideredQuote, RefusedOrder } from '../operations/refused-order.ts'
import type { Considered } from '../orders/guard.ts'
import type { DecidedOrder, FloatOrderDecision } from '../routes/order-decisions.ts'
import { reasonOf } from '../routes/order-problems.ts'

const maxQuotes = 5

interface ConsoleOrdersParts {
  activity: Activity
  applicationOf: ApplicationOf
  clock: Clock
}

const shownDecisions: ReadonlySet<FloatOrderDecision> = new Set([
  'refused-expired',
  'refused-unknown',
  'reported-expired',
])

/** Counts decided orders for the console, and passes it those that were refused or reported. */
export function createConsoleOrders(parts: ConsoleOrdersParts): (decided: DecidedOrder) => void {
  const { activity, applicationOf, clock } = parts
  return (decided) => {
    const nowMs = clock.nowMs()
    const application = short(applicationOf(decided.exchange.request.rawHeaders) ?? '')
    activity.ordersByApplication.count(application, countedAs(decided), nowMs)
    if (shownDecisions.has(decided.decision))
      activity.orderRefused(refusedOrder(decided, { application, nowMs }))
  }
}

function countedAs({ decision, verdict }: DecidedOrder): CountedOrder {
  if (decision === 'refused-unknown') return { state: 'unknown' }
  if (verdict.state !== 'expired') return { state: 'sent' }
  const lateMs = Math.round(verdict.expiredForMs)
  return { state: decision === 'reported-expired' ? 'reported' : 'expired', lateMs }
}

function refusedOrder(
  { order, exchange, verdict, decision, considered }: DecidedOrder,
  { application, nowMs }: { application: string; nowMs: number },
): RefusedOrder {
  const expired = verdict.state === 'expired' ? verdict : undefined
  const { pair, fromAmount, toAmount, quoteIds } = order
  const candidates = considered?.() ?? []
  const shown = candidates.map((candidate) => shownQuote(candidate, candidate.quote === expired?.quote))
  shown.sort((left, right) => Number(right.decided) - Number(left.decided) || left.lateMs - right.lateMs)
  return {
    at: nowMs,
    reason: expired === undefined ? 'unknown' : 'expired',
    sent: decision === 'reported-expired',
    rule: verdict.rule,
    why: reasonOf(verdict, true),
    pair: short(expired?.quote.pairId ?? pair ?? ''),
    amount: short(fromAmount?.text ?? ''),
    toAmount: toAmount === undefined ? null : toAmount === 'unreadable' ? toAmount : short(toAmount.text),
    quoteIds: quoteIds.map(({ id }) => short(id)),
    application,
    client: maskedAddress(exchange.client.address),
    quoteId: expired?.quote.id ?? null,
    quoteAgeMs: expired === undefined ? null : Math.max(0, nowMs - expired.quote.notedAtMs),
    expiredForMs: expired === undefined ? null : Math.round(expired.expiredForMs),
    quotes: shown.slice(0, maxQuotes),
    quotesConsidered: shown.length,
    requestId: exchange.id,
  }
}

function shownQuote({ quote, leftMs, isOwn }: Considered, decided: boolean): ConsideredQuote {
  const { id, fromValue, toValue } = quote
  return {
    id,
    amount: short(fromValue),
    toAmount: short(toValue),
    lateMs: Math.round(-leftMs),
    isOwn,
    decided,
  }
}

/** Cuts what a client may have made long, so that a row of the console stays a row. */
export function short(text: string): string {
  return text.length <= 200 ? text : `${text.slice(0, 200)}…`
}
