import type { DiskJournal } from '../journal/disk.ts'
import type { Journal, JournalReader, JournalRecord } from '../journal/journal.ts'
import type { StreamJournal } from '../journal/stream.ts'

/** The folder and the list that replicas share, as far as they are set, as one journal. */
export class Journals implements Journal {
  readonly disk: DiskJournal | undefined
  readonly stream: StreamJournal | undefined

  constructor({ disk, stream }: { disk?: DiskJournal | undefined; stream?: StreamJournal | undefined }) {
    this.disk = disk
    this.stream = stream
  }

  /** The folder first: what the shared list has counts for more. */
  async start(reader: JournalReader): Promise<void> {
    await this.disk?.read(reader)
    await this.stream?.start(reader)
  }

  append(record: JournalRecord): Promise<void> | void {
    this.disk?.append(record)
    return this.stream?.append(record)
  }

  caughtUp(): Promise<boolean> | boolean {
    return this.stream?.caughtUp() ?? true
  }

  async close(): Promise<void> {
    await this.stream?.close()
    await this.disk?.close()
  }
}
