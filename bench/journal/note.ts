import { rmSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import type { DiskJournal } from '../../src/journal/disk.ts'
import type { JournalRecord } from '../../src/journal/journal.ts'
import { openFolder, quoteRecord } from './records.ts'

/** 4,600 quotes a second, about as many as one process requests. */
const perTick = 92
const tickMs = 20
const warmUpMs = 3_000
const roundMs = 8_000
const kept = 20_000

/** Processor time of all threads for a quote that is noted, in µs. */
export async function noteCost(folder: string | undefined): Promise<number> {
  const journal = folder === undefined ? undefined : await openFolder(folder)
  const notes = new Notes(journal)
  await notes.add(warmUpMs)
  const noted = notes.count
  const before = process.cpuUsage()
  await notes.add(roundMs)
  const { user, system } = process.cpuUsage(before)
  await journal?.close()
  if (folder !== undefined) rmSync(folder, { recursive: true })
  return (user + system) / (notes.count - noted)
}

class Notes {
  readonly #journal: DiskJournal | undefined
  /** As much memory as the ledger has, whose oldest quote goes with each new one. */
  readonly #memory = new Map<number, JournalRecord>()
  count = 0

  constructor(journal: DiskJournal | undefined) {
    this.#journal = journal
  }

  async add(forMs: number): Promise<void> {
    const endMs = performance.now() + forMs
    while (performance.now() < endMs) {
      for (let index = 0; index < perTick; index += 1) this.#note()
      await pause(tickMs)
    }
    // What was noted last is written as well.
    await pause(200)
  }

  #note(): void {
    this.count += 1
    const record = quoteRecord(this.count)
    this.#memory.set(this.count, record)
    this.#memory.delete(this.count - kept)
    this.#journal?.append(record)
  }
}
