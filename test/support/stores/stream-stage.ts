import { onTestFinished } from 'vitest'
import { type Clock, lookAt, systemClock } from '../../../src/clock.ts'
import { Events } from '../../../src/events.ts'
import type { JournalRecord, ListReader } from '../../../src/memory/journal.ts'
import type { SharedStore } from '../../../src/memory/store.ts'
import { StreamJournal, type StreamJournalOptions } from '../../../src/memory/stream.ts'
import { silentLogger } from '../../../src/process/logger.ts'
import { orderLeftMs } from '../../../src/quotes/ends.ts'
import type { Note } from '../../../src/quotes/note.ts'
import { pause, until } from '../gateways/between.ts'
import { keptLog, levels } from '../observing/log-lines.ts'
import { storeAt } from './valkey.ts'

export const streamKey = 'quotegate:journal:test'

interface Known {
  quote: Note
  own: boolean
  generation: number
}

/** A ledger in a few lines: what was noted here or delivered, by id. */
export class MemoryReader implements ListReader {
  readonly quotes = new Map<string, Known>()
  readonly used = new Map<string, { expiresAtMs: number; generation: number }>()
  delivered = 0
  longestLifeMs = 1_000
  readonly #clock: Clock

  constructor(clock: Clock) {
    this.#clock = clock
  }

  note(quote: Note): void {
    this.quotes.set(quote.id, { quote, own: true, generation: 0 })
  }

  use(id: string, expiresAtMs: number): void {
    this.used.set(id, { expiresAtMs, generation: 0 })
  }

  deliver(record: JournalRecord, generation: number): void {
    this.delivered += 1
    const { id } = record.quote
    if (record.kind === 'used') {
      this.used.set(id, { expiresAtMs: record.quote.expiresAtMs, generation })
      return
    }
    const known = this.quotes.get(id)
    const isEarlier =
      known === undefined || record.quote.refusedFromMs < known.quote.refusedFromMs
    const quote = isEarlier ? record.quote : known.quote
    this.quotes.set(id, { quote, own: known?.own ?? false, generation })
  }

  missing(generation: number, own: boolean): readonly JournalRecord[] {
    const now = lookAt(this.#clock)
    const used = [...this.used].filter(([, use]) => use.generation !== generation)
    const noted = [...this.quotes.values()]
      .filter((known) => known.generation !== generation && (known.own || !own))
      .map(({ quote }) => quote)
      .sort(
        (left, right) =>
          Number(orderLeftMs(right, now) > 0) - Number(orderLeftMs(left, now) > 0),
      )
    return [
      ...used.map(
        ([id, { expiresAtMs }]): JournalRecord => ({
          kind: 'used',
          quote: { id, expiresAtMs },
        }),
      ),
      ...noted.map((quote): JournalRecord => ({ kind: 'noted', quote })),
    ]
  }
}

export interface StreamReplica {
  store: SharedStore
  journal: StreamJournal
  reader: MemoryReader
  /** Notes quotes and waits as long as their callers would. */
  note(ids: readonly string[], lifeMs?: number): Promise<void>
  use(id: string): Promise<void>
  knows(ids: readonly string[]): boolean
  complaints(): string[]
}

interface ReplicaOptions
  extends Partial<Pick<StreamJournalOptions, 'clock' | 'timeoutMs' | 'maxEntries'>> {
  mayBeDown?: boolean
}

export const ids = (name: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${name}-${index}`)

/** A ledger, the journal and the store as one replica has them. */
export async function streamReplica(
  url: string,
  options: ReplicaOptions = {},
): Promise<StreamReplica> {
  const { clock = systemClock, timeoutMs = 500, maxEntries = 200_000 } = options
  const log = await keptLog('info')
  const store = await storeAt(url, {
    timeoutMs,
    log: log.logger,
    clock,
    mayBeDown: true,
  })
  const journal = journalOn(store, { maxEntries, timeoutMs, clock, log: log.logger })
  const reader = new MemoryReader(clock)
  await journal.start(reader)
  if (!options.mayBeDown) await until(() => store.up, 'a store that is up')
  return {
    store,
    journal,
    reader,
    async note(names, lifeMs = 60_000) {
      await Promise.all(
        names.map((id) => {
          const quote = quoteOf(id, clock, lifeMs)
          reader.note(quote)
          return journal.append({ kind: 'noted', quote })
        }),
      )
    },
    async use(id) {
      const expiresAtMs = clock.nowMs() + 60_000
      reader.use(id, expiresAtMs)
      await journal.append({ kind: 'used', quote: { id, expiresAtMs } })
    },
    knows: (names) => names.every((id) => reader.quotes.has(id)),
    complaints: () => log.lines(levels.warn).map(({ msg }) => msg),
  }
}

export function quoteOf(id: string, clock: Clock, lifeMs: number): Note {
  const { nowMs, steadyMs } = lookAt(clock)
  return {
    id,
    pairId: 'ETH_USDC',
    application: 'wallet',
    partition: 'b0Zr-FhzXc6BX7hFgzgBTg',
    fromValue: '0.1',
    requestedAmount: '0.1',
    toValue: '289.604811',
    hasNumbers: false,
    cacheKey: 'key',
    expiresAtMs: nowMs + lifeMs,
    notedAtMs: nowMs,
    refusedFromMs: nowMs + lifeMs,
    wallAheadMs: nowMs - steadyMs,
  }
}

/** Until the journal says that all that any replica noted is here. */
export async function untilCaughtUp(
  ...replicas: readonly StreamReplica[]
): Promise<void> {
  for (const { journal } of replicas) {
    const deadline = performance.now() + 30_000
    while (!(await journal.caughtUp())) {
      if (performance.now() > deadline) throw new Error('still not caught up')
      await pause(20)
    }
  }
}

/** What keeps a store's state known where nothing is noted: the poll of a journal. */
export function polled(store: SharedStore, timeoutMs: number): void {
  const journal = journalOn(store, {
    maxEntries: 100,
    timeoutMs,
    clock: systemClock,
    log: silentLogger(),
  })
  void journal.start(new MemoryReader(systemClock)).catch(() => {})
}

type JournalOptions = Pick<
  StreamJournalOptions,
  'maxEntries' | 'timeoutMs' | 'clock' | 'log'
>

function journalOn(store: SharedStore, options: JournalOptions): StreamJournal {
  const journal = new StreamJournal({
    store,
    key: streamKey,
    ...options,
    events: new Events(),
  })
  onTestFinished(() => journal.close())
  return journal
}
