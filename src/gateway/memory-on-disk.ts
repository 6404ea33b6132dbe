import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '../clock.ts'
import type { Ledger } from '../orders/ledger.ts'
import type { LedgerMirror, LedgerRecord } from '../orders/mirror.ts'
import type { NotedQuote } from '../orders/noted-quote.ts'
import type { RestoredTrust } from '../orders/restored-trust.ts'
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

function keptOf(record: LedgerRecord, { keepsCacheKeys }: KeptOptions): StateRecord {
  if (record.kind === 'unreadable') return record
  const { kind, value } = record
  return keepsCacheKeys ? record : { kind, value: { ...value, cacheKey: '' } }
}

export interface MirroredParts extends KeptOptions {
  state: State
  ledger: Pick<Ledger, 'restore' | 'sweep' | 'all'>
  used: UsedQuotes
  trust: Pick<RestoredTrust, 'isTimeDoubted' | 'doubtMs'>
  clock: Clock
  /** LEDGER_RETENTION_MS. */
  retentionMs: number
  /** For a shared store that has lost all. */
  fillStore(quotes: () => NotedQuote[], afterMs: number): void
}

/** The quote that was noted last comes last. */
function quotesOf(ledger: Pick<Ledger, 'all'>): NotedQuote[] {
  const inOrder = [...ledger.all()].sort(([left], [right]) => left - right)
  return inOrder.flatMap(([, { kind, value }]) => (kind === 'quote' ? [value] : []))
}

/** What is past its time is removed from the folder within a minute. */
const sweepEveryMs = 15_000

/** Brings memory to where the last process left it, and keeps the folder free of what is past its time. */
export function restoreMemory(parts: MirroredParts): { stop(): void } {
  const { state, ledger, used, trust } = parts
  const restored = state.restore({
    isTimeDoubted: () => trust.isTimeDoubted,
    *everything() {
      for (const [serial, record] of ledger.all()) yield [serial, keptOf(record, parts)] as NumberedRecord
      for (const [serial, value] of used.all()) yield [serial, { kind: 'use', value }] as NumberedRecord
    },
  })
  for (const { kind, serial, value } of restored.records) if (kind === 'use') used.restore(value, serial)
  ledger.restore(
    restored.records.filter((record) => record.kind !== 'use'),
    restored,
  )
  parts.fillStore(() => quotesOf(ledger), trust.doubtMs)
  return keepTidy(parts)
}

function keepTidy({ ledger, used, trust, clock, retentionMs }: MirroredParts): { stop(): void } {
  async function sweep(): Promise<void> {
    while (ledger.sweep()) await nextTurn()
    if (!trust.isTimeDoubted) used.sweep((quote) => clock.nowMs() - quote.expiresAtMs > retentionMs)
  }
  const sweeping = setInterval(() => void sweep(), sweepEveryMs).unref()
  return { stop: () => clearInterval(sweeping) }
}
