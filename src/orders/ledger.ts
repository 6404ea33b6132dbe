import type { Clock } from '../clock.ts'
import type { Ending } from '../quotes/provider-clock.ts'
import type { OwnEnd } from '../quotes/quote.ts'
import type { Span } from '../tracing/observer.ts'
import { createCacheKeys } from './cache-keys.ts'
import { createLedgerEntries, noLongerCached } from './ledger-entries.ts'
import { createLedgerVerdict } from './ledger-verdict.ts'
import type { Candidate, Judgement, Verdict } from './matching.ts'
import { type LedgerMirror, noMirror, type RestoredRecord, type SerialRecord } from './mirror.ts'
import type { OrderTerms } from './order-terms.ts'
import { createRestoredTrust, type Restoration, type RestoredTrust } from './restored-trust.ts'
import type { LeftMs, Orderer, QuoteTerms } from './terms-index.ts'
import { createUnreadableQuotes, type UnreadableQuote } from './unreadable-quotes.ts'

/** A relayed quote, as the ledger keeps it. */
export interface NotedQuote extends QuoteTerms, Ending {
  readonly id: string
  /** The quote's cache key, for dropping it from the cache; empty once it has expired. */
  readonly cacheKey: string
  /** When it was first noted, by our clock. Metrics and the console show how old an order's quote is. */
  readonly notedAtMs: number
}

export interface LedgerEntry extends NotedQuote {
  pairId: string
  application: string
  fromValue: string
  requestedAmount: string
  expiresAtMs: number
  ownEnd: OwnEnd | undefined
  cacheKey: string
  /** Its number in the mirror. */
  serial: number
}

export interface QuoteLedger {
  readonly size: number
  /** How long ago the last quote expired that was dropped to make room; undefined if none was. */
  readonly droppedForMs: number | undefined
  note(quote: NotedQuote): void
  /** Whether `note` would change nothing. */
  knows(quote: NotedQuote): boolean
  verdict(order: OrderTerms, judgement: Judgement): Verdict
  /** The quotes among which `verdict` decides: for people who ask why. */
  considered(order: OrderTerms, judgement: Judgement): readonly Candidate[]
  /** Notes that an unreadable quote was relayed: until its client is given another, no quote refuses an order with its terms. */
  noteUnreadable(quote: UnreadableQuote): void
  /** All cache keys of the quote: a provider may give the same quote to several clients. */
  cacheKeysOf(quote: NotedQuote): Iterable<string>
  /** Finds expired quotes too. */
  findById(id: string): NotedQuote | undefined
  /** Called once, before anything is noted: with what an earlier process left, in the order of the serials. */
  restore(records: Iterable<RestoredRecord>, from: Restoration): void
  /** Drops some of what is past its time. Returns whether there may be more. */
  sweep(): boolean
  /** All that the mirror has to hold. */
  all(): Iterable<SerialRecord>
}

/** What all replicas know of the quotes that they gave out. The ledger of each replica judges; this brings it the rest. */
export interface SharedLedger {
  /**
   * Notes a quote here and for all replicas. Settles when every replica can find it, or the store has failed: until
   * then the client must not have the quote, because its order could reach another replica first.
   */
  note(quote: NotedQuote, span?: Span): Promise<void> | void
  /** Notes a quote here that another replica has noted for all. */
  noteHere(quote: NotedQuote): void
  /**
   * Notes here what any replica has noted that the order can mean. False: there may be more, because the store failed
   * just now, or shortly ago and not every replica has written again what it lost.
   */
  recall(order: OrderTerms, orderer: Orderer, span?: Span): Promise<boolean>
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
  mirror?: LedgerMirror | undefined
  restored?: RestoredTrust
}

const maxSweepSteps = 200

/** Remembers every relayed quote past its expiry, so that a late order is refused as "expired" and not as "unknown". */
export function createQuoteLedger(options: QuoteLedgerOptions): QuoteLedger {
  const { clock, leftNow, retentionMs, mirror = noMirror } = options
  const { restored = createRestoredTrust({ clock, retentionMs, isProviderHeard: () => true }) } = options
  const cacheKeys = createCacheKeys(options.entries)
  const kept = createLedgerEntries({ ...options, mirror, restored, forgetCacheKeys: cacheKeys.forget })
  const { byId, byTerms } = kept
  const unreadable = createUnreadableQuotes(clock, mirror)
  return {
    get size() {
      return kept.size
    },

    get droppedForMs() {
      const { droppedUntilMs: expiresAtMs } = kept
      return expiresAtMs === undefined ? undefined : Math.max(0, -leftNow()({ expiresAtMs }))
    },

    note(quote) {
      const leftMs = leftNow()
      const latest = byId.get(quote.id)
      if (latest !== undefined && latest.cacheKey !== quote.cacheKey)
        cacheKeys.add(quote.id, [latest.cacheKey, quote.cacheKey])
      kept.note(quote, leftMs)
      unreadable.noteRead(quote, leftMs(quote) + clock.nowMs() - quote.notedAtMs)
      kept.tidy(leftMs)
    },

    knows(quote) {
      const known = kept.findSame(quote)
      const leftMs = leftNow()
      if (known === undefined || leftMs(known) < leftMs(quote)) return false
      return known.cacheKey === quote.cacheKey || known.cacheKey === noLongerCached
    },

    ...createLedgerVerdict({ byId, byTerms, unreadable, restored, leftNow, retentionMs }),

    noteUnreadable: unreadable.note,

    cacheKeysOf: (quote) => new Set([quote.cacheKey, ...cacheKeys.of(quote.id)]),

    findById: (id) => byId.get(id),

    restore(records, from) {
      restored.begin(from)
      const leftMs = leftNow()
      const nowMs = clock.nowMs()
      // A quote's own end was kept in wall time.
      const areOwnEndsWrong = restored.isTimeDoubted
      for (const { kind, serial, value } of records) {
        if (kind === 'unreadable') {
          unreadable.restore(value, serial)
          continue
        }
        if (areOwnEndsWrong) value.ownEnd = undefined
        const lifeMs = leftMs(value) + nowMs - value.notedAtMs
        restored.noteLife(lifeMs)
        unreadable.noteRead(value, lifeMs)
        kept.restore(value, leftMs)
      }
      // LEDGER_ENTRIES may be lower now.
      while (kept.size > options.entries) kept.tidy(leftMs)
    },

    sweep() {
      if (!restored.isTimeDoubted) unreadable.sweep()
      return kept.tidy(leftNow(), maxSweepSteps)
    },

    *all() {
      for (const entry of kept.all()) yield [entry.serial, { kind: 'quote', value: entry }]
      yield* unreadable.all()
    },
  }
}

/** For one replica alone: its own ledger knows everything. */
export function createLoneLedger({ note }: Pick<QuoteLedger, 'note'>): SharedLedger {
  return { note, noteHere: note, recall: async () => true }
}
