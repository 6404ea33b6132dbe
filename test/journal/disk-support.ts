import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { systemTimers } from '../../src/clock.ts'
import { Events } from '../../src/events.ts'
import { DiskJournal, type DiskOptions } from '../../src/journal/disk.ts'
import type { JournalReader, JournalRecord, NotedQuote } from '../../src/journal/journal.ts'
import { createEventLog } from '../../src/operations/event-log.ts'
import { SummedLog } from '../../src/process/summed-log.ts'
import { until } from '../support/gateways/between.ts'
import { keptLog, type LogLine } from '../support/observing/log-lines.ts'

export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'quotegate-journal-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

export const noon = 1_763_640_000_000

/** A clock that a test sets. */
export function clockAt(nowMs: number, steadyMs = 1_000) {
  return {
    wall: nowMs,
    steady: steadyMs,
    timers: systemTimers,
    nowMs() {
      return this.wall
    },
    steadyMs() {
      return this.steady
    },
    advance(ms: number) {
      this.wall += ms
      this.steady += ms
    },
  }
}

export function quote(number: number, more: Partial<NotedQuote> = {}): NotedQuote {
  const { expiresAtMs = noon + 30_000 + number } = more
  return {
    id: `quote-${number}`,
    pairId: 'ETH_USDC',
    fromValue: '0.1',
    requestedAmount: '0.1',
    toValue: `${300 + number}.5`,
    application: 'wallet',
    partition: 'a-partition',
    cacheKey: '',
    notedAtMs: noon + number,
    expiresAtMs,
    refusedFromMs: expiresAtMs,
    wallAheadMs: noon - 1_000,
    ...more,
  }
}

export const noted = (number: number, more: Partial<NotedQuote> = {}): JournalRecord => ({
  kind: 'noted',
  quote: quote(number, more),
})
export const used = (id: string, expiresAtMs = noon + 30_000): JournalRecord => ({
  kind: 'used',
  quote: { id, expiresAtMs },
})
export const idsOf = (records: readonly JournalRecord[]) => records.map((record) => record.quote.id)

/** The memory that a journal is read into. */
export class Memory implements JournalReader {
  readonly restored: JournalRecord[] = []
  doubts = 0
  doubtsRestored = false
  readonly longestLifeMs = 300_000

  restore(record: JournalRecord): void {
    this.restored.push(record)
  }

  doubtRestored(): void {
    this.doubts += 1
    this.doubtsRestored = true
  }

  deliver(): void {}

  missing(): readonly JournalRecord[] {
    return []
  }
}

export interface Opened {
  journal: DiskJournal
  memory: Memory
  lines(atLeast?: LogLine['level']): LogLine[]
}

export async function opened(directory: string, options: Partial<DiskOptions> = {}): Promise<Opened> {
  const { logger: log, lines } = await keptLog()
  const journal = await DiskJournal.open({
    directory,
    swapBaseUrl: 'https://swap.example',
    salt: undefined,
    maxRecords: 200_000,
    retentionMs: 86_400_000,
    clock: clockAt(noon),
    log,
    events: new Events([createEventLog({ log, summedLog: new SummedLog(log), loggedAddress: () => '' })]),
    ...options,
  })
  onTestFinished(() => journal.close())
  const memory = new Memory()
  await journal.read(memory)
  return { journal, memory, lines }
}

export async function untilWritten({ journal }: Pick<Opened, 'journal'>): Promise<void> {
  await until(() => journal.facts.waiting === 0, 'all to be written')
}

/** The folder as a kill -9 at this instant would leave it. */
export function asIfKilled(directory: string): string {
  const copy = newFolder()
  const filter = (path: string) => !/\/lock[^/]*$/.test(path)
  cpSync(directory, copy, { recursive: true, filter })
  return copy
}

/** The names of the segments, the oldest first. */
export function segmentsOf(directory: string): string[] {
  const names = readdirSync(directory).filter((name) => name.endsWith('.ndjson'))
  const numberOf = (name: string) => Number(/\d+/.exec(name))
  return names.sort((one, other) => numberOf(one) - numberOf(other))
}

export const textOf = (directory: string, name: string) => readFileSync(join(directory, name), 'utf8')
