import type { ProviderClock } from '../quotes/provider-clock.ts'
import { isExpired, type OwnEnd } from '../quotes/quote.ts'
import { createExpiryQueue } from './expiry-queue.ts'
import type { OrderTerms } from './order-terms.ts'
import { createTermsIndex, haveEqualTerms, lastToExpire, type QuoteTerms } from './terms-index.ts'
import { createUnreadableQuotes, type UnreadableQuote } from './unreadable-quotes.ts'

/** A relayed quote, as the ledger keeps it. */
export interface NotedQuote extends QuoteTerms {
  readonly id: string
  readonly expiresAtMs: number
  /** Undefined: its answer told no time. */
  readonly ownEnd?: OwnEnd | undefined
  /** The quote's cache key, for dropping it from the cache; empty once the ledger finds the quote by id only. */
  readonly cacheKey: string
  /** When it was first noted, by our clock. Metrics and the console show how old an order's quote is. */
  readonly notedAtMs: number
}

export type MatchedBy = 'id' | 'terms'

export type Verdict =
  | { state: 'live'; quote: NotedQuote; matchedBy: MatchedBy }
  // `expiredForMs` is 0 between the start of the margin and the expiry itself.
  | { state: 'expired'; quote: NotedQuote; matchedBy: MatchedBy; expiredForMs: number }
  | { state: 'unknown' }

export interface Judgement {
  application: string | undefined
  /** The earliest time that the provider's clock may show: an uncertain clock must not refuse a live order. */
  providerEarliestMs: number
  /** A quote counts as expired when it has this much time left, or less. */
  marginMs: number
}

