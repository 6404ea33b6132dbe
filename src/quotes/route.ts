import { type Clock, lookAt, type Now } from '../clock.ts'
import type { Lookup } from '../events.ts'
import { ClientGone } from '../http/failure.ts'
import { Problem } from '../http/problem.ts'
import type { Exchange } from '../server/exchange.ts'
import type { RateLimit } from '../server/rate-limit.ts'
import { fetchWhole, type WholeAnswer } from '../upstream/fetch.ts'
import type { Upstream } from '../upstream/upstream.ts'
import { QuoteWriter } from './answer.ts'
import type { QuoteCache } from './cache.ts'
import { serveLeftMs } from './ends.ts'
import { statedInError } from './error-body.ts'
import {
  expiredQuotes,
  Flight,
  failedByTime,
  furtherCallReasons,
  WaitingRequest,
} from './flight.ts'
import type { Look, QuoteHolds, QuoteNotes, SharedQuotes, Turn } from './ports.ts'
import { type PriceKind, quotes } from './price-kinds.ts'
import { type ProviderLimit, readWait, wasNotSentForLimit } from './provider-limit.ts'
import {
  AnswerReader,
  type AnswerReaderParts,
  endOf,
  notKept,
  type ProviderAnswer,
  type Quote,
  type QuoteAnswer,
} from './quote.ts'
import {
  type QuoteRequest,
  QuoteRequestReader,
  type RequestReaderParts,
} from './request.ts'

interface QuoteRouteParts extends RequestReaderParts, AnswerReaderParts {
  config: {
    quotes: {
      keyHeaders: readonly string[]
      partition: { mode: string; placeHeaders: readonly string[] }
      maxBytes: number
    }
    client: { ipHeader: string }
    upstream: { totalTimeoutMs: number }
  }
  clock: Clock
  upstream: Pick<Upstream, 'name' | 'call'>
  cache: QuoteCache
  notes: QuoteNotes
  holds: QuoteHolds
  providerLimit: Pick<ProviderLimit, 'leftMs' | 'check' | 'begin' | 'endWhole'>
  rateLimit: RateLimit | undefined
  /** Undefined: this is the only replica. */
  sharedQuotes: SharedQuotes | undefined
}

type Missed = Exclude<Lookup, 'hit'>

/** The request that a call is made for. */
interface CallCause {
  readonly exchange: Exchange
  readonly request: QuoteRequest
  /** How the request is counted, unless another replica has the quote. Undefined: it was counted before. */
  readonly countAs?: Missed | undefined
  /** The quote that a refresh replaces. Undefined: the call is for requests that wait. */
  readonly replaces?: Quote
}

/** How many quotes a request tries to get, if each expires too soon. */
const maxTries = 3

/** GET and HEAD /v3/pairs/:pairId/quotes. */
export class QuoteRoute {
  readonly #parts: QuoteRouteParts
  readonly #priceKind: PriceKind
  readonly #requestReader: QuoteRequestReader
  readonly #reader: AnswerReader
  readonly #writer: QuoteWriter

