import type { Clock } from '../clock.ts'
import type { Events, Listener } from '../events.ts'
import { type OpenBreaker, UpstreamFailure } from '../http/failure.ts'
import { headerValues } from '../http/headers.ts'
import { maskedAddress } from '../http/ip-address.ts'
import { ownProblems, type Problem } from '../http/problem.ts'
import { shownTarget } from '../http/target.ts'
import { type Activity, type ErrorSource, isFailed, type SeenRequest } from './activity.ts'
import type { CountedOrder } from './orders-by-application.ts'
import type { ConsideredQuote, RefusedOrder } from './refused-order.ts'

type Seen<Name extends keyof Events> = Parameters<Events[Name]>
type Exchange = Seen<'requestEnded'>[0]
type FloatOrder = Seen<'orderDecided'>[2]

export interface ConsoleListenerOptions {
  activity: Activity
  clock: Clock
  /** App-Name as the swap upstream sees it. */
  applicationOf(rawHeaders: readonly string[]): string | undefined
  /** Looks for outages at once. */
  look(): void
}

const maxQuotes = 5

/** Passes on to the console what it shows: failed requests, and while one is open every other; decided orders. */
export class ConsoleListener implements Listener {
  readonly #options: ConsoleListenerOptions
  /** Of the requests that were passed on. */
  #number = 0
  /** Requests that were answered with an error because a breaker was open. */
  readonly #refusals = new Map<string, number>()

  constructor(options: ConsoleListenerOptions) {
    this.#options = options
  }

