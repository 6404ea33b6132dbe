import { type Clock, lookAt, type Now, orderLeftMs, type Timers } from '../clock.ts'
import type { NotedQuote } from '../journal/journal.ts'
import type { Logger } from '../process/logger.ts'
import { Entry, isUnreadable, lastToEnd, type Origin } from './entries.ts'
import type { Orderer } from './order-terms.ts'
import { AllTerms, Few } from './terms.ts'

interface LedgerOptions {
  entries: number
  /** How long past its end a quote is remembered. */
  retentionMs: number
  clock: Clock
  log?: Pick<Logger, 'warn'> | undefined
}

/** A provider may give one quote to all clients: how many of them are found by its id. */
const maxOfOneId = 1_000
// Few, so that the first quote after a quiet day does not block the event loop until a day's quotes are dropped; more
// than one, so that old quotes are dropped faster than new ones come.
const maxTidySteps = 8
const minCompacted = 1_024
/** What a record took on its way makes its end later, or sooner by its rounding: it is the same end. */
const roundingMs = 1_000
/** How long clients may hold a quote where none was read that tells, and at most. */
const maxLifeMs = 300_000
const livesRemembered = 100
/** The guard's rules look back so far (guard.ts). */
const wantedMs = 900_000
const warnEveryMs = 600_000

/**
 * Remembers every relayed quote past its end, so that a late order is refused as "expired" and not as "unknown": a list
 * in the order of noting, of which a full ledger drops the first, and over it a map by id and the terms, which show their
 * prices.
 */
export class Ledger {
  readonly timers: Timers
  /** For as long a quote is a candidate past its end, even if it is not dropped yet. */
  readonly rememberedMs: number
  readonly #options: LedgerOptions
  #list: Entry[] = []
  /** All before these places were dropped, and are over. */
  #first = 0
  #firstLive = 0
  readonly #byId = new Few<string, Entry>()
  readonly byTerms = new AllTerms()
  /** How long the quotes lived that were noted last. */
  readonly #livesMs: number[] = []
  #doubtedUntilSteadyMs = Number.NEGATIVE_INFINITY
  /** When the last quote was over that was dropped to make room; before that, the start. */
  #reachesToSteadyMs: number
  #warnedSteadyMs = Number.NEGATIVE_INFINITY

  constructor(options: LedgerOptions) {
    this.#options = options
    this.timers = options.clock.timers
    this.rememberedMs = options.retentionMs
    this.#reachesToSteadyMs = options.clock.steadyMs()
  }

  get size(): number {
    return this.#list.length - this.#first
  }

