import { type Clock, type Now, orderLeftMs, type Timers } from '../clock.ts'
import type { NotedQuote } from '../journal/journal.ts'
import { briefText } from '../process/text.ts'
import { AllTerms } from './all-terms.ts'
import type { StatedAmount } from './amounts.ts'
import {
  type Candidates,
  Entry,
  fold,
  hash,
  isUnreadable,
  Lives,
  mix,
  type Origin,
  Terms,
} from './entries.ts'
import { Few, LastToEnd, lastToEnd, later } from './last-to-end.ts'
import type { Orderer, OrderTerms } from './order-terms.ts'

interface LedgerOptions {
  entries: number
  /** How long past its end a quote is remembered. */
  retentionMs: number
  clock: Clock
  /** A quote was dropped to make room, so long after its end. */
  dropped?(expiredForMs: number): void
}

/** An answer that was relayed, looked like a quote and could not be read. */
type UnreadableQuote = Pick<NotedQuote, 'pairId' | 'application' | 'requestedAmount' | 'partition'>

/** Where the last of those that are alike is found. */
interface Place {
  readonly map: LastToEnd<Entry>
  readonly at: number
  isAlike(other: Entry): boolean
}

/** A provider may give one quote to all clients: how many of them are found by its id. */
const maxOfOneId = 1_000
// Few, so that the first quote after a quiet day does not block the event loop until a day's quotes are dropped; more
// than one, so that old quotes are dropped faster than new ones come.
const maxTidySteps = 8
const minCompacted = 1_024
/** What a record took on its way makes its end later, or sooner by its rounding: it is the same end. */
const roundingMs = 1_000
/** For longer no order is let pass because a quote may be missing. */
const maxLifeMs = 300_000

/**
 * Remembers every relayed quote past its end, so that a late order is refused as "expired" and not as "unknown": a list
 * in the order of noting, of which a full ledger drops the first, and over it a map by id and the terms, which show their
 * prices.
 */
export class Ledger {
  readonly timers: Timers
  readonly #options: LedgerOptions
  #list: Entry[] = []
  /** All before these places were dropped, and are over. */
  #first = 0
  #firstLive = 0
  readonly #byId = new Few<string, Entry>()
  /**
   * A quote is one of the prices that its terms show, or, if others are shown in its place, in both maps behind this one.
   */
  readonly #byTerms = new AllTerms()
  readonly #byPrice = new LastToEnd<Entry>()
  readonly #byClient = new LastToEnd<Entry>()
  readonly #unreadable = new LastToEnd<Entry>()
  readonly #lives = new Lives()
  #doubtedUntilSteadyMs = Number.NEGATIVE_INFINITY

  constructor(options: LedgerOptions) {
    this.#options = options
    this.timers = options.clock.timers
  }

  get size(): number {
    return this.#list.length - this.#first
  }

  /** For as long a quote is a candidate past its end, even if it is not dropped yet. */
  get rememberedMs(): number {
    return this.#options.retentionMs
  }

  /** For as long as quotes live, clients may hold quotes of an earlier process that were not restored. */
  doubtRestored(): void {
    this.#doubtedUntilSteadyMs = this.now().steadyMs + this.longestLifeMs
  }

