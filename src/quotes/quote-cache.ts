import { type Clock, lookAt, type Now } from '../clock.ts'
import type { Events, Lookup } from '../events.ts'
import { currentSpan } from '../process/span.ts'
import { serveLeftMs } from './ends.ts'
import {
  Flight,
  failedByTime,
  failureByTime,
  type QuoteSource,
  type Share,
  type SharedAnswer,
} from './flight.ts'
import type { MemoryQuoteStore } from './memory-quote-store.ts'
import type { Patience } from './patience.ts'
import type { NotKeptReason } from './quote.ts'
import { isAnswerFor, type QuoteAnswer, whenNoted } from './quote-answer.ts'
import type { StoredQuote } from './quote-store.ts'

/** How one client came by its answer. */
export type Served =
  | { how: 'hit'; quote: StoredQuote }
  | { how: 'fetched' | 'collapsed'; answer: QuoteAnswer; notKept: NotKeptReason | undefined }

export interface Asking {
  served: Promise<Served>
  /** The client has left. When no client waits any more, the call is given up. */
  leave(): void
}

export interface QuoteCache {
  /** A quote from memory that is live at that moment. Only a hit is counted here; `getOrFetch` counts everything else. */
  live(key: string, at: Now): StoredQuote | undefined
  /** Whether quotes are replaced ahead of their expiry. */
  readonly refreshesAhead: boolean
  /** Whether a live quote is so close to its expiry that it is to be replaced in the background. */
  isRefreshDue(key: string, quote: StoredQuote): boolean
  refresh(key: string, quote: StoredQuote, source: QuoteSource): void
  /** A request is counted as what it finds first; with `again` it asked before, and was counted then. */
  getOrFetch(key: string, source: QuoteSource, options?: AskOptions): Asking
  /** For a request whose quote is shared with no other client. */
  fetchAlone(source: QuoteSource, options?: { again?: boolean }): Asking
}

export interface AskOptions {
  again?: boolean
  /** Now, if the caller has just looked. */
  at?: Now | undefined
  /** Of this client, the same at each of its requests. Without it, the client's time is not counted. */
  patience?: Pick<Patience, 'takeFurtherCall' | 'shareAfterRefusal' | 'hasTimeAfter'> | undefined
}

interface TakeOff {
  replaces?: StoredQuote
  /** In the table of flights. Default: the key, for all who ask. */
  entry?: string
  /** Whether another replica's call is waited for. */
  waits?: boolean
}

interface Waiting extends Pick<AskOptions, 'patience'> {
  how: 'fetched' | 'collapsed'
  source: QuoteSource
}

export interface QuoteCacheOptions {
  store: MemoryQuoteStore
  clock: Clock
  minValidityMs: number
  refreshAheadMs: number
  events: Events
  /** A quote that was ordered while its call was under way is not handed out again. */
  isUsed?(quote: StoredQuote): boolean
  /** Undefined: this is the only replica. */
  share?: Share | undefined
}

