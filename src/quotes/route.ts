import { once } from 'node:events'
import type { Clock, Now } from '../clock.ts'
import type { Events, Lookup, NotKeptReason } from '../events.ts'
import { ClientGone } from '../http/failure.ts'
import { foldPair } from '../http/fold-path.ts'
import { Problem } from '../http/problem.ts'
import { type Exchange, UpstreamTimes } from '../server/exchange.ts'
import { isAnothersRefusal, type RateLimit } from '../server/rate-limit.ts'
import { traceOf } from '../server/swap-headers.ts'
import { fetchWhole, type WholeAnswer } from '../upstream/fetch.ts'
import type { Upstream } from '../upstream/upstream.ts'
import { QuoteWriter } from './answer.ts'
import { type Ask, Asks, type AsksParts } from './ask.ts'
import type { QuoteCache } from './cache.ts'
import { serveLeftMs } from './ends.ts'
import { Flight, failedByTime, failureByTime, WaitingClient } from './flight.ts'
import type { QuoteNotes, QuoteOrLock, SharedQuotes } from './ports.ts'
import { isProviderLimit, type ProviderLimit, readRetryAfter } from './provider-limit.ts'
import { AnswerReader, QuoteAnswer, type StoredQuote } from './quote.ts'

interface QuoteRouteParts extends AsksParts {
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
  events: Events
  upstream: Pick<Upstream, 'name' | 'call'>
  cache: QuoteCache
  notes: QuoteNotes
  providerLimit: ProviderLimit
  rateLimit: RateLimit | undefined
  /** Undefined: this is the only replica. */
  sharedQuotes: SharedQuotes | undefined
}

/** Why and for whom a call is made. */
interface CallCause {
  readonly exchange: Exchange
  readonly ask: Ask
  /** What the exchange is counted as, unless another replica has the quote; undefined: it was counted before. */
  readonly lookup?: Lookup | undefined
  /** The quote that a refresh is to replace; undefined: clients wait for the call. */
  readonly replaces?: StoredQuote
}

/** How often a request asks, because its quote expired before it could be written. */
const maxAsks = 3

/** GET and HEAD /v3/pairs/:pairId/quotes: the path of a quote, from the request to the answer. */
export class QuoteRoute {
  readonly #parts: QuoteRouteParts
  readonly #asks: Asks
  readonly #reader: AnswerReader
  readonly #writer: QuoteWriter

