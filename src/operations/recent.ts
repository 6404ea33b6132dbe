import type { Clock } from '../clock.ts'
import type { Heard, Listener } from '../events.ts'
import { headerValues } from '../http/headers.ts'
import { maskedAddress } from '../http/ip-address.ts'
import { ownProblems } from '../http/problem.ts'
import { shownTarget } from '../http/target.ts'
import type { ShownHold } from '../memory/holds.ts'
import { cutText, roundedMs } from '../process/text.ts'
import { whatIsHeld } from './holds.ts'
import { OrdersByApplication } from './orders-by-application.ts'
import type {
  OrdersOfApplication,
  SeenEvent,
  SeenRefusal,
  SeenRequest,
} from './schemas.ts'

type EndedExchange = Heard<'requestEnded'>[0]
type RequestDetails = Omit<SeenRequest, 'number' | 'at'>

const maxRequests = 100
/** Up to this many failed requests stay longer than others. */
const maxFailures = 50
const maxRefusals = 50
const maxEvents = 50
/** Max listed a second, of failed requests and of others. In a flood, most are only counted. */
const maxPerSecond = 60
const maxQuotes = 5
const maxTextLength = 200
const maxEventLength = 300

/** What happened lately, newest first: the person on call opens the console after the event. */
export class Recent implements Listener {
  readonly #clock: Clock
  /** The number of the last request, refusal or event. */
  #number = 0
  readonly #listed = new ListedInSecond()
  readonly requests: SeenRequest[] = []
  readonly refusals: SeenRefusal[] = []
  readonly events: SeenEvent[] = []
  /** Orders that were sent for a quote that was used already, and their event. */
  #orderedAgain: { readonly orders: number; readonly event: number | undefined } = {
    orders: 0,
    event: undefined,
  }
  refusedTotal = 0
  /** Orders that were sent because of ORDER_EXPIRED_QUOTE=report. */
  reportedTotal = 0
  readonly #byApplication = new OrdersByApplication()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  requestEnded(...[exchange, status, durationMs]: Heard<'requestEnded'>): void {
    if (!this.#listed.hasRoom(this.#clock.steadyMs(), isFailed(status))) return
    const request = { ...this.#numbered(), ...seenRequest(exchange, status, durationMs) }
    this.requests.unshift(request)
    if (this.requests.length > maxRequests) this.#dropRequest()
  }

  /** Drops the oldest, but keeps up to `maxFailures` failed ones. */
  #dropRequest(): void {
    const failed = this.requests.filter(({ status }) => isFailed(status)).length
    const oldest =
      failed > maxFailures
        ? this.requests.length - 1
        : this.requests.findLastIndex(({ status }) => !isFailed(status))
    this.requests.splice(oldest, 1)
  }

  /** Counts each order, and shows refused and reported ones. */
  orderDecided(...[exchange, decision, order]: Heard<'orderDecided'>): void {
    const { judging, verdict } = order
    const lateMs = verdict.state === 'expired' ? Math.round(verdict.expiredForMs) : null
    this.#byApplication.count(
      judging.application,
      decision,
      lateMs,
      this.#clock.steadyMs(),
    )
    const sent = decision === 'reported-expired'
    if (!sent && !decision.startsWith('refused')) return
    if (sent) this.reportedTotal += 1
    else this.refusedTotal += 1
    const reason = lateMs === null ? 'unknown' : 'expired'
    const of = { client: maskedAddress(exchange.user?.address), requestId: exchange.id }
    putFirst(
      this.refusals,
      { ...this.#numbered(), sent, reason, ...of, ...shownOrder(order) },
      maxRefusals,
    )
  }

  #numbered(): { number: number; at: number } {
    this.#number += 1
    return { number: this.#number, at: this.#clock.nowMs() }
  }

  /** One event with the current number: a caller that sends all orders twice pushes no other events out. */
  quoteOrderedAgain(): void {
    const orders = this.#orderedAgain.orders + 1
    const subject = orders === 1 ? 'an order was' : `${orders} orders were`
    const text = `${subject} sent for a quote that an order of the same user had used: an Idempotency-Key prevents that`
    const event = this.addEvent('warn', text, this.#orderedAgain.event)
    this.#orderedAgain = { orders, event }
  }

  holdBegan(hold: ShownHold): void {
    this.addEvent('warn', `held: ${whatIsHeld(hold)}: ${hold.reason}`)
  }

  holdEnded(hold: ShownHold): void {
    this.addEvent('good', `no longer held: ${whatIsHeld(hold)}`)
  }

  /** `replaces`: an earlier event's id. The text has no request details. */
  addEvent(tone: SeenEvent['tone'], text: string, replaces?: number): number {
    const replaced = this.events.findIndex(({ id }) => id === replaces)
    if (replaced !== -1) this.events.splice(replaced, 1)
    const { number: id, at } = this.#numbered()
    putFirst(
      this.events,
      { id, at, tone, text: text.slice(0, maxEventLength) },
      maxEvents,
    )
    return id
  }

  get refusedByApplication(): OrdersOfApplication[] {
    return this.#byApplication.refused(this.#clock.steadyMs())
  }
}

