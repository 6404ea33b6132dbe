import { type Clock, inTime, lookAt, type Timers } from '../clock.ts'
import { currentSpan, inSpan, type Span } from '../process/span.ts'
import { orderLeftMs } from '../quotes/ends.ts'
import type { Caution } from './caution.ts'
import type { JournalRecord } from './journal.ts'
import { encodeRecord } from './records.ts'
import type { StreamStore } from './stream-store.ts'

/** Records that are waiting are dropped past this number. What they say is in the ledger, and is appended from there. */
const maxQueued = 10_000
const maxInFlight = 1_000
const retryAfterMs = 25

/** Every replica has as much, and after a loss each appends a part of that again. */
const entriesPerReplica = 2.5

export interface StreamOptions {
  store: StreamStore
  key: string
  /** LEDGER_ENTRIES, as it is set. */
  maxEntries: number
  timeoutMs: number
  clock: Clock
}

interface Waiting {
  readonly record: JournalRecord
  /** It was not appended before. */
  readonly isFirst: boolean
  readonly span: Span | undefined
  /** Nothing is gained by waiting for it any longer. */
  settle: () => void
}

const nothing = () => {}

/** Appends records, each once: what was sent and is not answered yet is in the socket, and may still arrive. */
export class StreamWriter {
  readonly #options: StreamOptions
  readonly #timers: Timers
  readonly #caution: Caution
  readonly #onAppended: (id: string, record: JournalRecord) => void
  #queue: Waiting[] = []
  #inFlight = 0
  #pausedUntilMs = 0
  /** Since the start. */
  appended = 0
  /** Whether records were dropped from the queue. */
  hasDropped = false

  constructor(
    options: StreamOptions,
    caution: Caution,
    onAppended: (id: string, record: JournalRecord) => void,
  ) {
    this.#options = options
    this.#timers = options.clock.timers
    this.#caution = caution
    this.#onAppended = onAppended
  }

  get queued(): number {
    return this.#queue.length
  }

  get waiting(): number {
    return this.#queue.length + this.#inFlight
  }

  /** Settles when the entry is acknowledged, or when waiting does not help. */
  append(record: JournalRecord): Promise<void> | void {
    const { store, timeoutMs } = this.#options
    const waiting: Waiting = {
      record,
      isFirst: true,
      span: currentSpan(),
      settle: nothing,
    }
    this.#push(waiting)
    if (!store.up) return
    const settled = new Promise<void>((resolve) => {
      waiting.settle = resolve
    })
    this.pump()
    return inTime(settled, timeoutMs, this.#timers)
  }

  appendAgain(record: JournalRecord): void {
    this.#push({ record, isFirst: false, span: undefined, settle: nothing })
  }

  pump(): void {
    const { store } = this.#options
    if (this.#timers.steadyMs() < this.#pausedUntilMs) return
    let sent = 0
    while (sent < this.#queue.length && this.#inFlight < maxInFlight && store.up)
      this.#send(this.#queue[sent++] as Waiting)
    this.#queue.splice(0, sent)
  }

  #push(waiting: Waiting): void {
    this.#queue.push(waiting)
    if (this.#queue.length <= maxQueued) return
    for (const { settle } of this.#queue) settle()
    this.#queue = []
    this.hasDropped = true
  }

  #send(waiting: Waiting): void {
    const { store, key, maxEntries, clock } = this.#options
    const { record, span } = waiting
    const sentAtMs = this.#timers.steadyMs()
    this.#inFlight += 1
    const entry = {
      text: encodeRecord(record, lookAt(clock)),
      maxEntries: Math.ceil(maxEntries * entriesPerReplica),
    }
    this.#caution.watch(inSpan(span, () => store.appendEntry(key, entry))).then(
      (id) => {
        this.#inFlight -= 1
        this.appended += 1
        const tookMs = this.#timers.steadyMs() - sentAtMs
        this.#onAppended(id, record)
        waiting.settle()
        if (this.#wasLate(waiting, tookMs)) this.appendAgain(record)
        if (this.#queue.length > 0) this.pump()
      },
      () => {
        this.#inFlight -= 1
        this.#caution.trouble()
        // Its client waits on while it may soon be taken: no other replica knows that this one was refused.
        if (!store.up) waiting.settle()
        this.#pausedUntilMs = this.#timers.steadyMs() + retryAfterMs
        this.#push(waiting)
      },
    )
  }

  /**
   * It says what was left of the quote when it was sent, and who reads it at once takes that for what is left when it
   * arrived. The earlier of two ends counts. Not after a loss: a store that is slow to take all would get it twice.
   */
  #wasLate({ record, isFirst }: Waiting, tookMs: number): boolean {
    const { timeoutMs, clock } = this.#options
    if (!isFirst || tookMs <= timeoutMs || record.kind !== 'noted') return false
    return orderLeftMs(record.quote, lookAt(clock)) > 0
  }
}
