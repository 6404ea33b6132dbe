import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { steadyMsOf, systemClock } from '../../src/clock.ts'
import { Events } from '../../src/events.ts'
import { DiskJournal } from '../../src/journal/disk.ts'
import type { JournalReader, JournalRecord } from '../../src/journal/journal.ts'
import { silentLogger } from '../../src/process/logger.ts'
import { idOf, swapUrl } from './gateway.ts'

export const dayMs = 86_400_000

/** Opens the folder, and reads what it has into nothing. */
export async function openFolder(
  directory: string,
  { maxRecords = 200_000, retentionMs = dayMs, restore = (_: JournalRecord): void => {} } = {},
): Promise<DiskJournal> {
  const folder = { directory, swapBaseUrl: swapUrl(), salt: undefined }
  const bounds = { maxRecords, retentionMs }
  const journal = await DiskJournal.open({
    ...folder,
    ...bounds,
    clock: systemClock,
    log: silentLogger(),
    events: new Events(),
  })
  const reader: JournalReader = {
    restore,
    doubtRestored() {},
    doubtsRestored: false,
    longestLifeMs: 0,
    deliver() {},
    missing: () => [],
  }
  await journal.read(reader)
  return journal
}

export function quoteRecord(index: number, notedAtMs = Date.now()): JournalRecord {
  const amount = String(index / 1_000)
  const expiresAtMs = notedAtMs + 30_000
  return {
    kind: 'noted',
    quote: {
      id: idOf(amount),
      pairId: 'ETH_USDC',
      fromValue: amount,
      requestedAmount: amount,
      // Canonical, as in the ledger.
      toValue: String(Number((index * 0.289_645_123).toFixed(6))),
      application: 'bench',
      partition: `client ${index % 200}`.padEnd(22, '.'),
      cacheKey: '',
      notedAtMs,
      expiresAtMs,
      refusedFromMs: expiresAtMs,
      wallAheadMs: systemClock.nowMs() - steadyMsOf(systemClock),
    },
  }
}

export const sizeOf = (path: string): number =>
  readdirSync(path, { recursive: true, withFileTypes: true }).reduce((sum, file) => {
    const size = statSync(join(file.parentPath, file.name), { throwIfNoEntry: false })
    return sum + (size?.isFile() ? size.size : 0)
  }, 0)
