import type { MemoryQuoteStore } from './memory-quote-store.ts'
import type { ProviderClock } from './provider-clock.ts'
import { isExpired } from './quote.ts'
import type { QuoteAnswer } from './quote-answer.ts'
import type { StoredQuote } from './quote-store.ts'

/** A call to the upstream that can be given up. */
export interface Call {
  answer: Promise<QuoteAnswer>
  abort(): void
}

/** Makes the call, when one is needed. */
export interface MakeCall {
  (): Call
  /** Told instead when another replica has made it. */
  onFound?: ((quote: StoredQuote) => void) | undefined
}

/** What a call brought: an answer of the upstream, or a quote that another replica has fetched. */
export type SharedAnswer = QuoteAnswer | { found: true; stored: StoredQuote; notKept: undefined }

export interface SharedCall {
  answer: Promise<SharedAnswer>
  abort(): void
}

/** Makes one call of what several replicas call. `known`: the quote that a refresh is to replace. */
export type Share = (key: string, call: () => Call, known: StoredQuote | undefined) => SharedCall

/** How one caller came by its answer. */
export type Served =
  | { how: 'hit'; quote: StoredQuote }
  | { how: 'fetched' | 'collapsed'; answer: QuoteAnswer }

export interface Asking {
  served: Promise<Served>
  /** The caller has left: it waits no longer, and if nobody does, the call is given up. */
  leave(): void
}

export type Lookup = 'hit' | 'shared' | 'miss' | 'expired' | 'collapsed' | 'bypass'

export interface QuoteCache {
  /** A live quote from memory, or nothing. Counts hits only: whoever finds nothing asks `getOrFetch`. */
  getLive(key: string, call: MakeCall): StoredQuote | undefined
  /** `refresh` where a call that nobody waits for is another one. A request is counted as what it finds first. */
  getOrFetch(key: string, call: MakeCall, options?: AskOptions): Asking
  /** For a request that shares with nobody. */
  fetchAlone(call: () => Call, options?: Pick<AskOptions, 'again'>): Asking
}

export interface AskOptions {
  refresh?: MakeCall
  /** For a request that asked before, and was counted then. */
  again?: boolean
}

export interface QuoteCacheOptions {
  store: MemoryQuoteStore
  providerClock: ProviderClock
  minValidityMs: number
  refreshAheadMs: number
  onLookup(result: Lookup): void
  onNotKept(reason: NonNullable<QuoteAnswer['notKept']>): void
  onRefresh(outcome: 'stored' | 'found' | 'failed'): void
  /** A quote that was ordered while it was under way is not handed out again. */
  isUsed?(quote: StoredQuote): boolean
  /** Undefined: there is nobody to share with. */
  share?: Share | undefined
}