/** Listed requests of the running second. */
class ListedInSecond {
  #second = 0
  #failed = 0
  #succeeded = 0

  hasRoom(steadyMs: number, hasFailed: boolean): boolean {
    const second = Math.floor(steadyMs / 1_000)
    if (second !== this.#second) {
      this.#second = second
      this.#failed = 0
      this.#succeeded = 0
    }
    if (hasFailed) this.#failed += 1
    else this.#succeeded += 1
    return (hasFailed ? this.#failed : this.#succeeded) <= maxPerSecond
  }
}

function putFirst<One>(list: One[], one: One, max: number): void {
  list.unshift(one)
  if (list.length > max) list.pop()
}

const isFailed = (status: number) => status >= 400 || status === 0

function seenRequest(
  exchange: EndedExchange,
  status: number,
  durationMs: number,
): RequestDetails {
  const { area, request, outcome, reading, problem, user } = exchange
  const { queueMs, upstreamMs, transferMs, ownMs } = exchange.timeSpent(durationMs)
  const passed = area !== 'none' && outcome === undefined && status !== 0
  const why = outcome !== undefined && 'why' in outcome ? outcome.why : undefined
  return {
    status,
    durationMs: roundedMs(durationMs),
    method: request.method ?? '',
    route: area,
    path: short(shownTarget(reading) ?? ''),
    source: sourceOf(exchange, status),
    notSent:
      problem === 'breaker-open'
        ? 'breaker'
        : problem === 'saturated'
          ? 'saturated'
          : undefined,
    cacheStatus:
      outcome !== undefined && 'cacheStatus' in outcome ? outcome.cacheStatus : undefined,
    queueMs: rounded(queueMs),
    upstreamMs: rounded(upstreamMs),
    transferMs: rounded(transferMs),
    ownMs: rounded(ownMs),
    requestId: exchange.id,
    // The console shows the user's address only if a route has read it: reading is counted, and may log a warning.
    client: maskedAddress(user?.address ?? request.socket.remoteAddress),
    application: short(headerValues(request.rawHeaders, 'app-name').join(', ')),
    why: passed ? 'Passed on to the upstream and answered by it.' : why,
  }
}

/** Who caused an error. A 5xx counts as in the metric of server errors. */
function sourceOf({ problem }: EndedExchange, status: number): SeenRequest['source'] {
  if (!isFailed(status)) return undefined
  if (problem === 'held') return 'gateway'
  if (problem !== undefined && ownProblems.has(problem)) return 'gateway'
  // With a problem, the upstream broke the answer off.
  if (status === 0) return problem === undefined ? 'client' : 'provider'
  const isProvidersLimit = status === 429 && problem !== 'rate-limited'
  return status >= 500 || isProvidersLimit ? 'provider' : 'client'
}

/** A float order, its verdict, and the quotes considered. */
export function shownOrder(order: Heard<'orderDecided'>[2]) {
  const { judging, verdict, why, quote, quoteAgeMs = null } = order
  const { pair = '', fromAmount, toAmount, quoteIds } = order.terms
  const quotes = order.considered().map(({ quote: one, leftMs, isOwn }) => ({
    id: one.id,
    amount: short(one.fromValue),
    toAmount: short(one.toValue),
    lateMs: Math.round(-leftMs),
    isOwn,
    decided: one === quote,
  }))
  quotes.sort(
    (left, right) =>
      Number(right.decided) - Number(left.decided) || left.lateMs - right.lateMs,
  )
  return {
    rule: verdict.rule,
    why,
    pair: short(quote?.pairId ?? pair),
    amount: short(fromAmount?.text ?? ''),
    toAmount:
      toAmount === undefined
        ? null
        : toAmount === 'unreadable'
          ? toAmount
          : short(toAmount.text),
    quoteIds: quoteIds.map(({ id }) => short(id)),
    application: judging.application,
    quoteId: quote?.id ?? null,
    quoteAgeMs,
    expiredForMs: verdict.state === 'expired' ? Math.round(verdict.expiredForMs) : null,
    quotes: quotes.slice(0, maxQuotes),
    quotesConsidered: quotes.length,
  }
}

const short = (text: string) => cutText(text, maxTextLength)
/** A time that does not apply is left out. */
const rounded = (ms: number | null) => (ms === null ? undefined : roundedMs(ms))