  requestEnded(...[exchange, status, durationMs]: Seen<'requestEnded'>): void {
    const { activity, clock } = this.#options
    const hasFailed = isFailed(status)
    const { isWatched } = activity
    if (!isWatched && !hasFailed) return
    if (isWatched) activity.requestOver()
    const isListed = isWatched && activity.hasRoom(status)
    if (!hasFailed && !isListed) return
    this.#number += 1
    const is = { number: this.#number, at: clock.nowMs(), status, durationMs: rounded(durationMs) }
    const request = seen(exchange, durationMs, is)
    if (hasFailed) activity.failed.keep(request)
    if (isListed) activity.keep(request)
  }

  problemAnswered({ cause }: Problem): void {
    if (!(cause instanceof UpstreamFailure) || cause.breaker === undefined) return
    const key = `${cause.upstream} ${cause.breaker}`
    this.#refusals.set(key, this.refusals(cause.upstream, cause.breaker) + 1)
  }

  refusals(upstream: string, breaker: OpenBreaker): number {
    return this.#refusals.get(`${upstream} ${breaker}`) ?? 0
  }

  /** Each is counted; those that were refused or reported are shown. */
  orderDecided(...[exchange, decision, order]: Seen<'orderDecided'>): void {
    const { activity, applicationOf, clock } = this.#options
    const nowMs = clock.nowMs()
    const application = short(applicationOf(exchange.request.rawHeaders) ?? '')
    const isReported = decision === 'reported-expired'
    activity.ordersByApplication.count(application, countedAs(decision, order), nowMs)
    if (!isReported && !decision.startsWith('refused')) return
    const client = maskedAddress(exchange.client?.address)
    const of = { at: nowMs, sent: isReported, application, client, requestId: exchange.id }
    activity.orderRefused(refusedOrder(order, of))
  }

  breakerChanged(): void {
    this.#options.look()
  }

  journalAway(): void {
    this.#options.look()
  }
}

function seen(
  exchange: Exchange,
  durationMs: number,
  is: Pick<SeenRequest, 'number' | 'at' | 'status' | 'durationMs'>,
): SeenRequest {
  const { area, request, outcome, reading, problem, client } = exchange
  const { status } = is
  const { queueMs, upstreamMs, transferMs, ownMs } = exchange.timeSpent(durationMs)
  const passed = area !== 'none' && outcome === undefined && status !== 0
  const why = outcome !== undefined && 'why' in outcome ? outcome.why : ''
  const orNull = (ms: number | null) => (ms === null ? null : rounded(ms))
  return {
    ...is,
    method: request.method ?? '',
    route: area,
    path: short(shownTarget(reading) ?? ''),
    source: sourceOf(exchange, status),
    notSent: problem === 'breaker-open' ? 'breaker' : problem === 'saturated' ? 'saturated' : null,
    cacheStatus: outcome !== undefined && 'cacheStatus' in outcome ? outcome.cacheStatus : null,
    ...{ queueMs: orNull(queueMs), upstreamMs: orNull(upstreamMs) },
    ...{ transferMs: orNull(transferMs), ownMs: orNull(ownMs) },
    requestId: exchange.id,
    // The console shows the client only if a route has read it: reading it is counted, and may log a warning.
    client: maskedAddress(client?.address ?? request.socket.remoteAddress),
    application: short(headerValues(request.rawHeaders, 'app-name').join(', ')),
    why: passed ? 'Passed on to the upstream and answered by it.' : why,
  }
}

/** Who caused an error: for a 5xx as in the metric of server errors. */
function sourceOf({ problem }: Exchange, status: number): ErrorSource | null {
  if (!isFailed(status)) return null
  if (problem !== undefined && ownProblems.has(problem)) return 'gateway'
  // An answer that the upstream broke off.
  if (status === 0) return problem === undefined ? 'client' : 'provider'
  const isProvidersLimit = status === 429 && problem !== 'rate-limited'
  return status >= 500 || isProvidersLimit ? 'provider' : 'client'
}

function countedAs(decision: Seen<'orderDecided'>[1], { verdict }: FloatOrder): CountedOrder {
  if (decision === 'refused-unknown') return { state: 'unknown' }
  if (verdict.state !== 'expired') return { state: 'sent' }
  const lateMs = Math.round(verdict.expiredForMs)
  return { state: decision === 'reported-expired' ? 'reported' : 'expired', lateMs }
}

function refusedOrder(
  order: FloatOrder,
  of: Pick<RefusedOrder, 'at' | 'sent' | 'application' | 'client' | 'requestId'>,
): RefusedOrder {
  const { verdict, why, quoteAgeMs } = order
  const expired = verdict.state === 'expired' ? verdict : undefined
  const { pair, fromAmount, toAmount, quoteIds } = order.terms
  const shown = order.considered().map(({ quote, leftMs, isOwn }): ConsideredQuote => {
    const [amount, toAmount] = [short(quote.fromValue), short(quote.toValue)]
    const decided = quote === expired?.quote
    return { id: quote.id, amount, toAmount, lateMs: Math.round(-leftMs), isOwn, decided }
  })
  shown.sort((left, right) => Number(right.decided) - Number(left.decided) || left.lateMs - right.lateMs)
  return {
    ...of,
    reason: expired === undefined ? 'unknown' : 'expired',
    rule: verdict.rule,
    why,
    pair: short(expired?.quote.pairId ?? pair ?? ''),
    amount: short(fromAmount?.text ?? ''),
    toAmount: toAmount === undefined ? null : toAmount === 'unreadable' ? toAmount : short(toAmount.text),
    quoteIds: quoteIds.map(({ id }) => short(id)),
    quoteId: expired?.quote.id ?? null,
    quoteAgeMs: expired === undefined ? null : (quoteAgeMs ?? null),
    expiredForMs: expired === undefined ? null : Math.round(expired.expiredForMs),
    quotes: shown.slice(0, maxQuotes),
    quotesConsidered: shown.length,
  }
}

/** Cuts what a client may have made long, so that a row of the console stays a row. */
function short(text: string): string {
  return text.length <= 200 ? text : `${text.slice(0, 200)}…`
}

function rounded(ms: number): number {
  return Math.round(ms * 1_000) / 1_000
}