export interface QuoteLedger {
  readonly size: number
  note(quote: NotedQuote, providerEarliestMs: number): void
  /** Whether `note` would change nothing. */
  knows(quote: NotedQuote): boolean
  verdict(order: OrderTerms, judgement: Judgement): Verdict
  /** Notes that an unreadable quote was relayed: from then on, no older quote with these terms refuses an order. */
  noteUnreadable(quote: UnreadableQuote): void
  /** All cache keys of the quote: a provider may give the same quote to several clients. */
  cacheKeysOf(quote: NotedQuote): Iterable<string>
  /** Finds expired quotes too. */
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

// Steps per noted quote. More than one, so that old quotes are dropped faster than new quotes come. Few, so that the
// first quote after a quiet day does not block the event loop until a day's quotes are dropped.
const maxTidySteps = 8

const noLongerCached = ''

/**
 * Cache keys remembered per quote id, one for each client that got the quote; copies beyond this limit live until
 * expiry. All ids together have at most `entries` keys: the ids that have gained no key for the longest time lose
 * theirs first.
 */
const maxCacheKeysPerId = 1_000

/**
 * Remembers every relayed quote past its expiry, so that a late order is refused as "expired" and not as "unknown".
 *
 * A full ledger drops the quote that expires first. So it drops no live quote while it still has an expired one that
 * could refuse an order, and its bound cannot make a live quote look expired.
 */
export function createQuoteLedger(options: QuoteLedgerOptions): QuoteLedger {
  const { retentionMs } = options
  const termsMs = Math.min(options.termsMs, retentionMs)
  const recent = createExpiryQueue<Entry>()
  // Quotes that are found by id only, in half the memory. Nearly all of a day's quotes are here.
  const old = createExpiryQueue<Entry>()
  const byId = new Map<string, Entry>()
  const byTerms = createTermsIndex<Entry>()
  /** The cache keys of each id that the provider gave to several clients, whatever its terms were. */
  const cacheKeysById = new Map<string, Set<string>>()
  let cacheKeyCount = 0
  const unreadable = createUnreadableQuotes()

  function add(quote: NotedQuote): void {
    const { id, pairId, application, fromValue, toValue, expiresAtMs, ownEnd, cacheKey, notedAtMs } = quote
    // Nearly always equal; then both fields share one string.
    const requestedAmount = quote.requestedAmount === fromValue ? fromValue : quote.requestedAmount
    // Not spread from `quote`, because the copy would take a tenth more memory.
    const entry: Entry = {
      id,
      pairId,
      application,
      fromValue,
      requestedAmount,
      toValue,
      expiresAtMs,
      ownEnd,
      cacheKey,
      notedAtMs,
    }
    recent.add(entry)
    if (lastToExpire(entry, byId.get(id)) === entry) byId.set(id, entry)
    byTerms.add(entry)
  }

  function rememberCacheKeys(id: string, cacheKeys: readonly string[]): void {
    const keys = cacheKeysById.get(id) ?? new Set()
    cacheKeyCount -= keys.size
    for (const key of cacheKeys) if (key !== noLongerCached && keys.size < maxCacheKeysPerId) keys.add(key)
    cacheKeyCount += keys.size
    cacheKeysById.delete(id)
    cacheKeysById.set(id, keys)
    for (const oldest of cacheKeysById.keys()) {
      if (cacheKeyCount <= options.entries || oldest === id) break
      forgetCacheKeys(oldest)
    }
  }

  function forgetCacheKeys(id: string): void {
    cacheKeyCount -= cacheKeysById.get(id)?.size ?? 0
    cacheKeysById.delete(id)
  }

  function tidy(providerEarliestMs: number): void {
    for (let steps = 0; steps < maxTidySteps; steps += 1) {
      const queue = old.size > 0 ? old : recent
      const earliest = queue.earliest()
      if (earliest === undefined) return
      const isPastRetention = isExpired(earliest.expiresAtMs + retentionMs, providerEarliestMs)
      if (isPastRetention || recent.size + old.size > options.entries) {
        queue.removeEarliest()
        if (byId.get(earliest.id) === earliest) {
          byId.delete(earliest.id)
          forgetCacheKeys(earliest.id)
        }
        byTerms.delete(earliest)
      } else if (!moveToOld(providerEarliestMs)) return
    }
  }

  function moveToOld(providerEarliestMs: number): boolean {
    const entry = recent.earliest()
    if (entry === undefined || !isExpired(entry.expiresAtMs + termsMs, providerEarliestMs)) return false
    recent.removeEarliest()
    byTerms.delete(entry)
    entry.cacheKey = noLongerCached
    if (byId.get(entry.id) === entry) forgetCacheKeys(entry.id)
    old.add(entry)
    return true
  }

  return {
    get size() {
      return recent.size + old.size
    },

    note(quote, providerEarliestMs) {
      const known = byId.get(quote.id)
      const isRepeat =
        known !== undefined && known.cacheKey !== noLongerCached && haveEqualTerms(known, quote)
      if (known !== undefined && known.cacheKey !== quote.cacheKey)
        rememberCacheKeys(quote.id, [known.cacheKey, quote.cacheKey])
      if (!isRepeat) add(quote)
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
      const byQuoteId = order.quoteIds.map((id) => byId.get(id)).reduce(lastToExpire, undefined)
      if (byQuoteId !== undefined && !isExpired(byQuoteId.expiresAtMs + retentionMs, providerEarliestMs)) {
        return judge(byQuoteId, 'id', providerEarliestMs, marginMs)
      }
      const byOrderTerms = byTerms.find(order, application)
      if (byOrderTerms !== undefined && !isExpired(byOrderTerms.expiresAtMs + termsMs, providerEarliestMs)) {
        const verdict = judge(byOrderTerms, 'terms', providerEarliestMs, marginMs)
        if (verdict.state === 'live' || !unreadable.mayBeMeant(order, byOrderTerms)) return verdict
      }
      return { state: 'unknown' }
    },

    noteUnreadable: unreadable.note,

    cacheKeysOf: (quote) => new Set([quote.cacheKey, ...(cacheKeysById.get(quote.id) ?? [])]),

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
