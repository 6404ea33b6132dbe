import { cpSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { systemTimers, type Timers } from '../../src/clock.ts'
import { Events } from '../../src/events.ts'
import {
  DiskJournal,
  type DiskOptions,
  type KeysInMemory,
} from '../../src/memory/disk.ts'
import type { FileReader, JournalRecord } from '../../src/memory/journal.ts'
import { createEventLog } from '../../src/operations/event-log.ts'
import { SummedLog } from '../../src/process/summed-log.ts'
import type { Note } from '../../src/quotes/note.ts'
import { until } from '../support/gateways/between.ts'
import { startProgram } from '../support/gateways/program.ts'
import { newFolder } from '../support/machine/new-folder.ts'
import { keptLog, type LogLine } from '../support/observing/log-lines.ts'

export { newFolder }

export const noon = 1_763_640_000_000

/** A clock that a test sets. */
export function clockAt(nowMs: number, steadyMs = 1_000, timers = systemTimers) {
  return {
    wall: nowMs,
    steady: steadyMs,
    timers,
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

/** Deadlines and pauses of seconds take a tenth of that. */
export const hurriedTimers: Timers = {
  ...systemTimers,
  setTimeout: (onTime, ms) => systemTimers.setTimeout(onTime, ms / 10),
}

export function noted(number: number, more: Partial<Note> = {}): JournalRecord {
  const { expiresAtMs = noon + 30_000 + number } = more
  const quote: Note = {
    id: `quote-${number}`,
    pairId: 'ETH_USDC',
    application: 'wallet',
    partition: 'a-partition',
    cacheKey: '',
    fromValue: '0.1',
    requestedAmount: '0.1',
    toValue: `${300 + number}.5`,
    hasNumbers: false,
    notedAtMs: noon + number,
    expiresAtMs,
    refusedFromMs: expiresAtMs,
    wallAheadMs: noon - 1_000,
    ...more,
  }
  return { kind: 'noted', quote }
}
export const noteds = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, at) => noted(from + at))
export const used = (id: string, expiresAtMs = noon + 30_000): JournalRecord => ({
  kind: 'used',
  quote: { id, expiresAtMs },
})

/** The ids that `noted` gives. */
export const ids = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, at) => `quote-${from + at}`)
export const idsOf = (records: readonly JournalRecord[]) =>
  records.map((record) => record.quote.id)

/** The memory that a file is read into, and written again from. */
class Memory implements FileReader {
  readonly restored: JournalRecord[] = []
  /** Of which a test says what is forgotten. */
  records: JournalRecord[] = []
  doubts = 0
  doubtsRestored = false

  restore(record: JournalRecord): boolean {
    this.restored.push(record)
    this.records.push(record)
    return true
  }

  doubtRestored(): void {
    this.doubts += 1
    this.doubtsRestored = true
  }

  live(): readonly JournalRecord[] {
    return [...this.records]
  }

  tidy(): number {
    return this.records.length
  }
}

export const noHolds = { restore() {}, live: () => [] }

/** The keys of orders. */
class Keys implements KeysInMemory {
  readonly kept = new Map<string, string>()

  restore(id: string, text: string): void {
    this.kept.set(id, text)
  }

  release(id: string): void {
    this.kept.delete(id)
  }

  live() {
    return [...this.kept].map(([id, text]) => ({ id, text, ageMs: 0 }))
  }

  get bytes(): number {
    return this.live().reduce((sum, { text }) => sum + text.length + 60, 0)
  }
}

export interface Opened {
  journal: DiskJournal
  memory: Memory
  keys: Keys
  lines(atLeast?: LogLine['level']): LogLine[]
}

export async function opened(
  directory: string,
  options: Partial<DiskOptions> = {},
): Promise<Opened> {
  const { logger: log, lines } = await keptLog()
  const journal = await DiskJournal.open({
    directory,
    swapBaseUrl: 'https://swap.example',
    salt: undefined,
    clock: clockAt(noon),
    log,
    events: new Events([
      createEventLog({ log, summedLog: new SummedLog(log), loggedAddress: () => '' }),
    ]),
    ...options,
  })
  onTestFinished(() => journal.close())
  const [memory, keys] = [new Memory(), new Keys()]
  await journal.read(memory, keys, noHolds)
  return { journal, memory, keys, lines }
}

/** As a caller is given a quote: it is in memory before it is written. */
export function append(
  { journal, memory }: Pick<Opened, 'journal' | 'memory'>,
  records: readonly JournalRecord[],
): void {
  for (const record of records) {
    memory.records.push(record)
    journal.append(record)
  }
}

export function appendSome(
  to: Pick<Opened, 'journal' | 'memory'>,
  from: number,
  until: number,
): void {
  append(to, noteds(from, until))
}

export async function appendAll(
  to: Pick<Opened, 'journal' | 'memory'>,
  records: readonly JournalRecord[],
): Promise<void> {
  append(to, records)
  await untilWritten(to)
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

export const fileName = 'journal.ndjson'

export const textOf = (directory: string, name = fileName) =>
  readFileSync(join(directory, name), 'utf8')

/** The built program over the folder. */
export function startOn(directory: string, settings: Record<string, string>) {
  const own = {
    STATE_DIRECTORY: directory,
    PORT: '0',
    ADMIN_PORT: '0',
    LOG_FORMAT: 'json',
  }
  const { child, exit, says } = startProgram([], { ...own, ...settings })
  return {
    child,
    /** Where it takes requests, once it does. */
    ready: async () => String((await says(/"trafficUrl":"([^"]+)"/))[1]),
    async end(signal: 'SIGKILL' | 'SIGTERM') {
      child.kill(signal)
      await exit
    },
  }
}
