import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { lookAt, systemClock } from '../../src/clock.ts'
import type { NotedQuote } from '../../src/orders/noted-quote.ts'
import { useFolder } from '../../src/state/folder.ts'
import { openState, type StateOptions } from '../../src/state/open-state.ts'
import type { NumberedRecord, Restored, RestoredRecord, State, StateRecord } from '../../src/state/state.ts'
import { keptLog, type LogLine } from '../support/observing/log-lines.ts'

export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'quotegate-state-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

export function quote(number: number, more: Partial<NotedQuote> = {}): NotedQuote {
  const { expiresAtMs = 1_763_651_871_000 + number } = more
  return {
    id: `quote-${number}`,
    pairId: 'ETH_USDC',
    fromValue: '0.1',
    requestedAmount: '0.1',
    toValue: `${300 + number}.5`,
    application: 'wallet',
    partition: 'a-partition',
    cacheKey: `key-${number}`,
    notedAtMs: 1_763_651_841_000 + number,
    expiresAtMs,
    refusedFromMs: expiresAtMs,
    wallAheadMs: 0,
    ...more,
  }
}

export const record = (number: number): StateRecord => ({ kind: 'quote', value: quote(number) })

export interface OpenedState {
  state: State
  restored: Omit<Restored, 'records'> & { records: NumberedRecord[] }
  lines(atLeast?: LogLine['level']): LogLine[]
  failures: string[]
  /** The memory that the state mirrors, as the test keeps it. */
  memory: Map<number, StateRecord>
  note(record: StateRecord): number
  forget(serial: number): void
}

export async function opened(directory: string, options: Partial<StateOptions> = {}): Promise<OpenedState> {
  const { logger: log, lines } = await keptLog()
  const failures: string[] = []
  const observer = { failed: (operation: string) => failures.push(operation) }
  const state = await openState({
    directory,
    swapBaseUrl: 'https://swap.example',
    salt: undefined,
    maxQuotes: 200_000,
    clock: systemClock,
    log,
    observer,
    ...options,
  })
  onTestFinished(() => state.close().catch(() => {}))
  const memory = new Map<number, StateRecord>()
  const restored = state.restore({
    everything: () => memory,
    isTimeDoubted: () => false,
  })
  const now = lookAt(options.clock ?? systemClock)
  const records = restored.records.map((read) => numberedRecord(read, now.nowMs - now.steadyMs))
  for (const [serial, kept] of records) memory.set(serial, kept)
  return {
    state,
    restored: { ...restored, records },
    lines,
    failures,
    memory,
    note(added) {
      const serial = state.note(added)
      memory.set(serial, added)
      return serial
    },
    forget(serial) {
      memory.delete(serial)
      state.forget(serial)
    },
  }
}

/** A quote that is read has its end by the clocks of this process; `quote` gives it none. */
function numberedRecord({ serial, ...record }: RestoredRecord, wallAheadMs: number): NumberedRecord {
  if (record.kind !== 'quote') return [serial, record]
  const { value } = record
  if (Math.abs(value.wallAheadMs - wallAheadMs) > 60_000) throw new Error(`the clocks of record ${serial}`)
  return [serial, { kind: 'quote', value: { ...value, wallAheadMs: 0 } }]
}

export const idsOf = (records: readonly NumberedRecord[]) =>
  records.map(([, { value }]) => ('id' in value ? value.id : value.pairId))

/** Resolves once all that was noted is in the store. */
export async function untilWritten({ state }: Pick<OpenedState, 'state'>): Promise<void> {
  await untilTrue(() => state.facts.backlog === 0, 'the backlog to be written')
}

/** Resolves once all that was written is synced. */
export async function untilSynced(opened: OpenedState, directory: string): Promise<void> {
  await untilWritten(opened)
  const folder = await useFolder(directory)
  await untilTrue(async () => {
    const mark = await folder.readSyncMark()
    return typeof mark === 'object' && mark.count === opened.state.facts.records
  }, 'the sync')
}

export async function untilTrue(isTrue: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const deadlineMs = performance.now() + 30_000
  while (!(await isTrue())) {
    if (performance.now() > deadlineMs) throw new Error(`waited for ${what} without success`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

/** The folder as a kill -9 at this instant would leave it. */
export function asIfKilled(directory: string): string {
  const copy = newFolder()
  cpSync(directory, copy, { recursive: true })
  return copy
}

/** Changes one byte in the middle of the largest file whose name matches. */
export function flipByte(directory: string, name: RegExp, at = 0.5): void {
  const files = readdirSync(directory).filter((file) => name.test(file))
  const [largest = ''] = files.sort((one, other) => sizeOf(other) - sizeOf(one))
  function sizeOf(file: string): number {
    return readFileSync(join(directory, file)).length
  }
  const bytes = readFileSync(join(directory, largest))
  const index = Math.floor(bytes.length * at)
  bytes[index] = (bytes[index] ?? 0) ^ 0x40
  // Another file of that name, because the one that is there may have links.
  rmSync(join(directory, largest))
  writeFileSync(join(directory, largest), bytes)
}
