import { type Clock, lookAt, type Now, type Timers } from '../clock.ts'
import {
  type KnownQuotes,
  type Origin,
  recentMs,
  rememberedMs,
  type WantedSwap,
} from '../orders/ports.ts'
import type { Logger } from '../process/logger.ts'
import { lastToEnd, later, orderLeftMs, refusalIn } from '../quotes/ends.ts'
import { isUnreadable, type Note, type Whose } from '../quotes/note.ts'
import { keysOfAmount, keysOfClaim, keysOfNumber } from './amounts.ts'
import { EntriesByKey, Entry, fold } from './entries.ts'
import { Offers } from './offers.ts'

interface LedgerOptions {
  entries: number
  clock: Clock
  log?: Pick<Logger, 'warn'> | undefined
}

/** A provider may give one quote to all. This many are found by its id. */
const maxOfOneId = 1_000
// Few, so that the first quote after a quiet day does not wait until a day's quotes are dropped. More than one, so that
// old quotes are dropped faster than new ones come.
const maxTidySteps = 8
/** For a quiet hour, when nothing is noted. */
const tidyTimes = 500
const minCompacted = 1_024
/** Ends that differ by less are one: a record takes time on its way, and is rounded. */
const roundingMs = 1_000
/** How long a user may hold a quote: at most, and if no lives are known. */
const maxLifeMs = 300_000
const livesRemembered = 100
const warnEveryMs = 600_000

/**
 * Remembers every relayed quote past its end, so that a late order is refused as "expired" and not as "unknown". A list
 * has the quotes in the order of noting, and a full ledger drops its first. A quote that was over when it was noted
 * stands before the live ones: after a loss in the shared store, live quotes come again first, and must not be dropped
 * first.
 */
export class Ledger implements KnownQuotes {
  readonly timers: Timers
  readonly #options: LedgerOptions
  #list: Entry[] = []
  /** Everything before `#first` was dropped; everything before `#firstLive` is over. */
  #first = 0
  #firstLive = 0
  /** Quotes that were over when they were noted, and have no place in the list yet. */
  #past: Entry[] = []
  readonly #byId = new EntriesByKey()
  /** By pair and from amount. A quote has two, and an order may state either. */
  readonly #offers = new Map<string, Offers>()
  /** Unreadable answers by partition, for one amount and application and for the pair: the last to end of each. */
  readonly #unreadable = new Map<string, Entry>()
  /** The lives of the last quotes. */
  readonly #livesMs: number[] = []
  #doubtedUntilSteadyMs = Number.NEGATIVE_INFINITY
  /** The end of the latest quote that was dropped to make room; at first, the startup. */
  #reachesToSteadyMs: number
  #warnedSteadyMs = Number.NEGATIVE_INFINITY

  constructor(options: LedgerOptions) {
    this.#options = options
    this.timers = options.clock.timers
    this.#reachesToSteadyMs = options.clock.steadyMs()
  }

  get size(): number {
    return this.#list.length - this.#first + this.#past.length
  }

  /** How far back every quote is remembered. */
  get reachMs(): number {
    return Math.max(0, this.#options.clock.steadyMs() - this.#reachesToSteadyMs)
  }

  /** Users may hold quotes that were not restored. After one life these are over. */
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

  /** If the quote is known already, only the earlier of the two ends counts. */
  note(quote: Note, origin: Origin = 'own', now = this.now()): Entry {
    const known = this.#find(quote)
    const entry = known ?? this.#add(quote, now)
    if (known === undefined) entry.origin = origin
    else this.#noteAgain(known, quote, origin, now)
    this.#rememberLife(quote)
    this.#tidy(now)
    return entry
  }

  #noteAgain(known: Entry, quote: Note, origin: Origin, now: Now): void {
    const isSooner = known.refusedFromMs - known.refusedFromOf(quote) > roundingMs
    if (known.isUnreadable) this.#fileUnreadable(known.renewedAs(quote), now)
    else if (origin !== 'delivered' || isSooner) this.#shorten(known, quote, now)
    // A restored quote has no cache key. If the provider gives it again, an order that uses it must drop that copy.
    if (known.cacheKey === '' && orderLeftMs(known, now) > 0)
      known.cacheKey = quote.cacheKey
    if (known.origin === 'restored' || origin === 'own') known.origin = origin
  }

