import { type Clock, endOfTurn, inTime, lookAt } from '../clock.ts'
import { currentSpan, inSpan, type Span } from '../process/span.ts'
import { orderLeftMs } from '../quotes/ends.ts'
import type { JournalRecord } from './journal.ts'
import { encodeRecord } from './records.ts'
import type { StreamStore } from './stream-store.ts'
import type { Well } from './well.ts'
import { WriteQueue } from './write-queue.ts'

/** Beyond this number, waiting records are dropped. They are appended from the ledger later. */
const maxQueued = 10_000
const maxInFlight = 1_000
const retryAfterMs = 25

/** Every replica has LEDGER_ENTRIES, and after a loss each appends some of them again. */
const entriesPerReplica = 2.5

export interface StreamOptions {
  store: StreamStore
  key: string
  /** LEDGER_ENTRIES. */
  maxEntries: number
  timeoutMs: number
  clock: Clock
}

interface Unwritten {
  readonly record: JournalRecord
  /** Whether the record was never appended before. */
  readonly isFirst: boolean
  readonly span: Span | undefined
}

/** Each record is appended once: without an answer it is in the socket, and may still arrive. */
export class StreamWriter {
  readonly #options: StreamOptions
  readonly #well: Well<'journal'>
  readonly #onAppended: (id: string, record: JournalRecord) => void
  readonly #queue: WriteQueue<Unwritten>
  /** Since startup. */
  appended = 0
  hasDropped = false

  constructor(
    options: StreamOptions,
    well: Well<'journal'>,
    onAppended: (id: string, record: JournalRecord) => void,
  ) {
    this.#options = options
    this.#well = well
    this.#onAppended = onAppended
    this.#queue = new WriteQueue({
      timers: options.clock.timers,
      maxSize: maxQueued,
      maxInFlight,
      retryAfterMs,
      isUp: () => options.store.up,
      send: (unwritten) => this.#send(unwritten),
      dropped: () => {
        this.hasDropped = true
      },
    })
  }

  get queued(): number {
    return this.#queue.length
  }

  get waiting(): number {
    return this.#queue.length + this.#queue.inFlight
  }

  /** Settles once the entry is acknowledged, or once waiting does not help. */
  append(record: JournalRecord): Promise<void> | void {
    const { store, timeoutMs, clock } = this.#options
    const settled = this.#queue.put({ record, isFirst: true, span: currentSpan() })
    // The time is counted from the write: this process may stand still before it.
    if (store.up) return endOfTurn().then(() => inTime(settled, timeoutMs, clock.timers))
  }

  appendAgain(record: JournalRecord): void {
    void this.#queue.put({ record, isFirst: false, span: undefined })
  }

  pump(): void {
    this.#queue.pump()
  }

  close(): void {
    this.#queue.close()
  }

  async #send(unwritten: Unwritten): Promise<boolean> {
    const { store, key, maxEntries, timeoutMs, clock } = this.#options
    const { record, span } = unwritten
    // What all requests of this turn append goes out in one write.
    await endOfTurn()
    const sentAtMs = clock.timers.steadyMs()
    const entry = {
      text: encodeRecord(record, lookAt(clock)),
      maxEntries: Math.ceil(maxEntries * entriesPerReplica),
    }
    const append = () => store.appendEntry(key, entry)
    try {
      const id = await this.#well.inTime(inSpan(span, append), timeoutMs)
      this.appended += 1
      this.#onAppended(id, record)
      if (this.#wasLate(unwritten, clock.timers.steadyMs() - sentAtMs))
        this.appendAgain(record)
      return true
    } catch {
      this.#well.doubt()
      return false
    }
  }

  /**
   * Whether an entry was slow, and is appended again. It says what was left when it was sent, but readers count from
   * its arrival; the earlier of two ends counts. Not after a loss, when a slow store would get everything twice.
   */
  #wasLate({ record, isFirst }: Unwritten, tookMs: number): boolean {
    const { timeoutMs, clock } = this.#options
    if (!isFirst || tookMs <= timeoutMs || record.kind !== 'noted') return false
    return orderLeftMs(record.quote, lookAt(clock)) > 0
  }
}
