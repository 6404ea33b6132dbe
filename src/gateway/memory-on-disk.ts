import { setImmediate as nextTurn } from 'node:timers/promises'
import type { NotedQuote, QuoteLedger } from '../orders/ledger.ts'
import type { LedgerMirror, LedgerRecord } from '../orders/mirror.ts'
import type { RestoredTrust } from '../orders/restored-trust.ts'
import type { ProviderClock } from '../quotes/provider-clock.ts'
import type { UsedQuotes, UseMirror } from '../replicas/used-quotes.ts'
import type { NumberedRecord, State, StateRecord } from '../state/state.ts'

/** What the ledger and the uses of quotes write to, where STATE_DIRECTORY is set. */
export function createMirrors(
  state: State | undefined,
  options: KeptOptions,
): { ledgerMirror: LedgerMirror | undefined; useMirror: UseMirror | undefined } {
  if (state === undefined) return { ledgerMirror: undefined, useMirror: undefined }
  const { forget } = state
  return {
    ledgerMirror: { forget, note: (record) => state.note(keptOf(record, options)) },
    useMirror: { forget, note: (value) => state.note({ kind: 'use', value }) },
  }
}

interface KeptOptions {
  /** Without a shared store, no cache key outlives the process. */
  keepsCacheKeys: boolean
}

/** A quote is copied, because the ledger changes its quotes. */
function keptOf(record: LedgerRecord, { keepsCacheKeys }: KeptOptions): StateRecord {
  if (record.kind === 'unreadable') return record
  const { kind, value } = record
  return { kind, value: { ...value, ...(keepsCacheKeys ? {} : { cacheKey: '' }) } }
}

export interface MirroredParts extends KeptOptions {
  state: State
  ledger: Pick<QuoteLedger, 'restore' | 'sweep' | 'all'>
  used: UsedQuotes
  trust: Pick<RestoredTrust, 'isTimeDoubted' | 'doubtMs'>
  providerClock: Pick<ProviderClock, 'assume' | 'aheadMs' | 'orderLeftMs'>
  /** For a shared store that has lost all. */
  fillStore(quotes: () => NotedQuote[], afterMs: number): void
}

/** The quote that was noted last comes last. */
function quotesOf(ledger: Pick<QuoteLedger, 'all'>): NotedQuote[] {
  const inOrder = [...ledger.all()].sort(([left], [right]) => left - right)
  return inOrder.flatMap(([, { kind, value }]) => (kind === 'quote' ? [value] : []))
}

/** What is past its time is removed from the folder within a minute. */
const sweepEveryMs = 15_000

/** Brings memory to where the last process left it, and keeps the folder free of what is past its time. */
export function restoreMemory(parts: MirroredParts): { stop(): void } {
  const { state, ledger, used, trust, providerClock } = parts
  const restored = state.restore({
    providerAheadMs: () => providerClock.aheadMs,
    isTimeDoubted: () => trust.isTimeDoubted,
    *everything() {
      for (const [serial, record] of ledger.all()) yield [serial, keptOf(record, parts)] as NumberedRecord
      for (const [serial, value] of used.all()) yield [serial, { kind: 'use', value }] as NumberedRecord
    },
  })
  providerClock.assume(restored.providerAheadMs)
  for (const { kind, serial, value } of restored.records) if (kind === 'use') used.restore(value, serial)
  ledger.restore(
    restored.records.filter((record) => record.kind !== 'use'),
    restored,
  )
  parts.fillStore(() => quotesOf(ledger), trust.doubtMs)
  return keepTidy(parts)
}

function keepTidy({ ledger, used, trust, providerClock }: MirroredParts): { stop(): void } {
  async function sweep(): Promise<void> {
    while (ledger.sweep()) await nextTurn()
    if (!trust.isTimeDoubted) used.sweep((quote) => providerClock.orderLeftMs(quote) <= 0)
  }
  const sweeping = setInterval(() => void sweep(), sweepEveryMs).unref()
  return { stop: () => clearInterval(sweeping) }
}