  /** A quote that was over when it came does not show how long quotes live. */
  #rememberLife(quote: Note): void {
    const lifeMs = quote.refusedFromMs - quote.notedAtMs
    if (isUnreadable(quote) || lifeMs <= 0) return
    if (this.#livesMs.push(lifeMs) > livesRemembered) this.#livesMs.shift()
  }

  /** Whether `note` would change nothing. */
  knows(quote: Note): boolean {
    const known = this.#find(quote)
    return (
      known !== undefined &&
      known.origin !== 'restored' &&
      known.refusedFromMs <= known.refusedFromOf(quote)
    )
  }

  /**
   * The note of an unreadable answer that looked like a quote. Until its end, an order of its partition for these terms
   * is sent.
   */
  unreadable(
    terms: Pick<Note, 'pairId' | 'application' | 'requestedAmount' | 'partition'>,
  ): Note {
    const now = this.now()
    const { refusedFromMs, wallAheadMs } = refusalIn(this.#longestSeenMs, now)
    return {
      ...terms,
      fromValue: terms.requestedAmount,
      id: '',
      toValue: '',
      hasNumbers: false,
      cacheKey: '',
      notedAtMs: now.nowMs,
      expiresAtMs: refusedFromMs,
      refusedFromMs,
      wallAheadMs,
    }
  }

  /** All cache keys of the quote, with the known one: a provider may give one quote to several users. */
  cacheKeysOf(id: string, known = ''): string[] {
    const keys = [known, ...this.#byId.of(id).map(({ cacheKey }) => cacheKey)]
    return [...new Set(keys.filter((key) => key !== ''))]
  }

  findById(id: string): Entry | undefined {
    return lastToEnd(this.#byId.of(id), this.now())
  }

  named(quoteIds: readonly { readonly id: string }[]): Entry[] {
    return quoteIds.flatMap(({ id }) => this.#byId.of(id))
  }

  offersFor({ foldedPair, fromAmount }: WantedSwap): Offers[] {
    if (foldedPair === undefined || fromAmount === undefined) return []
    return keysOfClaim(fromAmount)
      .map((amount) => this.#offers.get(offersKey(amount, foldedPair)))
      .filter((offers) => offers !== undefined)
  }

  unreadableFor(order: WantedSwap, orderer: Whose): Entry | undefined {
    const { foldedPair, fromAmount } = order
    if (foldedPair === undefined || fromAmount === undefined) return undefined
    const found = keysOfClaim(fromAmount)
      .map((amount) => this.#unreadable.get(unreadableKey(amount, foldedPair, orderer)))
      .filter((entry) => entry !== undefined)
    return lastToEnd(found, this.now())
  }

  unreadableOfPair({ foldedPair }: WantedSwap, orderer: Whose): Entry | undefined {
    return this.#unreadable.get(unreadablePairKey(foldedPair ?? '', orderer))
  }

  /** In the order of noting. */
  entries(): readonly Entry[] {
    this.#placePast()
    return this.#list.slice(this.#first)
  }

  #find(quote: Note): Entry | undefined {
    if (!isUnreadable(quote))
      return this.#byId.of(quote.id).findLast((entry) => entry.is(quote))
    // The unreadable answer to the same request, for the same partition.
    const { requestedAmount, pairId } = quote
    return this.#unreadable.get(unreadableKey(requestedAmount, fold(pairId), quote))
  }

  #add(quote: Note, now: Now): Entry {
    const keys = offersKeys(quote)
    const entry = new Entry(quote, this.#offers.get(keys[0] ?? '')?.sample)
    const isOver = orderLeftMs(entry, now) <= 0
    if (isOver) {
      entry.cacheKey = ''
      this.#past.push(entry)
    } else this.#list.push(entry)
    if (entry.isUnreadable) this.#fileUnreadable(entry, now)
    else this.#file(entry, keys, now)
    return entry
  }

  /** Places many at once, because each time moves the whole list. */
  #placePast(): void {
    const before = this.#list.slice(this.#first, this.#firstLive).concat(this.#past)
    this.#list = before.concat(this.#list.slice(this.#firstLive))
    this.#first = 0
    this.#firstLive = before.length
    this.#past = []
  }

  #file(entry: Entry, keys: readonly string[], now: Now): void {
    this.#byId.add(entry.id, entry, maxOfOneId)
    for (const key of keys) {
      const offers = this.#offers.get(key) ?? new Offers()
      this.#offers.set(key, offers)
      offers.add(entry, now)
    }
  }

  #unfile(entry: Entry): void {
    this.#byId.remove(entry.id, entry)
    for (const key of offersKeys(entry)) {
      const offers = this.#offers.get(key)
      offers?.remove(entry)
      if (offers?.isEmpty) this.#offers.delete(key)
    }
  }

  #fileUnreadable(entry: Entry, now: Now): void {
    for (const key of unreadableKeys(entry))
      this.#unreadable.set(key, later(entry, this.#unreadable.get(key) ?? entry, now))
  }

  #unfileUnreadable(entry: Entry): void {
    for (const key of unreadableKeys(entry))
      if (this.#unreadable.get(key) === entry) this.#unreadable.delete(key)
  }

  /** The earlier of the two ends counts. Older quotes of its price that now end later are filed again. */
  #shorten(entry: Entry, quote: Note, now: Now): void {
    const refusedFromMs = entry.refusedFromOf(quote)
    if (refusedFromMs >= entry.refusedFromMs) return
    entry.refusedFromMs = refusedFromMs
    const leftMs = orderLeftMs(entry, now)
    this.#placePast()
    const older = this.#list.slice(this.#firstLive, this.#list.lastIndexOf(entry))
    const keys = new Set(offersKeys(entry))
    const isNowLater = (other: Entry) =>
      other.toValue === entry.toValue &&
      orderLeftMs(other, now) > leftMs &&
      offersKeys(other).some((key) => keys.has(key))
    for (const one of [...older.filter(isNowLater), entry]) {
      this.#unfile(one)
      this.#file(one, offersKeys(one), now)
    }
  }

