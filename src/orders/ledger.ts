import type { ProviderClock } from '../quotes/provider-clock.ts'
import { isExpired } from '../quotes/quote.ts'
import { createExpiryQueue } from './expiry-queue.ts'
import type { OrderTerms } from './order-terms.ts'
import { createTermsIndex, haveEqualTerms, lastToExpire, type QuoteTerms } from './terms-index.ts'
import { createUnreadableQuotes, type UnreadableQuote } from './unreadable-quotes.ts'

/** A quote that passed. */
export interface NotedQuote extends QuoteTerms {
  readonly id: string
  readonly expiresAtMs: number
  /** Where the quote lies in the cache, so that it can be forgotten there; empty once terms no longer find it. */
  readonly cacheKey: string
  /** When it was first noted, by our clock, for whoever asks how old the quotes are that orders use. */
  readonly notedAtMs: number
}

export type MatchedBy = 'id' | 'terms'

export type Verdict =
  | { state: 'live'; quote: NotedQuote; matchedBy: MatchedBy }
  // 0 while it is only the margin that has begun.
  | { state: 'expired'; quote: NotedQuote; matchedBy: MatchedBy; expiredForMs: number }
  | { state: 'unknown' }

export interface Judgement {
  application: string | undefined
  /** The earliest time that the provider's clock may show: doubt must not refuse an order. */
  providerEarliestMs: number
  /** A quote with no more than this left counts as expired. */
  marginMs: number
}

export interface QuoteLedger {
  readonly size: number
  note(quote: NotedQuote, providerEarliestMs: number): void
  /** Whether noting it would change nothing. */
  knows(quote: NotedQuote): boolean
  verdict(order: OrderTerms, judgement: Judgement): Verdict
  /** Notes that an unreadable quote passed: from now on no older quote of these terms refuses an order. */
  noteUnreadable(asked: UnreadableQuote): void
  /** Everywhere in the cache that the quote lies: a provider may give the same one to several who ask. */
  cacheKeysOf(quote: NotedQuote): Iterable<string>
  /** Whether the quote has expired is not asked. */
  findById(id: string): NotedQuote | undefined
}

/** What all replicas know of the quotes that they gave out. The ledger of each replica judges; this brings it the rest. */
export interface SharedLedger {
  /**
   * Notes a quote here and for all replicas. Settles when every replica can find it, or the store has failed: until
   * then the client must not have the quote, because its order could reach another replica first.
   */
  note(quote: NotedQuote): Promise<void> | void
  /** Notes a quote here that another replica has noted for all. */
  noteHere(quote: NotedQuote): void
  /**
   * Notes here what any replica has noted that the order can mean. False: there may be more, because the store failed
   * just now, or shortly ago and not every replica has written again what it lost.
   */
  recall(order: OrderTerms, application: string | undefined): Promise<boolean>
}

export interface QuoteLedgerOptions {
  entries: number
  /** How long past its expiry a quote is found by its id. */
  retentionMs: number
  /** How long past its expiry a quote is found by its terms. */
  termsMs: number
}

interface Entry extends NotedQuote {
  expiresAtMs: number
  cacheKey: string
}

// More than one, so that what is past its time goes faster than quotes come; few, so that the first quote after
// a quiet day does not stop everything for as long as it takes to drop a day's quotes.
const stepsMost = 8

const noLongerCached = ''

/**
 * One for each client to whom the provider gave the same quote; past that many, some keep it until it expires. Of all
 * quotes together there are no more than entries: those that nobody else was given for the longest time go first.
 */
const cacheKeysMost = 1_000

/**
 * Every quote that passed, remembered past its expiry so that a late order hears "expired" and not "unknown".
 *
 * When there are too many, the one that expires first is dropped. So nothing live goes while anything expired is
 * left that an order could be refused for: no bound can make a live quote look expired.
 */