  constructor(parts: QuoteRouteParts) {
    const { keyHeaders, partition } = parts.config.quotes
    const placeHeaders = partition.mode === 'header' ? partition.placeHeaders : []
    this.#parts = parts
    this.#asks = new Asks(parts)
    this.#reader = new AnswerReader(parts)
    this.#writer = new QuoteWriter(
      [...keyHeaders, parts.config.client.ipHeader, ...placeHeaders],
      parts.events,
    )
  }

  /** Answers at once if the quote is in memory. */
  answer(exchange: Exchange): void | Promise<void> {
    // In a mounted app an earlier answer on the same connection is not finished. A quote that waited for that would go
    // out unjudged, so it is looked for when its turn comes.
    if (exchange.response.socket === null) return this.#answerInTurn(exchange)
    return this.#answerNow(exchange, this.#asks.read(exchange))
  }

  async #answerInTurn(exchange: Exchange): Promise<void> {
    await once(exchange.response, 'socket')
    return this.answer(exchange)
  }

  #answerNow(exchange: Exchange, ask: Ask): void | Promise<void> {
    const { cache } = this.#parts
    const { key } = ask
    if (exchange.response.destroyed) return
    if (key === undefined) return this.#answerAfterCall(exchange, ask, 'bypass')
    // One moment decides whether the quote is live, and says what it has left.
    const at = this.#now()
    const quote = cache.hit(key, at)
    if (quote === undefined)
      return this.#answerAfterCall(exchange, ask, cache.get(key) === undefined ? 'miss' : 'expired')
    this.#answerHit(exchange, ask, quote, at)
  }

  #answerHit(exchange: Exchange, ask: Ask, quote: StoredQuote, at: Now): void {
    this.#writer.hit(exchange, quote, ask, at)
    if (ask.key !== undefined && this.#parts.cache.isRefreshDue(ask.key, at))
      void this.#refresh(exchange, ask, quote)
  }

  /**
   * Joins the call of the key, or makes one. What it gets may be the end of another client, or a quote that is over
   * before its turn. Then it asks again, as long as its own time lasts.
   */
  async #answerAfterCall(exchange: Exchange, ask: Ask, firstLookup: Lookup): Promise<void> {
    const { cache, clock, config, events } = this.#parts
    const leftMs = config.upstream.totalTimeoutMs - (performance.now() - exchange.startedAtMs)
    const client = new WaitingClient(exchange.response, leftMs, clock.timers)
    /** The request is counted as what it finds first. */
    let lookup: Lookup | undefined = firstLookup
    /** Of its call, in the table of those under way. Undefined: no other client joins it. */
    let entry = ask.key
    let asks = 1
    exchange.missed = true
    try {
      for (;;) {
        if (lookup === undefined && ask.key !== undefined) {
          const at = this.#now()
          const quote = cache.live(ask.key, at)
          if (quote !== undefined) return this.#answerHit(exchange, ask, quote, at)
        }
        const underWay = entry === undefined ? undefined : cache.flights.get(entry)
        if (underWay !== undefined && lookup !== undefined) events.quoteLookedUp('collapsed')
        if (underWay?.span !== undefined) exchange.span?.linkTo(underWay.span)
        const flight = underWay ?? this.#call(entry, { exchange, ask, lookup })
        lookup = undefined
        let answer: QuoteAnswer
        try {
          answer = await client.waitFor(flight)
        } catch (error) {
          this.#goOnOrThrow(error as Error, client, { exchange, ask, hasJoined: underWay !== undefined })
          entry = ask.key
          continue
        }
        const at = this.#now()
        if (!flight.isFor(ask, answer)) {
          // If one client's refusal were the answer to all, a refused client that asks in a loop would take a pair from
          // all that share quotes with it. The others share a further call; if that is refused as well, each makes its
          // own.
          client.goOnOrThrow(failureByTime('the calls that it waited for were refused to other clients'))
          entry = client.sharedAfterRefusal || flight.waited ? ownEntry(ask) : ask.key
          client.sharedAfterRefusal = true
        } else if (!answer.shared && !flight.claim()) {
          client.goOnOrThrow(failureByTime('the answer of the call that it waited for may not be shared'))
          entry = undefined
        } else if (answer.end !== undefined && serveLeftMs(answer.end, at) <= 0) {
          if (asks === maxAsks) throw expiredWaiting()
          client.goOnOrThrow(failureByTime(`${asks} quotes in a row expired before they could be written`))
          asks += 1
          entry = ask.key
        } else if (answer.found !== undefined) return this.#writer.hit(exchange, answer.found, ask, at)
        else {
          const how = underWay !== undefined && answer.shared ? 'collapsed' : 'fetched'
          return this.#writer.fresh(exchange, answer, how, ask, at)
        }
      }
    } finally {
      client.end()
    }
  }

  #now(): Now {
    const { clock } = this.#parts
    return { nowMs: clock.nowMs(), steadyMs: clock.steadyMs() }
  }

  /** Throws the failure of a call if it is the client's own end, too. */
  #goOnOrThrow(
    failure: Error,
    client: WaitingClient,
    { exchange, ask, hasJoined }: { exchange: Exchange; ask: Ask; hasJoined: boolean },
  ): void {
    if (hasJoined && failedByTime(failure) && !client.tookFurtherCall) {
      // It joined late, and shares one further call with the others that did.
      client.goOnOrThrow(failure)
      client.tookFurtherCall = true
      return
    }
    const mayCall =
      isProviderLimit(failure) && this.#parts.providerLimit.leftMs(this.#asks.callerOf(ask)) === 0
    if (!mayCall && !isAnothersRefusal(exchange, failure)) throw failure
    // A limit of another client refused the call. This ends: each such round answers at least that client.
    client.goOnOrThrow(failureByTime('the calls that it waited for were refused to others'))
  }

  /** Replaces a quote in the background, close to its end. */
  async #refresh(exchange: Exchange, ask: Ask, replaces: StoredQuote): Promise<void> {
    const { cache, events, providerLimit } = this.#parts
    if (ask.key === undefined || providerLimit.leftMs(this.#asks.callerOf(ask)) > 0) return
    cache.refreshes(ask.key)
    try {
      const flight = this.#call(ask.key, { exchange, ask, replaces })
      flight.join()
      const { found, notKept } = await flight.answer
      const outcome = found === undefined ? 'stored' : 'found'
      events.quoteRefreshed(notKept === undefined ? outcome : 'failed')
    } catch {
      events.quoteRefreshed('failed')
    }
  }

  /** Between the look for a call under way and this no `await` may be, or two clients find none. */
  #call(entry: string | undefined, cause: CallCause): Flight {
    const { flights } = this.#parts.cache
    const { ask: caller, exchange } = cause
    return new Flight(flights, { entry, caller, span: exchange.span }, (flight, signal) =>
      this.#fetch(flight, signal, cause),
    )
  }

  /** One call for all who wait for the flight. */
  async #fetch(flight: Flight, signal: AbortSignal, cause: CallCause): Promise<QuoteAnswer> {
    const { events, notes, providerLimit, rateLimit, sharedQuotes } = this.#parts
    const { exchange, ask, lookup, replaces } = cause
    const { entry } = flight
    const isRefresh = replaces !== undefined
    let held: QuoteOrLock | undefined
    try {
      if (sharedQuotes !== undefined && ask.key !== undefined && entry !== undefined) {
        held = await sharedQuotes.quoteOrLock(ask.key, { signal, waits: entry === ask.key, known: replaces })
        flight.waited = held.waited
      }
      if (lookup !== undefined) events.quoteLookedUp(held?.quote === undefined ? lookup : 'shared')
      if (held?.quote !== undefined) {
        notes.noteFound(held.quote, ask)
        const found = QuoteAnswer.found(held.quote)
        found.notKept = this.#keep(ask.key, held.quote, this.#now(), isRefresh)
        return found
      }

      refuseIfAllHaveLeft(signal)
      const times = new UpstreamTimes()
      if (!isRefresh) exchange.times = times
      providerLimit.check(this.#asks.callerOf(ask))
      // The call is under way before it is counted, so that other clients wait for it instead of being counted
      // themselves: a crowd that needs one call would use up the limits of many.
      if (rateLimit !== undefined && !isRefresh) await rateLimit.count(exchange)
      refuseIfAllHaveLeft(signal)
      const whole = await this.#callProvider(cause, signal, times)
      const at = this.#now()
      const answer = this.#reader.read(whole, ask.canonicalAmount, at)

      const noted = this.#note(answer, ask, at)
      // In one write with the note. Clients need not wait for the store to have it.
      if (held !== undefined && answer.stored !== undefined && !notes.wasUsed(answer.stored))
        held.put(answer.stored)
      // No client has it before every replica can judge an order for it.
      await noted
      answer.notKept ??= this.#keep(ask.key, answer.stored, at, isRefresh)
      if (answer.notKept !== undefined) events.quoteNotKept(answer.notKept)
      return answer
    } finally {
      held?.release()
      // Before its clients hear of it: those that ask again find no call that is over.
      flight.land()
    }
  }

  #callProvider(
    { exchange, ask }: CallCause,
    signal: AbortSignal,
    times: UpstreamTimes,
  ): Promise<WholeAnswer> {
    const { clock, config, events, providerLimit, upstream } = this.#parts
    return fetchWhole({
      upstream,
      clock,
      totalTimeoutMs: config.upstream.totalTimeoutMs,
      request: {
        kind: { quoteOf: foldPair(ask.pair) },
        method: 'GET',
        target: ask.target,
        headers: this.#asks.headersOf(ask, exchange),
        body: null,
        trace: traceOf(exchange, true),
      },
      signal,
      times,
      // Counted here, so that neither an open breaker nor a second try counts.
      sent() {
        if (times.sentAtMs === undefined) events.quoteCalled(ask.pair)
      },
      answerBegan: ({ status, rawHeaders, receivedAtMs }) => {
        if (status !== 429) return
        providerLimit.begin(this.#asks.callerOf(ask), readRetryAfter(rawHeaders, receivedAtMs))
      },
    })
  }

  #note({ given, lookalike }: QuoteAnswer, ask: Ask, at: Now): Promise<void> | void {
    const { notes } = this.#parts
    if (given !== undefined) return notes.note(given, ask, at)
    if (lookalike !== undefined) return notes.noteUnreadable(lookalike, ask)
  }

  /** Returns why the quote is not in memory; undefined also for a client that shares none. */
  #keep(
    key: string | undefined,
    quote: StoredQuote | undefined,
    at: Now,
    isRefresh: boolean,
  ): NotKeptReason | undefined {
    if (key === undefined || quote === undefined) return undefined
    // An order may have used it while its call was under way.
    if (this.#parts.notes.wasUsed(quote)) return 'used'
    return this.#parts.cache.keep(key, quote, at, { isRefresh }) ? undefined : 'too-large'
  }
}

/**
 * Requests of the same client in the same words alone share this call, but its quote is for all. A key begins with no
 * bracket.
 */
function ownEntry({ key, address, target }: Ask): string {
  return JSON.stringify([key, address, target])
}

function refuseIfAllHaveLeft(signal: AbortSignal): void {
  if (signal.aborted)
    throw new ClientGone('every client that waited for this quote has left', { maybeSeen: false })
}

function expiredWaiting(): Problem {
  return new Problem('quote-expired-waiting', {
    detail: `${maxAsks} quotes in a row expired before they could be sent to this client. Request the quote again.`,
  })
}