  /** Drops a bounded part of what is past its time. Returns how many entries are left. */
  tidy(): number {
    this.#tidy(this.now(), maxTidySteps * tidyTimes)
    return this.size
  }

  #tidy(now: Now, maxSteps = maxTidySteps): void {
    for (let steps = 0; steps < maxSteps; steps += 1) {
      const first = this.#list[this.#first]
      const isNext = first === undefined || orderLeftMs(first, now) > 0
      if (this.#past.length > (isNext ? 0 : minCompacted)) this.#placePast()
      const oldest = this.#list[this.#first]
      if (oldest === undefined) return
      const isFull = this.size > this.#options.entries
      const leftMs = orderLeftMs(oldest, now)
      const isForgotten = leftMs <= -rememberedMs
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

  /** A quote was dropped to make room, this long after its end. */
  #dropped(expiredForMs: number, { steadyMs }: Now): void {
    this.#reachesToSteadyMs = Math.max(this.#reachesToSteadyMs, steadyMs - expiredForMs)
    if (expiredForMs >= recentMs || steadyMs - this.#warnedSteadyMs < warnEveryMs) return
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
    if (entry.isUnreadable) this.#unfileUnreadable(entry)
    else this.#unfile(entry)
  }
}

type Terms = Pick<Note, 'pairId' | 'fromValue' | 'requestedAmount' | 'hasNumbers'>

/** A blank separates the parts: amounts and digests have none. */
function offersKey(amount: string, foldedPair: string): string {
  return `${amount} ${foldedPair}`
}

function offersKeys({ pairId, fromValue, requestedAmount, hasNumbers }: Terms): string[] {
  const pair = fold(pairId)
  const amounts = hasNumbers ? keysOfNumber(fromValue) : keysOfAmount(fromValue)
  if (requestedAmount !== fromValue)
    for (const amount of keysOfAmount(requestedAmount))
      if (!amounts.includes(amount)) amounts.push(amount)
  return amounts.map((amount) => offersKey(amount, pair))
}

function unreadableKey(
  amount: string,
  foldedPair: string,
  { application, partition = '' }: Whose,
): string {
  return `${amount} ${partition} ${application}\n${foldedPair}`
}

function unreadablePairKey(foldedPair: string, { partition = '' }: Whose): string {
  return `pair ${partition} ${foldedPair}`
}

function unreadableKeys(entry: Entry): string[] {
  const folded = fold(entry.pairId)
  const amounts = keysOfAmount(entry.requestedAmount)
  return [
    ...amounts.map((amount) => unreadableKey(amount, folded, entry)),
    unreadablePairKey(folded, entry),
  ]
}
