import type { Clock } from '../clock.ts'
import type { Ending } from '../quotes/provider-clock.ts'
import type { OwnEnd } from '../quotes/quote.ts'
import { createCacheKeys } from './cache-keys.ts'
import { createExpiryQueue } from './expiry-queue.ts'
import { type Candidate, type Judgement, judgeByTerms, type Verdict, verdictOf } from './matching.ts'
import type { OrderTerms } from './order-terms.ts'
import { statedAmountOf } from './stated-amount.ts'
import { createTermsIndex, isSame, type LeftMs, type Orderer, type QuoteTerms } from './terms-index.ts'
import { createUnreadableQuotes, type UnreadableQuote } from './unreadable-quotes.ts'

/** A relayed quote, as the ledger keeps it. */
export interface NotedQuote extends QuoteTerms, Ending {
  readonly id: string
  /** The quote's cache key, for dropping it from the cache; empty once it has expired. */
  readonly cacheKey: string
  /** When it was first noted, by our clock. Metrics and the console show how old an order's quote is. */
  readonly notedAtMs: number
}

export interface QuoteLedger {
  readonly size: number
  /** How long ago the last quote expired that was dropped to make room; undefined if none was. */
  readonly droppedForMs: number | undefined
  note(quote: NotedQuote): void
  /** Whether `note` would change nothing. */
  knows(quote: NotedQuote): boolean
  verdict(order: OrderTerms, judgement: Judgement): Verdict
  /** Notes that an unreadable quote was relayed: from then on, no older quote with these terms refuses its client's order. */
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
  recall(order: OrderTerms, orderer: Orderer): Promise<boolean>
}

export interface QuoteLedgerOptions {
  entries: number
  /** How long past its expiry a quote is remembered. */
  retentionMs: number
  /** Reads the clock once, for any number of quotes. */
  leftNow(): LeftMs
  clock: Clock
  /** A quote was dropped to make room, so long after its expiry. */
  dropped?(expiredForMs: number): void
}

interface Entry extends NotedQuote {
  expiresAtMs: number
  ownEnd: OwnEnd | undefined
  cacheKey: string
}

// Steps per noted quote. More than one, so that old quotes are dropped faster than new quotes come. Few, so that the
// first quote after a quiet day does not block the event loop until a day's quotes are dropped.
const maxTidySteps = 8

const noLongerCached = ''
const later = Number.POSITIVE_INFINITY

/**
 * Remembers every relayed quote past its expiry, so that a late order is refused as "expired" and not as "unknown".
 *
 * A full ledger drops the quote that expires first. So it drops no live quote while it still has an expired one that
 * could refuse an order, and its bound cannot make a live quote look expired.
 */