  /** `priceKind`: quotes, or rates with SHARE_RATES. */
  constructor(parts: QuoteRouteParts, priceKind: PriceKind = quotes) {
    const { keyHeaders, partition } = parts.config.quotes
    const placeHeaders = partition.mode === 'header' ? partition.placeHeaders : []
    this.#parts = parts
    this.#priceKind = priceKind
    this.#requestReader = new QuoteRequestReader(parts, priceKind)
    this.#reader = new AnswerReader(parts, priceKind.readBody)
    this.#writer = new QuoteWriter(
      [...keyHeaders, parts.config.client.ipHeader, ...placeHeaders],
      parts.events,
    )
  }

  /** Answers at once if the quote is in memory. */
  answer(exchange: Exchange): void | Promise<void> {
    const { cache, clock } = this.#parts
    const request = this.#requestReader.read(exchange)
    this.#parts.holds.refuse(holdableOf(request))
    // One look decides whether the quote is live and how much time it has left.
    const at = lookAt(clock)
    const quote = cache.hit(request.key, at)
    if (quote === undefined) return this.#answerAfterCall(exchange, request)
    this.#answerHit(exchange, request, quote, at, 'hit')
  }

  #answerHit(
    exchange: Exchange,
    request: QuoteRequest,
    quote: Quote,
    at: Now,
    countAs?: 'hit',
  ): void {
    const isRefreshDue =
      request.key !== undefined && this.#parts.cache.isRefreshDue(request.key, at)
    this.#writer.hit(exchange, quote, request, at, countAs)
    if (isRefreshDue) void this.#refresh(exchange, request, quote)
  }

  /**
   * Joins the call of the key, or makes one. If the call fails for another request's reason, or its quote ends too
   * soon, a further call is waited for while the request's own time lasts.
   */
  async #answerAfterCall(exchange: Exchange, request: QuoteRequest): Promise<void> {
    const { cache, clock, config, events, holds } = this.#parts
    const leftMs =
      config.upstream.totalTimeoutMs - (performance.now() - exchange.startedAtMs)
    const waiting = new WaitingRequest(exchange.response, leftMs, clock.timers)
    const holdable = holdableOf(request)
    const stopHearingHolds = holds.whenHeld(holdable, (problem) => waiting.leave(problem))
    /** A request is counted once, by its first look at the cache. */
    let countAs: Missed | undefined = cache.missOf(request.key)
    /** The key of its call in `cache.flights`. Undefined: no other request joins it. */
    let entry = request.key
    let tries = 1
    exchange.misses()
    try {
      for (;;) {
        const underWay = entry === undefined ? undefined : cache.flights.get(entry)
        if (underWay !== undefined && countAs !== undefined)
          events.quoteLookedUp('collapsed')
        if (underWay?.span !== undefined) exchange.span?.linkTo(underWay.span)
        const flight =
          underWay ?? this.#startFlight(entry, { exchange, request, countAs })
        countAs = undefined
        const answer = await waiting.waitFor(flight).catch((failure: Error) => failure)
        holds.refuse(holdable)
        const at = lookAt(clock)
        const hasJoined = underWay !== undefined
        const old = cache.live(request.key, at)
        if (old !== undefined && broughtNothingBetter(answer, { flight, request, at }))
          return this.#writer.old(exchange, old, request, at, { answer, hasJoined })
        const notFor =
          answer instanceof Error ? undefined : flight.whyNotFor(request, answer)
        if (answer instanceof Error) {
          this.#furtherCallAfter(answer, waiting, { exchange, request, hasJoined })
          entry = request.key
        } else if (notFor !== undefined) {
          // A refused user who asks in a loop must not block the pair for all who share its quotes. The others share
          // one further call; if that is refused too, each makes its own.
          waiting.furtherCallOrThrow(furtherCallReasons[notFor])
          entry =
            waiting.joinedAfterRefusal || flight.waited ? ownEntry(request) : request.key
          waiting.joinedAfterRefusal = true
        } else if (isForOne(answer) && flight.isTaken) {
          waiting.furtherCallOrThrow(furtherCallReasons.notShareable)
          entry = undefined
        } else if (isOver(answer, at)) {
          if (tries === maxTries) {
            const detail = `${expiredQuotes(tries)} sent to this caller. Request the quote again.`
            throw new Problem('quote-expired-waiting', { detail })
          }
          waiting.furtherCallOrThrow(furtherCallReasons.expired(tries))
          tries += 1
          entry = request.key
        } else if (answer.kind === 'found')
          return this.#writer.hit(exchange, answer.quote, request, at)
        else {
          flight.isTaken = true
          const how = hasJoined && !isForOne(answer) ? 'collapsed' : 'fetched'
          return this.#writer.fresh(exchange, answer, how, request, at)
        }
        const quote = cache.hit(request.key, at)
        if (quote !== undefined) return this.#answerHit(exchange, request, quote, at)
      }
    } finally {
      stopHearingHolds()
      waiting.end()
    }
  }

  /** Rethrows a failure that is this request's as well. Otherwise the request waits for a further call. */
  #furtherCallAfter(
    failure: Error,
    waiting: WaitingRequest,
    {
      exchange,
      request,
      hasJoined,
    }: { exchange: Exchange; request: QuoteRequest; hasJoined: boolean },
  ): void {
    if (hasJoined && failedByTime(failure) && !waiting.tookFurtherCall) {
      // Requests that joined late share one further call.
      waiting.furtherCallOrThrow(furtherCallReasons.timedOut, failure)
      waiting.tookFurtherCall = true
      return
    }
    const { providerLimit, rateLimit } = this.#parts
    const isNotOwnLimit =
      (wasNotSentForLimit(failure) && providerLimit.leftMs(request) === 0) ||
      rateLimit?.isOthers(exchange, failure) === true
    if (!isNotOwnLimit) throw failure
    // The further call is counted for this request. The loop ends, because each round answers all who share a limit.
    waiting.furtherCallOrThrow(furtherCallReasons.limitOfOther)
  }

  /**
   * Replaces a quote before its end. The hit that causes it does not wait; a request that misses meanwhile joins it. Its
   * failure counts as any other: at the pair's breaker, and a 429 at the provider's limit.
   */
  async #refresh(
    exchange: Exchange,
    request: QuoteRequest,
    replaces: Quote,
  ): Promise<void> {
    const { cache, events, providerLimit } = this.#parts
    if (request.key === undefined || providerLimit.leftMs(request) > 0) return
    cache.refreshes(request.key)
    try {
      const flight = this.#startFlight(request.key, { exchange, request, replaces })
      flight.join()
      const { kind } = await flight.answer
      events.quoteRefreshed(refreshOutcomes[kind])
    } catch {
      events.quoteRefreshed('failed')
    }
  }

  /** No `await` may come between looking for a call under way and this, or two requests each make one. */
  #startFlight(entry: string | undefined, cause: CallCause): Flight {
    const { flights } = this.#parts.cache
    const { request: caller, exchange } = cause
    const flight = new Flight(flights, { entry, caller, span: exchange.span })
    return flight.start(() => this.#fetch(flight, cause))
  }

  async #fetch(flight: Flight, cause: CallCause): Promise<QuoteAnswer> {
    const { cache, clock, events, notes, sharedQuotes } = this.#parts
    const { request, countAs, replaces } = cause
    const { key } = request
    const known = replaces ?? cache.live(key, lookAt(clock))
    let look: Look | undefined
    try {
      if (sharedQuotes !== undefined && key !== undefined && flight.entry !== undefined)
        look = await sharedQuotes.look(key, {
          flight,
          waits: flight.entry === key,
          known,
        })
      if (countAs !== undefined)
        events.quoteLookedUp(look?.kind === 'found' ? 'shared' : countAs)
      if (look?.kind === 'found') {
        notes.noteFound(look.quote, request)
        this.#keep(look.quote, cause)
        return look
      }
      if (look !== undefined) {
        flight.waited = look.waited
        this.#keepSpare(look.spare, request)
      }
      const whole = await this.#askProvider(cause, flight)
      return await this.#taken(whole, cause, look)
    } finally {
      if (look?.kind === 'turn') look.release()
      // Lands before the requests go on: one that needs a further call must not find a call that is over.
      flight.land()
    }
  }

  async #askProvider(
    { exchange, request, replaces }: CallCause,
    flight: Flight,
  ): Promise<WholeAnswer> {
    const { clock, config, events, holds, providerLimit, rateLimit, upstream } =
      this.#parts
    flight.throwIfLeft()
    // A refresh outlives the exchange that caused it.
    const times = replaces === undefined ? exchange.asksUpstream() : undefined
    providerLimit.check(request)
    // The call is under way before it is counted, so that others wait for it uncounted: a crowd that needs one call
    // would use up many limits.
    if (rateLimit !== undefined && replaces === undefined) await rateLimit.count(exchange)
    flight.throwIfLeft()
    const call = fetchWhole({
      upstream,
      clock,
      totalTimeoutMs: config.upstream.totalTimeoutMs,
      request: {
        method: 'GET',
        target: request.target,
        headers: this.#requestReader.headersOf(request, exchange),
        body: null,
        kind: this.#priceKind.kindOf(request.pair),
        cause: exchange,
        // For a refresh alone: a waiting request leaves its call by itself when it is held.
        recheckInMs: replaces && (() => neverIfHeld(holds, request)),
        times,
      },
    })
    flight.whenLeft(() => call.leave('no request waits any more'))
    await call.written()
    events.quoteCalled(request.pair)
    const head = await call.head()
    // At the head, because the rest of the answer may take long, or never come.
    if (head.status === 429) providerLimit.begin(request, readWait(head))
    const whole = await call.whole()
    // The body may ask for a longer wait.
    if (head.status === 429) providerLimit.begin(request, readWait(head, whole.body))
    return whole
  }

  async #taken(
    whole: WholeAnswer,
    cause: CallCause,
    turn: Turn | undefined,
  ): Promise<ProviderAnswer> {
    const { cache, clock, events, notes, providerLimit, sharedQuotes } = this.#parts
    const { request } = cause
    const at = lookAt(clock)
    const { answer, quote, lookalike } = this.#reader.read(
      whole,
      request.canonicalAmount,
      at,
    )
    if (quote !== undefined) providerLimit.endWhole(request)
    const noted = quote && notes.note(quote, request, at)
    const notedLookalike = lookalike && notes.noteUnreadable(lookalike, request)
    if (request.key !== undefined && quote !== undefined) {
      cache.takeEarlierEnd(request.key, quote, at)
      // The store may still have this quote from an earlier answer, with a later end.
      if (answer.kind !== 'quote') void sharedQuotes?.forget([request.key], quote.id)
    }
    // In one write with the note. Requests need not wait until the store has it.
    if (answer.kind === 'quote' && !notes.wasUsed(answer.quote)) turn?.put(answer.quote)
    // The quote is not served before every replica can judge an order for it. A store that is away is not waited for.
    if (noted !== undefined || notedLookalike !== undefined)
      await Promise.all([noted, notedLookalike])
    const why = answer.kind === 'quote' ? this.#keep(answer.quote, cause, at) : answer.why
    if (why === undefined) return answer
    const [code] = statedInError(whole.body, ['code'])
    events.quoteNotKept(why, whole.status, code)
    return answer.kind === 'quote'
      ? notKept(answer.received, { why, end: answer.quote.end })
      : answer
  }

  /** Keeps the quote in memory, or returns why not. */
  #keep(
    quote: Quote,
    { request, replaces }: CallCause,
    at = lookAt(this.#parts.clock),
  ): 'used' | 'too-large' | undefined {
    const { cache, notes } = this.#parts
    if (request.key === undefined) return undefined
    // An order may have used the quote while its call was under way.
    if (notes.wasUsed(quote)) return 'used'
    const isRefresh = replaces !== undefined
    return cache.keep(request.key, quote, at, { isRefresh }) ? undefined : 'too-large'
  }

  /** Keeps a quote for the requests that wait, in case the call brings nothing. */
  #keepSpare(spare: Quote | undefined, request: QuoteRequest): void {
    const { cache, clock, notes } = this.#parts
    if (spare === undefined || request.key === undefined || notes.wasUsed(spare)) return
    notes.noteFound(spare, request)
    cache.keep(request.key, spare, lookAt(clock))
  }
}