  get longestLifeMs(): number {
    return Math.min(this.#lives.longestMs, maxLifeMs)
  }

  get doubtsRestored(): boolean {
    return this.now().steadyMs < this.#doubtedUntilSteadyMs
  }

  now(): Now {
    const { clock } = this.#options
    return { nowMs: clock.nowMs(), steadyMs: clock.steadyMs() }
  }

  /** A quote that is known already changes nothing but that the earlier of its two ends counts. */
  note(quote: NotedQuote, origin: Origin = 'own', now = this.now()): Entry {
    const known = isUnreadable(quote) ? this.#findUnreadable(quote, now) : this.#find(quote)
    const entry = known ?? this.#add(quote, now)
    if (known !== undefined) {
      if (isUnreadable(quote)) this.#file(known.renewedAs(quote), now)
      else if (origin !== 'delivered' || known.refusedFromMs - known.refusedFromOf(quote) > roundingMs)
        this.#shorten(known, quote, now)
      if (known.origin === 'restored' || origin === 'own') known.origin = origin
    } else entry.origin = origin
    if (!isUnreadable(quote)) this.#lives.note(quote)
    this.#tidy(now)
    return entry
  }

  /** Whether `note` would change nothing. */
  knows(quote: NotedQuote): boolean {
    const known = this.#find(quote)
    return (
      known !== undefined && known.origin !== 'restored' && known.refusedFromMs <= known.refusedFromOf(quote)
    )
  }

  /** Until it is over, an order of its partition for these terms is sent. */
  unreadable({ requestedAmount, ...terms }: UnreadableQuote): NotedQuote {
    const { nowMs, steadyMs } = this.now()
    const untilMs = nowMs + this.#lives.longestMs
    return {
      ...terms,
      requestedAmount,
      fromValue: requestedAmount,
      id: '',
      toValue: '',
      cacheKey: '',
      notedAtMs: nowMs,
      expiresAtMs: untilMs,
      refusedFromMs: untilMs,
      wallAheadMs: nowMs - steadyMs,
    }
  }

  /** All cache keys of the quote: a provider may give the same quote to several clients. */
  cacheKeysOf(id: string): string[] {
    const keys = this.#byId.of(id).map(({ cacheKey }) => cacheKey)
    return [...new Set(keys.filter((key) => key !== ''))]
  }

  /** Of those with this id the one that ends last, past its end too. */
  findById(id: string): Entry | undefined {
    return lastToEnd(this.#byId.of(id), this.now())
  }

  /** With this id: of all and of the orderer's own the one that ends last. */
  named(id: string, { partition }: Orderer, now: Now): readonly Entry[] {
    const all = this.#byId.of(id)
    const own = partition === undefined ? [] : all.filter((entry) => entry.partition === partition)
    return [lastToEnd(all, now), lastToEnd(own, now)].filter((entry) => entry !== undefined)
  }

  find(
    order: OrderTerms,
    { application, partition }: Orderer,
    stated: StatedAmount | undefined,
    now: Now,
  ): Candidates {
    const all = this.#byTerms.meantBy(order, application)
    const who = this.#byTerms.hash(partition ?? '')
    const isOwn = (entry: Entry) => partition !== undefined && entry.partition === partition
    const isExact = (entry: Entry) => stated?.isExactly(entry) === true
    const isOwnExact = (entry: Entry) => isOwn(entry) && isExact(entry)
    const isOfClient = (entry: Entry) => entry.partition === partition
    const exactHash = (terms: Terms) => hash(terms.hash, stated?.double ?? '')
    let exact: Entry | undefined
    let ownExact: Entry | undefined
    let own: Entry | undefined
    let unreadable: Entry | undefined
    for (const terms of all) {
      for (const entry of terms.shown) {
        if (isOwn(entry)) own = later(own, entry, now)
        if (!isExact(entry)) continue
        exact = later(exact, entry, now)
        if (isOwn(entry)) ownExact = later(ownExact, entry, now)
      }
      const findIn = (map: LastToEnd<Entry>, at: number, isMeant: (entry: Entry) => boolean) =>
        map.find(at, (entry) => entry.terms === terms && isMeant(entry), now)
      exact = later(exact, findIn(this.#byPrice, exactHash(terms), isExact), now)
      ownExact = later(ownExact, findIn(this.#byClient, mix(exactHash(terms), who), isOwnExact), now)
      own = later(own, findIn(this.#byClient, mix(terms.hash, who), isOwn), now)
      unreadable = later(unreadable, findIn(this.#unreadable, mix(terms.hash, who), isOfClient), now)
    }
    return {
      exact,
      ownExact,
      own,
      unreadable,
      terms: Terms.upToMost(all),
      ownOf: (same) =>
        partition === undefined || isOwn(same)
          ? same
          : this.#byClient.find(
              mix(same.hash, who),
              (one) => isOwn(one) && one.terms === same.terms && one.toValue === same.toValue,
              now,
            ),
    }
  }

  /** An answer for the order's pair that was given to the orderer and that could not be read. */
  findUnreadable({ pair }: OrderTerms, { partition }: Orderer, now: Now): Entry | undefined {
    if (pair === undefined) return undefined
    const folded = fold(briefText(pair))
    const at = mix(this.#byTerms.hash(folded), this.#byTerms.hash(partition ?? ''))
    return this.#unreadable.find(at, (one) => one.isFor(folded, partition), now)
  }

  /** In the order of noting. */
  *entries(): Iterable<Entry> {
    for (const entry of this.#list.slice(this.#first)) yield entry
  }

  /** Of one client and one request. */
  #findUnreadable(quote: NotedQuote, now: Now): Entry | undefined {
    const its = this.#byTerms.of(quote)
    const at = mix(its.hash, this.#byTerms.hash(quote.partition ?? ''))
    return this.#unreadable.find(at, (one) => one.terms === its && one.partition === quote.partition, now)
  }

  #find(quote: NotedQuote): Entry | undefined {
    return this.#byId.of(quote.id).find((entry) => entry.is(quote))
  }

  #add(quote: NotedQuote, now: Now): Entry {
    const entry = new Entry(this.#byTerms.of(quote), quote)
    entry.terms.quotes += 1
    this.#list.push(entry)
    if (entry.id !== '') this.#byId.add(entry.id, entry, maxOfOneId)
    this.#file(entry, now)
    return entry
  }

  #file(entry: Entry, now: Now): void {
    const hidden = entry.isUnreadable ? entry : entry.terms.show(entry, now)
    if (hidden === undefined) return
    for (const { map, at, isAlike } of this.#placesOf(hidden)) map.addLast(at, hidden, isAlike, now)
  }

  #unfile(entry: Entry): void {
    for (const { map, at } of this.#placesOf(entry)) map.remove(at, entry)
    entry.terms.remove(entry)
  }

  /** The earlier of its two ends counts. Another quote that is alike may end last now. */
  #shorten(entry: Entry, quote: NotedQuote, now: Now): void {
    const refusedFromMs = entry.refusedFromOf(quote)
    if (refusedFromMs >= entry.refusedFromMs) return
    this.#unfile(entry)
    entry.refusedFromMs = refusedFromMs
    this.#file(entry, now)
    const live = this.#list.slice(Math.max(this.#first, this.#firstLive)).reverse()
    for (const { isAlike } of this.#placesOf(entry)) {
      const alike = live.filter((other) => isAlike(other) && !other.isUnreadable)
      this.#file(lastToEnd(alike, now) ?? entry, now)
    }
  }

  /** Where an entry is found that its terms do not show. */
  #placesOf(entry: Entry): readonly Place[] {
    const { terms, partition, toValue } = entry
    const who = this.#byTerms.hash(partition ?? '')
    const isItsClients = (other: Entry) => other.terms === terms && other.partition === partition
    if (entry.isUnreadable) {
      const pair = fold(entry.pairId)
      const isOfItsPair = (other: Entry) => other.isFor(pair, partition)
      return [
        { map: this.#unreadable, at: mix(terms.hash, who), isAlike: isItsClients },
        { map: this.#unreadable, at: mix(this.#byTerms.hash(pair), who), isAlike: isOfItsPair },
      ]
    }
    const isOfItsPrice = (other: Entry) => other.terms === terms && other.toValue === toValue
    const byPrice = { map: this.#byPrice, at: entry.hash, isAlike: isOfItsPrice }
    if (partition === undefined) return [byPrice]
    const isBoth = (other: Entry) => isOfItsPrice(other) && other.partition === partition
    return [
      byPrice,
      { map: this.#byClient, at: mix(entry.hash, who), isAlike: isBoth },
      { map: this.#byClient, at: mix(terms.hash, who), isAlike: isItsClients },
    ]
  }

  #tidy(now: Now): void {
    for (let steps = 0; steps < maxTidySteps; steps += 1) {
      const oldest = this.#list[this.#first]
      if (oldest === undefined) return
      const isFull = this.size > this.#options.entries
      const leftMs = orderLeftMs(oldest, now)
      const isForgotten = leftMs <= -this.#options.retentionMs
      const newlyOver = this.#list[Math.max(this.#first, this.#firstLive)]
      if (isFull || isForgotten) this.#drop(oldest)
      else if (newlyOver && orderLeftMs(newlyOver, now) <= 0) {
        newlyOver.forgetCacheKey()
        this.#firstLive = Math.max(this.#first, this.#firstLive) + 1
      } else return
      if (isFull && !isForgotten) this.#options.dropped?.(Math.max(0, -leftMs))
    }
  }

  #drop(entry: Entry): void {
    this.#first += 1
    if (this.#first >= minCompacted && this.#first * 2 > this.#list.length) {
      this.#list = this.#list.slice(this.#first)
      this.#firstLive -= this.#first
      this.#first = 0
    }
    this.#unfile(entry)
    this.#byId.remove(entry.id, entry)
    entry.terms.quotes -= 1
    if (entry.terms.quotes === 0) this.#byTerms.drop(entry.terms)
  }
}