/** Quotes by key: from the store while they live, else fetched by one call for all clients who ask meanwhile. */
export function createQuoteCache(options: QuoteCacheOptions): QuoteCache {
  const { store, clock, events } = options
  const refreshesAhead = options.refreshAheadMs > 0
  const flights = new Map<string, Flight>()
  /** Quotes whose refresh was tried. Each has one try, or a failing upstream would be asked at every hit. */
  const refreshed = new WeakSet<StoredQuote>()
  /** How close to its expiry a quote is refreshed that a refresh brought. */
  const refreshWithinMs = new WeakMap<StoredQuote, number>()

  function find(key: string, at: Now): StoredQuote | undefined {
    const quote = store.get(key)
    if (quote === undefined) return undefined
    return serveLeftMs(quote.end, at) > options.minValidityMs ? quote : undefined
  }

  function live(key: string, at: Now): StoredQuote | undefined {
    const quote = find(key, at)
    if (quote !== undefined) countHit(key)
    return quote
  }

  function countHit(key: string): void {
    events.quoteLookedUp('hit')
    store.countHit(key)
  }

  function isRefreshDue(key: string, quote: StoredQuote): boolean {
    if (!refreshesAhead || refreshed.has(quote) || flights.has(key)) return false
    return serveLeftMs(quote.end, lookAt(clock)) < (refreshWithinMs.get(quote) ?? options.refreshAheadMs)
  }

  function refresh(key: string, quote: StoredQuote, source: QuoteSource): void {
    if (source.isRefused) return
    refreshed.add(quote)
    const flight = takeOff(key, source, { replaces: quote })
    flight.answer.then(
      (answer) => {
        const { stored } = answer
        const isKept = stored !== undefined && flight.notKept === undefined
        if (isKept) limitRefresh(stored)
        events.quoteRefreshed(!isKept ? 'failed' : 'found' in answer ? 'found' : 'stored')
      },
      () => events.quoteRefreshed('failed'),
    )
  }

  /** Refreshes are at least half a life apart: with quotes that live shorter than the setting, one would cause the next. */
  function limitRefresh(stored: StoredQuote): void {
    const halfLifeMs = serveLeftMs(stored.end, lookAt(clock)) / 2
    if (halfLifeMs < options.refreshAheadMs) refreshWithinMs.set(stored, halfLifeMs)
  }

  /** Looks for a flight and enters its own without an await between: two clients must never both find none. */
  function takeOff(
    key: string,
    source: QuoteSource,
    { replaces, entry = key, waits = true }: TakeOff = {},
  ): Flight {
    const begin = (signal: AbortSignal) => {
      const call = () => (replaces === undefined ? source.call(signal) : source.refresh())
      const waited = () => {
        flight.waited = true
      }
      return options.share?.(key, call, { known: replaces, waits, waited, signal }) ?? call()
    }
    const flight = new Flight(begin, {
      source,
      isRefresh: replaces !== undefined,
      takeOut() {
        if (flights.get(entry) === flight) flights.delete(entry)
      },
    })
    flights.set(entry, flight)
    flight.answer.then(
      (answer) => {
        flight.notKept = receive(key, source, answer)
        flight.land()
      },
      () => flight.land(),
    )
    return flight
  }

  function receive(key: string, source: QuoteSource, answer: SharedAnswer): NotKeptReason | undefined {
    if ('found' in answer) source.found(answer.stored)
    return keep(key, answer)
  }

  /** Returns why the answer was not kept. */
  function keep(key: string, answer: SharedAnswer): NotKeptReason | undefined {
    const { stored } = answer
    let reason: NotKeptReason | undefined = answer.notKept
    if (stored !== undefined) {
      if (options.isUsed?.(stored)) reason = 'used'
      else if (!store.set(key, stored)) reason = 'too-large'
    }
    if (reason !== undefined && !('found' in answer)) events.quoteNotKept(reason)
    return reason
  }

  function getOrFetch(key: string, source: QuoteSource, asked: AskOptions = {}): Asking {
    const { again = false, at = lookAt(clock), patience } = asked
    const count = again ? countNothing : (result: Lookup) => events.quoteLookedUp(result)
    const quote = find(key, at)
    if (quote !== undefined) {
      if (!again) countHit(key)
      if (isRefreshDue(key, quote)) refresh(key, quote, source)
      return { served: Promise.resolve({ how: 'hit', quote }), leave: () => {} }
    }
    const underWay = flights.get(key)
    if (underWay !== undefined) {
      count('collapsed')
      if (underWay.span !== undefined) currentSpan()?.linkTo(underWay.span)
      return waitFor(key, underWay, { how: 'collapsed', source, patience })
    }
    const result = store.get(key) === undefined ? 'miss' : 'expired'
    const flight = takeOff(key, source)
    if (options.share === undefined) count(result)
    else
      flight.answer.then(
        (answer) => count('found' in answer ? 'shared' : result),
        () => count(result),
      )
    return waitFor(key, flight, { how: 'fetched', source, patience })
  }

  function waitFor(key: string, flight: Flight, { how, source, patience }: Waiting): Asking {
    let left = false
    let leaveCall = () => flight.leave()
    flight.join()

    function waitInsteadFor({ served, leave }: Asking): Promise<Served> {
      leaveCall = leave
      return served
    }

    function onAnswer(answer: SharedAnswer): Served | Promise<Served> {
      if ('found' in answer) return { how: 'hit', quote: answer.stored }
      const { notKept } = flight
      if (left) return { how, answer, notKept }
      if (!isAnswerFor(source.asker, answer, flight.caller)) return askInstead()
      if (answer.shared) return { how, answer, notKept }
      // The answer is for one client alone: the first that is still here. Each other client asks for itself.
      if (flight.claim()) return { how: 'fetched', answer, notKept }
      const failure = failureByTime('the answer of the call that it waited for may not be shared')
      if (patience?.hasTimeAfter(failure) === false) throw failure
      return waitInsteadFor(callFor(source, (answered) => keep(key, answered)))
    }

    /**
     * After an answer that concerns another client alone. If that were the answer to all, one refused client that asks in
     * a loop would take a pair from all that share quotes with it. The first of the others makes a further call, which the
     * rest of them share, as after a call that failed by time. If that one is refused as well, each of them makes its own.
     */
    function askInstead(): Promise<Served> {
      const failure = failureByTime('the calls that it waited for were refused to other clients')
      if (patience?.hasTimeAfter(failure) === false) throw failure
      const isFirst = patience?.shareAfterRefusal() ?? false
      if (isFirst && !flight.waited) return waitInsteadFor(getOrFetch(key, source, { again: true, patience }))
      return waitInsteadFor(fetchOwn(key, source, patience))
    }

    /**
     * A client that joined a call late must not inherit its end. The first such client makes a further call and enters
     * it in the table; the next ones are called back in the same tick, and find it there.
     */
    function onFailure(error: Error): Promise<Served> {
      const hasJoined = how === 'collapsed' && !left
      if (!hasJoined || !failedByTime(error) || !patience?.takeFurtherCall(error)) throw error
      return waitInsteadFor(getOrFetch(key, source, { again: true, patience }))
    }

    return {
      served: flight.answer.then(onAnswer, onFailure),
      leave() {
        if (left) return
        left = true
        leaveCall()
      },
    }
  }

  function fetchAlone(source: QuoteSource, { again = false } = {}): Asking {
    if (!again) events.quoteLookedUp('bypass')
    return callFor(source, ({ notKept }) => {
      if (notKept !== undefined) events.quoteNotKept(notKept)
      return notKept
    })
  }

  /** Only requests of the same client in the same words join this call, but its quote is for all. */
  function fetchOwn(key: string, source: QuoteSource, patience: AskOptions['patience']): Asking {
    const quote = find(key, lookAt(clock))
    if (quote !== undefined) return { served: Promise.resolve({ how: 'hit', quote }), leave: () => {} }
    const { address, target } = source.asker
    // A key begins with no bracket.
    const entry = JSON.stringify([key, address, target])
    const underWay = flights.get(entry)
    if (underWay !== undefined) return waitFor(key, underWay, { how: 'collapsed', source, patience })
    const flight = takeOff(key, source, { entry, waits: false })
    return waitFor(key, flight, { how: 'fetched', source, patience })
  }

  function callFor(
    source: QuoteSource,
    onAnswer: (answer: QuoteAnswer) => NotKeptReason | undefined,
  ): Asking {
    const leaving = new AbortController()
    const toServed = (whole: QuoteAnswer): Served => ({
      how: 'fetched',
      answer: whole,
      notKept: onAnswer(whole),
    })
    const served = source.call(leaving.signal).then(whenNoted).then(toServed)
    return { served, leave: () => leaving.abort() }
  }

  return { live, refreshesAhead, isRefreshDue, refresh, getOrFetch, fetchAlone }
}

const countNothing = () => {}