/** The part of a quote request that a hold is compared with. */
function holdableOf({ pair, application }: QuoteRequest) {
  return { pair, application, what: 'quote' } as const
}

function neverIfHeld(holds: QuoteHolds, request: QuoteRequest): number {
  holds.refuse(holdableOf(request))
  return Number.POSITIVE_INFINITY
}

const refreshOutcomes = { quote: 'stored', found: 'found', 'not-kept': 'failed' } as const

/** Whether only one of the waiting requests may have the answer. */
function isForOne(answer: QuoteAnswer): boolean {
  return answer.kind === 'not-kept' && !answer.isForAll
}

/** Whether the quote in the answer is over. */
function isOver(answer: QuoteAnswer, at: Now): boolean {
  const end = endOf(answer)
  return end !== undefined && serveLeftMs(end, at) <= 0
}

/** Whether the call brought nothing better than a live cached quote. */
function broughtNothingBetter(
  answer: QuoteAnswer | Error,
  { flight, request, at }: { flight: Flight; request: QuoteRequest; at: Now },
): boolean {
  if (answer instanceof Error) return !(answer instanceof ClientGone)
  if (answer.kind !== 'not-kept') return isOver(answer, at)
  const { status } = answer.received
  if (status === 408 || status === 429 || status >= 500) return true
  // A refused user gets the provider's refusal.
  return (
    isOver(answer, at) ||
    answer.why === 'expired' ||
    flight.whyNotFor(request, answer) !== undefined
  )
}

/**
 * Only requests from the same address with the same target share this call, but its quote is cached for all. `[` begins
 * no cache key.
 */
function ownEntry({ key, address, target }: QuoteRequest): string {
  return JSON.stringify([key, address, target])
}
