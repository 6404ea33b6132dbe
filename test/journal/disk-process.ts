// A process with a journal: opens the folder that it is given once its input says so, says what came of it, and holds the
// folder until it is killed.

import { systemClock } from '../../src/clock.ts'
import { Events } from '../../src/events.ts'
import { DiskJournal } from '../../src/journal/disk.ts'
import type { JournalReader } from '../../src/journal/journal.ts'
import { silentLogger } from '../../src/process/logger.ts'

const [directory = ''] = process.argv.slice(2)
const options = { directory, swapBaseUrl: 'https://swap.example', salt: undefined, clock: systemClock }
const reader: JournalReader = {
  restore() {},
  doubtRestored() {},
  doubtsRestored: false,
  deliver() {},
  missing: () => [],
  longestLifeMs: 0,
}

async function open(): Promise<void> {
  try {
    const bounds = { maxRecords: 200_000, retentionMs: 86_400_000 }
    const journal = await DiskJournal.open({
      ...options,
      ...bounds,
      log: silentLogger(),
      events: new Events(),
    })
    await journal.read(reader)
    process.stdout.write('open\n')
  } catch (error) {
    process.stdout.write(`${(error as Error).message}\n`)
  }
}

process.stdout.write('ready\n')
process.stdin.once('data', open)