  /** How far back it remembers every quote. */
  get reachMs(): number {
    return Math.max(0, this.#options.clock.steadyMs() - this.#reachesToSteadyMs)
  }

  /** For as long as quotes live, clients may hold quotes of an earlier process that were not restored. */
  doubtRestored(): void {
    this.#doubtedUntilSteadyMs = this.now().steadyMs + this.longestLifeMs
  }

  get longestLifeMs(): number {
    return Math.min(this.#longestSeenMs, maxLifeMs)
  }

  get #longestSeenMs(): number {
    return this.#livesMs.length === 0 ? maxLifeMs : Math.max(...this.#livesMs)
  }

  get doubtsRestored(): boolean {
    return this.now().steadyMs < this.#doubtedUntilSteadyMs
  }

  now(): Now {
    return lookAt(this.#options.clock)
  }

  /** A quote that is known already changes nothing but that the earlier of its two ends counts. */
  note(quote: NotedQuote, origin: Origin = 'own', now = this.now()): Entry {
    const known = isUnreadable(quote)
      ? this.byTerms.unreadableLike(quote)
      : this.#find(quote)
    const entry = known ?? this.#add(quote, now)
    if (known !== undefined) {
      if (isUnreadable(quote)) this.byTerms.file(known.renewedAs(quote), now)
      else if (
        origin !== 'delivered' ||
        known.refusedFromMs - known.refusedFromOf(quote) > roundingMs
      )
        this.#shorten(known, quote, now)
      if (known.origin === 'restored' || origin === 'own') known.origin = origin
    } else entry.origin = origin
    const lifeMs = quote.refusedFromMs - quote.notedAtMs
    // A quote that was over when it came says nothing of how long quotes live.
    if (
      !isUnreadable(quote) &&
      lifeMs > 0 &&
      this.#livesMs.push(lifeMs) > livesRemembered
    )
      this.#livesMs.shift()
    this.#tidy(now)
    return entry
  }

  /** Whether `note` would change nothing. */
  knows(quote: NotedQuote): boolean {
    const known = this.#find(quote)
    return (
      known !== undefined &&
      known.origin !== 'restored' &&
      known.refusedFromMs <= known.refusedFromOf(quote)
    )
  }

  /**
   * An answer that was relayed, looked like a quote and could not be read. Until it is over, an order of its partition
   * for these terms is sent.
   */
  unreadable(
    terms: Pick<NotedQuote, 'pairId' | 'application' | 'requestedAmount' | 'partition'>,
  ): NotedQuote {
    const { nowMs, steadyMs } = this.now()
    const untilMs = nowMs + this.#longestSeenMs
    return {
      ...terms,
      fromValue: terms.requestedAmount,
      id: '',
      toValue: '',
      cacheKey: '',
      notedAtMs: nowMs,
      expiresAtMs: untilMs,
      refusedFromMs: untilMs,
      wallAheadMs: nowMs - steadyMs,
    }
  }

  /** All cache keys of the quote, besides one that is known: a provider may give the same quote to several clients. */
  cacheKeysOf(id: string, known = ''): string[] {
    const keys = [known, ...this.#byId.of(id).map(({ cacheKey }) => cacheKey)]
    return [...new Set(keys.filter((key) => key !== ''))]
  }

  /** Of those with this id the one that ends last, past its end too. */
  findById(id: string): Entry | undefined {
    return lastToEnd(this.#byId.of(id), this.now())
  }

  /** With this id: of all and of the orderer's own the one that ends last. */
  named(id: string, { partition }: Orderer, now: Now): readonly Entry[] {
    const all = this.#byId.of(id)
    const own =
      partition === undefined ? [] : all.filter((entry) => entry.partition === partition)
    return [lastToEnd(all, now), lastToEnd(own, now)].filter(
      (entry) => entry !== undefined,
    )
  }

  /** In the order of noting. */
  entries(): readonly Entry[] {
    return this.#list.slice(this.#first)
  }

  #find(quote: NotedQuote): Entry | undefined {
    return this.#byId.of(quote.id).find((entry) => entry.is(quote))
  }

  #add(quote: NotedQuote, now: Now): Entry {
    const entry = new Entry(this.byTerms.of(quote), quote)
    entry.terms.quotes += 1
    this.#list.push(entry)
    if (entry.id !== '') this.#byId.add(entry.id, entry, maxOfOneId)
    this.byTerms.file(entry, now)
    return entry
  }

  /** The earlier of its two ends counts. Another quote that is alike may end last now. */
  #shorten(entry: Entry, quote: NotedQuote, now: Now): void {
    const refusedFromMs = entry.refusedFromOf(quote)
    if (refusedFromMs >= entry.refusedFromMs) return
    this.byTerms.unfile(entry)
    entry.refusedFromMs = refusedFromMs
    this.byTerms.file(entry, now)
    const live = this.#list.slice(this.#firstLive).reverse()
    for (const { isAlike } of this.byTerms.placesOf(entry)) {
      const alike = live.filter((other) => isAlike(other) && !other.isUnreadable)
      this.byTerms.file(lastToEnd(alike, now) ?? entry, now)
    }
  }

  #tidy(now: Now): void {
    for (let steps = 0; steps < maxTidySteps; steps += 1) {
      const oldest = this.#list[this.#first]
      if (oldest === undefined) return
      const isFull = this.size > this.#options.entries
      const leftMs = orderLeftMs(oldest, now)
      const isForgotten = leftMs <= -this.rememberedMs
      const newlyOver = this.#list[this.#firstLive]
      if (isFull || isForgotten) this.#drop(oldest)
      else if (newlyOver && orderLeftMs(newlyOver, now) <= 0) {
        // Cache keys take a good part of the memory.
        newlyOver.cacheKey = ''
        this.#firstLive += 1
      } else return
      if (isFull && !isForgotten) this.#dropped(Math.max(0, -leftMs), now)
    }
  }

  /** A quote was dropped to make room, so long after its end. */
  #dropped(expiredForMs: number, { steadyMs }: Now): void {
    this.#reachesToSteadyMs = Math.max(this.#reachesToSteadyMs, steadyMs - expiredForMs)
    if (expiredForMs >= wantedMs || steadyMs - this.#warnedSteadyMs < warnEveryMs) return
    this.#warnedSteadyMs = steadyMs
    this.#options.log?.warn(
      { expiredForMs: Math.round(expiredForMs), entries: this.#options.entries },
      'the ledger is full and forgets quotes less than 15 minutes after their expiry, so late orders for them are ' +
        'sent. Set LEDGER_ENTRIES higher.',
    )
  }

  #drop(entry: Entry): void {
    this.#first += 1
    this.#firstLive = Math.max(this.#first, this.#firstLive)
    if (this.#first >= minCompacted && this.#first * 2 > this.#list.length) {
      this.#list = this.#list.slice(this.#first)
      this.#firstLive -= this.#first
      this.#first = 0
    }
    this.byTerms.unfile(entry)
    this.#byId.remove(entry.id, entry)
    entry.terms.quotes -= 1
    if (entry.terms.quotes === 0) this.byTerms.drop(entry.terms)
  }
}