export function createQuoteLedger(options: QuoteLedgerOptions): QuoteLedger {
  const { clock, leftNow, retentionMs } = options
  const live = createExpiryQueue<Entry>()
  // Apart from the live ones because their cache keys, which take a good part of the memory, are dropped.
  const expired = createExpiryQueue<Entry>()
  const byId = new Map<string, Entry>()
  const byTerms = createTermsIndex<Entry>()
  const cacheKeys = createCacheKeys(options.entries)
  const unreadable = createUnreadableQuotes(clock)
  /** The latest of the expiries of quotes that were dropped to make room. */
  let droppedUntilMs: number | undefined

  function add(quote: NotedQuote, leftMs: LeftMs): void {
    const { id, partition, toValue, expiresAtMs, ownEnd, cacheKey, notedAtMs } = quote
    // Texts that many quotes have in common are shared: they take less memory, and are compared at a glance.
    const { pairId, application, fromValue, requestedAmount } = byTerms.findAlike(quote) ?? quote
    // Not spread from `quote`, because the copy would take a tenth more memory.
    const entry: Entry = {
      id,
      pairId,
      application,
      partition,
      fromValue,
      requestedAmount,
      toValue,
      expiresAtMs,
      ownEnd,
      cacheKey,
      notedAtMs,
    }
    live.add(entry)
    rememberId(entry, leftMs)
    byTerms.add(entry, leftMs)
  }

  /** Of several entries with one id the one that ends last is found by it. */
  function rememberId(entry: Entry, leftMs: LeftMs): void {
    const other = byId.get(entry.id)
    if (other === undefined || leftMs(entry) > leftMs(other)) byId.set(entry.id, entry)
  }

  function findSame(quote: NotedQuote): Entry | undefined {
    const latest = byId.get(quote.id)
    return latest !== undefined && isSame(latest, quote) ? latest : byTerms.findSame(quote)
  }

  function tidy(leftMs: LeftMs): void {
    for (let steps = 0; steps < maxTidySteps; steps += 1) {
      const firstExpired = expired.earliest()
      const firstLive = live.earliest()
      // A quote that was given again with a later expiry may be the last of the expired ones.
      const isInLive = (firstLive?.expiresAtMs ?? later) < (firstExpired?.expiresAtMs ?? later)
      const earliest = isInLive ? firstLive : firstExpired
      if (earliest === undefined) return
      const isFull = live.size + expired.size > options.entries
      const earliestLeftMs = leftMs(earliest)
      const isForgotten = earliestLeftMs <= -retentionMs
      if (isFull && !isForgotten) noteDropped(earliest, earliestLeftMs)
      if (isFull || isForgotten) drop(earliest, isInLive ? live : expired)
      else if (firstLive !== undefined && leftMs(firstLive) <= 0) moveToExpired(firstLive)
      else return
    }
  }

  function noteDropped({ expiresAtMs }: Entry, leftMs: number): void {
    droppedUntilMs = Math.max(droppedUntilMs ?? 0, expiresAtMs)
    options.dropped?.(Math.max(0, -leftMs))
  }

  function drop(entry: Entry, queue: { removeEarliest(): void }): void {
    queue.removeEarliest()
    byTerms.delete(entry)
    if (byId.get(entry.id) !== entry) return
    byId.delete(entry.id)
    cacheKeys.forget(entry.id)
  }

  function moveToExpired(entry: Entry): void {
    live.removeEarliest()
    entry.cacheKey = noLongerCached
    if (byId.get(entry.id) === entry) cacheKeys.forget(entry.id)
    expired.add(entry)
  }

  /** Candidates for an order, as of now. What is past its retention is none, though it may not be dropped yet. */
  function candidatesAmong(quotes: readonly NotedQuote[], { partition }: Judgement): Candidate[] {
    const leftMs = leftNow()
    return quotes
      .map((quote) => {
        const isOwn = partition !== undefined && quote.partition === partition
        return { quote, leftMs: leftMs(quote), isOwn }
      })
      .filter((candidate) => candidate.leftMs > -retentionMs)
  }

  return {
    get size() {
      return live.size + expired.size
    },

    get droppedForMs() {
      return droppedUntilMs === undefined
        ? undefined
        : Math.max(0, -leftNow()({ expiresAtMs: droppedUntilMs }))
    },

    note(quote) {
      const leftMs = leftNow()
      const latest = byId.get(quote.id)
      if (latest !== undefined && latest.cacheKey !== quote.cacheKey)
        cacheKeys.add(quote.id, [latest.cacheKey, quote.cacheKey])
      const same = findSame(quote)
      if (same === undefined) add(quote, leftMs)
      else if (leftMs(quote) >= leftMs(same)) {
        same.expiresAtMs = quote.expiresAtMs
        same.ownEnd = quote.ownEnd
        same.cacheKey = quote.cacheKey
        rememberId(same, leftMs)
        byTerms.add(same, leftMs)
      }
      unreadable.noteRead(quote, leftMs(quote) + clock.nowMs() - quote.notedAtMs)
      tidy(leftMs)
    },

    knows(quote) {
      const known = findSame(quote)
      const leftMs = leftNow()
      if (known === undefined || leftMs(known) < leftMs(quote)) return false
      return known.cacheKey === quote.cacheKey || known.cacheKey === noLongerCached
    },

    verdict(order, judgement) {
      const named = order.quoteIds.flatMap(({ id }) => byId.get(id) ?? [])
      const namedHere = candidatesAmong(named, judgement)
      if (namedHere.length > 0) return verdictOf(namedHere, { rule: 'id', marginMs: judgement.marginMs })
      if (order.quoteIds.some(({ isBare }) => !isBare)) return { state: 'unknown', rule: 'id' }
      const stated = statedAmountOf(order)
      const candidates = candidatesAmong(byTerms.find(order, judgement, stated), judgement)
      const judgeBy = (quotes: Candidate[]) =>
        judgeByTerms(order, quotes, { stated, marginMs: judgement.marginMs })
      const verdict = judgeBy(candidates)
      if (verdict.state !== 'expired') return verdict
      const undoubted = candidates.filter(
        (candidate) =>
          candidate.leftMs > judgement.marginMs || !unreadable.mayBeMeant(order, judgement, candidate.quote),
      )
      if (undoubted.length === candidates.length) return verdict
      const byOthers = judgeBy(undoubted)
      return byOthers.state === 'unknown' ? { state: 'unknown', rule: 'unreadable' } : byOthers
    },

    noteUnreadable: unreadable.note,

    cacheKeysOf: (quote) => new Set([quote.cacheKey, ...cacheKeys.of(quote.id)]),

    findById: (id) => byId.get(id),
  }
}

/** For one replica alone: its own ledger knows everything. */
export function createLoneLedger({ note }: Pick<QuoteLedger, 'note'>): SharedLedger {
  return { note, noteHere: note, recall: async () => true }
}
