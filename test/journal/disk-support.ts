import { cpSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { systemTimers, type Timers } from '../../src/clock.ts'
import { Events } from '../../src/events.ts'
import { DiskJournal, type DiskOptions } from '../../src/memory/disk.ts'
import type { JournalRecord, RewritingReader } from '../../src/memory/journal.ts'
import type { Note } from '../../src/memory/note.ts'
import { createEventLog } from '../../src/operations/event-log.ts'
import { SummedLog } from '../../src/process/summed-log.ts'
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
    notedAtMs: noon + number,
    expiresAtMs,
    refusedFromMs: expiresAtMs,
    wallAheadMs: noon - 1_000,
    ...more,
  }
  return { kind: 'noted', quote }
}
export const used = (id: string, expiresAtMs = noon + 30_000): JournalRecord => ({
  kind: 'used',
  quote: { id, expiresAtMs },
})

/** The ids that `noted` gives. */
export const ids = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, at) => `quote-${from + at}`)
export const idsOf = (records: readonly JournalRecord[]) =>
  records.map((record) => record.quote.id)

/** The memory that a journal is read into. */
class Memory implements RewritingReader {
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

  live(): readonly JournalRecord[] {
    return this.restored
  }
}

export interface Opened {
  journal: DiskJournal
  memory: Memory
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
    maxRecords: 200_000,
    retentionMs: 86_400_000,
    clock: clockAt(noon),
    log,
    events: new Events([
      createEventLog({ log, summedLog: new SummedLog(log), loggedAddress: () => '' }),
    ]),
    ...options,
  })
  onTestFinished(() => journal.close())
  const memory = new Memory()
  await journal.read(memory)
  return { journal, memory, lines }
}

export function appendSome(
  { journal }: Pick<Opened, 'journal'>,
  from: number,
  to: number,
): void {
  for (let number = from; number < to; number += 1) journal.append(noted(number))
}

export async function appendAll(
  { journal }: Pick<Opened, 'journal'>,
  records: readonly JournalRecord[],
): Promise<void> {
  for (const record of records) journal.append(record)
  await untilWritten({ journal })
}

/** So many at a time, so that no segment has more than `maxRecords` lets it have. */
export async function appendInSteps(
  opened: Pick<Opened, 'journal'>,
  from: number,
  to: number,
  step = 50,
): Promise<void> {
  for (let number = from; number < to; number += step) {
    appendSome(opened, number, Math.min(to, number + step))
    await untilWritten(opened)
  }
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
  return names.sort((one, other) => numberOf(one) - numberOf(other))
}

export const numberOf = (name: string) => Number(/\d+/.exec(name))

export const textOf = (directory: string, name: string) =>
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
