// A process with a journal: opens the folder that it is given once its input says so, says what came of it, and holds the
// folder until it is killed. Each further line of its input has it append so many records, and say so.

import { createInterface } from 'node:readline'
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

async function open(): Promise<DiskJournal | undefined> {
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
    return journal
  } catch (error) {
    process.stdout.write(`${(error as Error).message}\n`)
    return undefined
  }
}

let journal: Promise<DiskJournal | undefined> | undefined
let next = 0
process.stdout.write('ready\n')
for await (const line of createInterface(process.stdin)) {
  journal ??= open()
  for (let left = Number(line); left > 0; left -= 1) {
    ;(await journal)?.append({
      kind: 'used',
      quote: { id: `used-${next}`, expiresAtMs: Date.now() + 30_000 },
    })
    next += 1
  }
  if (Number(line) > 0) process.stdout.write(`appended ${next}\n`)
}
