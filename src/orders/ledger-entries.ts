import { createExpiryQueue } from './expiry-queue.ts'
import type { LedgerEntry, NotedQuote } from './ledger.ts'
import { type LedgerMirror, noSerial } from './mirror.ts'
import type { RestoredTrust } from './restored-trust.ts'
import { createTermsIndex, isSame, type LeftMs, type TermsIndex } from './terms-index.ts'

export interface LedgerEntries {
  readonly size: number
  /** The latest of the expiries of quotes that were dropped to make room. */
  readonly droppedUntilMs: number | undefined
  readonly byId: ReadonlyMap<string, LedgerEntry>
  readonly byTerms: Pick<TermsIndex<LedgerEntry>, 'find'>
  findSame(quote: NotedQuote): LedgerEntry | undefined
  note(quote: NotedQuote, leftMs: LeftMs): void
  /** Keeps what the mirror has already. */
  restore(entry: LedgerEntry, leftMs: LeftMs): void
  /** Drops some of what is past its time or over the bound. Returns whether there may be more. */
  tidy(leftMs: LeftMs, maxSteps?: number): boolean
  all(): Iterable<LedgerEntry>
}

export interface LedgerEntriesOptions {
  entries: number
  retentionMs: number
  mirror: LedgerMirror
  restored: Pick<RestoredTrust, 'isRestored' | 'isTimeDoubted'>
  dropped?(expiredForMs: number): void
  forgetCacheKeys(id: string): void
}

// Steps per noted quote. More than one, so that old quotes are dropped faster than new quotes come. Few, so that the
// first quote after a quiet day does not block the event loop until a day's quotes are dropped.
const maxTidySteps = 8

export const noLongerCached = ''
const later = Number.POSITIVE_INFINITY

/**
 * The ledger's quotes, by id, by terms and in the order of their expiries.
 *
 * A full ledger drops the quote that expires first. So it drops no live quote while it still has an expired one that
 * could refuse an order, and its bound cannot make a live quote look expired.
 */