/** Quotes by key: from the store while they live, else fetched by one call for all who ask meanwhile. */
export function createQuoteCache(options: QuoteCacheOptions): QuoteCache {
  const { store, providerClock, onLookup } = options
  const flights = new Map<string, Flight>()
  /** Quotes whose refresh was tried: one try each, or a failing upstream would be asked at every hit. */
  const refreshed = new WeakSet<StoredQuote>()
  /** How close to its expiry a quote that a refresh brought is refreshed itself. */
  const refreshWithinMs = new WeakMap<StoredQuote, number>()

  function getLive(key: string, call: MakeCall, count = onLookup): StoredQuote | undefined {
    const quote = store.get(key)
    if (quote === undefined) return undefined
    const latestMs = providerClock.latestMs()
    if (isExpired(quote.expiresAtMs - options.minValidityMs, latestMs)) return undefined
    count('hit')
    if (quote.expiresAtMs - latestMs < (refreshWithinMs.get(quote) ?? options.refreshAheadMs))
      refresh(key, quote, call)
    return quote
  }

  function refresh(key: string, quote: StoredQuote, call: MakeCall): void {
    if (refreshed.has(quote) || flights.has(key)) return
    refreshed.add(quote)
    const flight = takeOff(key, call, { replaces: quote })
    flight.answer.then(
      (answer) => {
        if (answer.stored !== undefined) limitRefresh(answer.stored)
        const outcome = 'found' in answer ? 'found' : 'stored'
        options.onRefresh(answer.stored === undefined ? 'failed' : outcome)
      },
      () => options.onRefresh('failed'),
    )
  }

  /** Half a life apart at least: where quotes live shorter than the setting, one refresh would cause the next. */
  function limitRefresh(stored: StoredQuote): void {
    const halfLifeMs = (stored.expiresAtMs - providerClock.latestMs()) / 2
    if (halfLifeMs < options.refreshAheadMs) refreshWithinMs.set(stored, halfLifeMs)
  }

  /**
   * No await between "is one under way?" and "this one is": two callers must never both see none. What replaces a
   * quote that is still good goes on though nobody waits for it.
   */
  function takeOff(key: string, call: MakeCall, { replaces }: { replaces?: StoredQuote } = {}): Flight {
    const shared = options.share?.(key, call, replaces) ?? call()
    const flight = new Flight(shared, replaces !== undefined, () => {
      if (flights.get(key) === flight) flights.delete(key)
    })
    flights.set(key, flight)
    flight.answer.then(
      (answer) => {
        if ('found' in answer) call.onFound?.(answer.stored)
        keep(key, answer)
        flight.land()
      },
      () => flight.land(),
    )
    return flight
  }

  function keep(key: string, answer: SharedAnswer): void {
    const { stored } = answer
    if (stored !== undefined && !options.isUsed?.(stored)) store.set(key, stored)
    if (answer.notKept !== undefined) options.onNotKept(answer.notKept)
  }

  function getOrFetch(key: string, call: MakeCall, { refresh = call, again }: AskOptions = {}): Asking {
    const count = again ? countNothing : onLookup
    const live = getLive(key, refresh, count)
    if (live !== undefined) return { served: Promise.resolve({ how: 'hit', quote: live }), leave: () => {} }
    const underWay = flights.get(key)
    if (underWay !== undefined) {
      count('collapsed')
      return waitFor(key, underWay, { how: 'collapsed', call })
    }
    const result = store.get(key) === undefined ? 'miss' : 'expired'
    const flight = takeOff(key, call)
    if (options.share === undefined) count(result)
    else
      flight.answer.then(
        (answer) => count('found' in answer ? 'shared' : result),
        () => count(result),
      )
    return waitFor(key, flight, { how: 'fetched', call })
  }

  function waitFor(
    key: string,
    flight: Flight,
    { how, call }: { how: 'fetched' | 'collapsed'; call: () => Call },
  ): Asking {
    let left = false
    let leaveCall = () => flight.leave()
    flight.join()
    const served = flight.answer.then((answer): Served | Promise<Served> => {
      if ('found' in answer) return { how: 'hit', quote: answer.stored }
      if (answer.shared || left) return { how, answer }
      // For one caller alone: the first still here; each other asks for itself.
      if (flight.claim()) return { how: 'fetched', answer }
      const own = callFor(call, (answered) => keep(key, answered))
      leaveCall = own.leave
      return own.served
    })
    return {
      served,
      leave() {
        if (left) return
        left = true
        leaveCall()
      },
    }
  }

  function fetchAlone(call: () => Call, { again }: Pick<AskOptions, 'again'> = {}): Asking {
    if (!again) onLookup('bypass')
    return callFor(call, (answer) => {
      if (answer.notKept !== undefined) options.onNotKept(answer.notKept)
    })
  }

  function callFor(call: () => Call, onAnswer: (answer: QuoteAnswer) => void): Asking {
    const { answer, abort } = call()
    const served = answer.then((whole): Served => {
      onAnswer(whole)
      return { how: 'fetched', answer: whole }
    })
    return { served, leave: abort }
  }

  return { getLive: (key, call) => getLive(key, call), getOrFetch, fetchAlone }
}

const countNothing = () => {}

const never: Promise<never> = new Promise(() => {})
const nothing = () => {}

/** One upstream call and those who wait for it. */
class Flight {
  /** For whoever finds it in the table: once it has landed there is none. */
  answer: Promise<SharedAnswer>
  #abort: () => void
  #takeOut: () => void
  /** A refresh that nobody waits for goes on all the same. */
  readonly #background: boolean
  #waiting = 0
  #claimed = false
  #landed = false

  constructor(call: SharedCall, background: boolean, takeOut: () => void) {
    this.answer = call.answer
    this.#abort = call.abort
    this.#background = background
    this.#takeOut = takeOut
  }

  join(): void {
    this.#waiting += 1
  }

  leave(): void {
    this.#waiting -= 1
    if (this.#waiting > 0 || this.#background || this.#landed) return
    // Out of the table first: a newcomer must not join a call that is being given up.
    const abort = this.#abort
    this.land()
    abort()
  }

  /**
   * Lets go of the call and its answer: a Map that makes itself a new table leaves the old one behind with all that
   * was in it, and once one of them has grown old V8 takes every later one for alive until it looks through all memory.
   * With whole requests in them a minor collection took twice as long.
   */
  land(): void {
    this.#landed = true
    this.#takeOut()
    this.answer = never
    this.#abort = nothing
    this.#takeOut = nothing
  }

  /** An answer that may not be shared goes to the first who takes it. */
  claim(): boolean {
    const first = !this.#claimed
    this.#claimed = true
    return first
  }
}