export function createQuoteLedger(options: QuoteLedgerOptions): QuoteLedger {
  const { retentionMs } = options
  const termsMs = Math.min(options.termsMs, retentionMs)
  const recent = createExpiryQueue<Entry>()
  // Found by id alone, in half the memory: of a day's quotes that is nearly all.
  const old = createExpiryQueue<Entry>()
  const byId = new Map<string, Entry>()
  const byTerms = createTermsIndex<Entry>()
  /** Where in the cache an id lies that the provider gave to several who asked, for whatever terms. */
  const places = new Map<string, Set<string>>()
  let placesKept = 0
  const unreadable = createUnreadableQuotes()

  function add(quote: NotedQuote): void {
    const { id, pairId, application, fromValue, toValue, expiresAtMs, cacheKey, notedAtMs } = quote
    // Nearly always equal, and then one string does for both.
    const requestedAmount = quote.requestedAmount === fromValue ? fromValue : quote.requestedAmount
    // Written out, because an object that is spread takes a tenth more memory.
    const entry: Entry = {
      id,
      pairId,
      application,
      fromValue,
      requestedAmount,
      toValue,
      expiresAtMs,
      cacheKey,
      notedAtMs,
    }
    recent.add(entry)
    if (lastToExpire(entry, byId.get(id)) === entry) byId.set(id, entry)
    byTerms.add(entry)
  }

  function rememberPlaces(id: string, cacheKeys: readonly string[]): void {
    const ofId = places.get(id) ?? new Set()
    placesKept -= ofId.size
    for (const key of cacheKeys) if (key !== noLongerCached && ofId.size < cacheKeysMost) ofId.add(key)
    placesKept += ofId.size
    places.delete(id)
    places.set(id, ofId)
    for (const oldest of places.keys()) {
      if (placesKept <= options.entries || oldest === id) break
      forgetPlaces(oldest)
    }
  }

  function forgetPlaces(id: string): void {
    placesKept -= places.get(id)?.size ?? 0
    places.delete(id)
  }

  function tidy(providerEarliestMs: number): void {
    for (let steps = 0; steps < stepsMost; steps += 1) {
      const queue = old.size > 0 ? old : recent
      const earliest = queue.earliest()
      if (earliest === undefined) return
      const isOver = isExpired(earliest.expiresAtMs + retentionMs, providerEarliestMs)
      if (isOver || recent.size + old.size > options.entries) {
        queue.removeEarliest()
        if (byId.get(earliest.id) === earliest) {
          byId.delete(earliest.id)
          forgetPlaces(earliest.id)
        }
        byTerms.delete(earliest)
      } else if (!setAside(providerEarliestMs)) return
    }
  }

  function setAside(providerEarliestMs: number): boolean {
    const entry = recent.earliest()
    if (entry === undefined || !isExpired(entry.expiresAtMs + termsMs, providerEarliestMs)) return false
    recent.removeEarliest()
    byTerms.delete(entry)
    entry.cacheKey = noLongerCached
    if (byId.get(entry.id) === entry) forgetPlaces(entry.id)
    old.add(entry)
    return true
  }

  return {
    get size() {
      return recent.size + old.size
    },

    note(quote, providerEarliestMs) {
      const known = byId.get(quote.id)
      const isAgain = known !== undefined && known.cacheKey !== noLongerCached && haveEqualTerms(known, quote)
      if (known !== undefined && known.cacheKey !== quote.cacheKey)
        rememberPlaces(quote.id, [known.cacheKey, quote.cacheKey])
      if (!isAgain) add(quote)
      else if (quote.expiresAtMs >= known.expiresAtMs) {
        known.expiresAtMs = quote.expiresAtMs
        known.cacheKey = quote.cacheKey
        byTerms.add(known)
      }
      tidy(providerEarliestMs)
    },

    knows(quote) {
      const known = byId.get(quote.id)
      if (known === undefined || known.expiresAtMs < quote.expiresAtMs) return false
      if (!haveEqualTerms(known, quote)) return false
      return known.cacheKey === quote.cacheKey || known.cacheKey === noLongerCached
    },

    verdict(order, { application, providerEarliestMs, marginMs }) {
      const named = order.quoteIds.map((id) => byId.get(id)).reduce(lastToExpire, undefined)
      if (named !== undefined && !isExpired(named.expiresAtMs + retentionMs, providerEarliestMs)) {
        return judge(named, 'id', providerEarliestMs, marginMs)
      }
      const meant = byTerms.find(order, application)
      if (meant !== undefined && !isExpired(meant.expiresAtMs + termsMs, providerEarliestMs)) {
        const verdict = judge(meant, 'terms', providerEarliestMs, marginMs)
        if (verdict.state === 'live' || !unreadable.mayBeMeant(order, meant)) return verdict
      }
      return { state: 'unknown' }
    },

    noteUnreadable: unreadable.note,

    cacheKeysOf: (quote) => new Set([quote.cacheKey, ...(places.get(quote.id) ?? [])]),

    findById: (id) => byId.get(id),
  }
}

function judge(
  quote: NotedQuote,
  matchedBy: MatchedBy,
  providerEarliestMs: number,
  marginMs: number,
): Verdict {
  if (!isExpired(quote.expiresAtMs - marginMs, providerEarliestMs)) return { state: 'live', quote, matchedBy }
  const expiredForMs = Math.max(0, providerEarliestMs - quote.expiresAtMs)
  return { state: 'expired', quote, matchedBy, expiredForMs }
}

/** For one replica alone: its own ledger knows everything. */
export function createLoneLedger(
  ledger: Pick<QuoteLedger, 'note'>,
  providerClock: Pick<ProviderClock, 'earliestMs'>,
): SharedLedger {
  const note = (quote: NotedQuote) => ledger.note(quote, providerClock.earliestMs())
  return { note, noteHere: note, recall: async () => true }
}