export function createLedgerEntries(options: LedgerEntriesOptions): LedgerEntries {
  const { entries: maxEntries, retentionMs, mirror, restored, dropped, forgetCacheKeys } = options
  const live = createExpiryQueue<LedgerEntry>()
  // Apart from the live ones because their cache keys, which take a good part of the memory, are dropped.
  const expired = createExpiryQueue<LedgerEntry>()
  const byId = new Map<string, LedgerEntry>()
  const byTerms = createTermsIndex<LedgerEntry>()
  let droppedUntilMs: number | undefined

  // Not spread from the quote, because such a copy would take a tenth more memory.
  function entryOf(quote: NotedQuote): LedgerEntry {
    const { id, pairId, application, partition, fromValue, requestedAmount, toValue } = quote
    const { expiresAtMs, ownEnd, cacheKey, notedAtMs } = quote
    return {
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
      serial: noSerial,
    }
  }

  function add(entry: LedgerEntry, leftMs: LeftMs): void {
    live.add(entry)
    const alike = byTerms.add(entry, leftMs)
    // Texts that many quotes have in common are shared: they take less memory, and are compared at a glance.
    if (alike !== undefined) {
      entry.pairId = alike.pairId
      entry.application = alike.application
      entry.fromValue = alike.fromValue
      entry.requestedAmount = alike.requestedAmount
    }
  }

  function renew(entry: LedgerEntry, quote: NotedQuote, leftMs: LeftMs): void {
    entry.expiresAtMs = quote.expiresAtMs
    entry.ownEnd = quote.ownEnd
    entry.cacheKey = quote.cacheKey
    rememberId(entry, leftMs)
    byTerms.add(entry, leftMs)
  }

  /** What is noted again gets a new serial. The old record goes last, or a crash could lose both. */
  function mirrorAgain(entry: LedgerEntry): void {
    const { serial } = entry
    entry.serial = mirror.note({ kind: 'quote', value: entry })
    if (serial !== noSerial) mirror.forget(serial)
  }

  /** Of several entries with one id the one that ends last is found by it. */
  function rememberId(entry: LedgerEntry, leftMs: LeftMs): void {
    const other = byId.get(entry.id)
    if (other === undefined || leftMs(entry) > leftMs(other)) byId.set(entry.id, entry)
  }

  function findSame(quote: NotedQuote): LedgerEntry | undefined {
    const latest = byId.get(quote.id)
    return latest !== undefined && isSame(latest, quote) ? latest : byTerms.findSame(quote)
  }

  /** Returns whether there may be more to do. */
  function tidy(leftMs: LeftMs, maxSteps = maxTidySteps): boolean {
    const mayForget = !restored.isTimeDoubted
    for (let steps = 0; steps < maxSteps; steps += 1) {
      const firstExpired = expired.earliest()
      const firstLive = live.earliest()
      // A quote that was given again with a later expiry may be the last of the expired ones.
      const isInLive = (firstLive?.expiresAtMs ?? later) < (firstExpired?.expiresAtMs ?? later)
      const earliest = isInLive ? firstLive : firstExpired
      if (earliest === undefined) return false
      const isFull = live.size + expired.size > maxEntries
      const earliestLeftMs = leftMs(earliest)
      const isForgotten = mayForget && earliestLeftMs <= -retentionMs
      if (isFull && !isForgotten) noteDropped(earliest, earliestLeftMs)
      if (isFull || isForgotten) drop(earliest, isInLive ? live : expired)
      else if (firstLive !== undefined && leftMs(firstLive) <= 0) moveToExpired(firstLive)
      else return false
    }
    return true
  }

  function noteDropped({ expiresAtMs }: LedgerEntry, leftMs: number): void {
    droppedUntilMs = Math.max(droppedUntilMs ?? 0, expiresAtMs)
    dropped?.(Math.max(0, -leftMs))
  }

  function drop(entry: LedgerEntry, queue: { removeEarliest(): void }): void {
    queue.removeEarliest()
    byTerms.delete(entry)
    if (entry.serial !== noSerial) mirror.forget(entry.serial)
    if (byId.get(entry.id) !== entry) return
    byId.delete(entry.id)
    forgetCacheKeys(entry.id)
  }

  function moveToExpired(entry: LedgerEntry): void {
    live.removeEarliest()
    entry.cacheKey = noLongerCached
    if (byId.get(entry.id) === entry) forgetCacheKeys(entry.id)
    expired.add(entry)
  }

  return {
    get size() {
      return live.size + expired.size
    },
    get droppedUntilMs() {
      return droppedUntilMs
    },
    byId,
    byTerms,
    findSame,
    note(quote, leftMs) {
      const same = findSame(quote)
      if (same === undefined) {
        const entry = entryOf(quote)
        add(entry, leftMs)
        rememberId(entry, leftMs)
        mirrorAgain(entry)
      } else if (leftMs(quote) >= leftMs(same)) {
        const isMirrored = same.expiresAtMs === quote.expiresAtMs && same.cacheKey === quote.cacheKey
        renew(same, quote, leftMs)
        if (!isMirrored || restored.isRestored(same.serial)) mirrorAgain(same)
      }
    },
    restore(entry, leftMs) {
      // After a crash a quote may be there twice: its newer record was written, and the older one not yet removed. Nothing
      // was dropped yet, so every id is in `byId`: asked first, because the search by terms takes longer than all else.
      const isKnownId = byId.has(entry.id)
      const same = isKnownId ? findSame(entry) : undefined
      if (same === undefined) {
        add(entry, leftMs)
        if (isKnownId) rememberId(entry, leftMs)
        else byId.set(entry.id, entry)
      } else if (leftMs(entry) < leftMs(same)) mirror.forget(entry.serial)
      else {
        mirror.forget(same.serial)
        renew(same, entry, leftMs)
        same.serial = entry.serial
      }
    },
    tidy,
    *all() {
      yield* live.all()
      yield* expired.all()
    },
  }
}
