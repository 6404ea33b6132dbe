import { type Clock, lookAt, orderLeftMs, PatientTimer, type Timers } from '../clock.ts'
import { currentSpan, inSpan, type Span } from '../process/span.ts'
import type { Caution } from './caution.ts'
import type { JournalRecord } from './journal.ts'
import { encodeRecord } from './records.ts'
import type { StreamStore } from './stream-store.ts'

/** Records that are waiting are dropped past this number. What they say is in the ledger, and is appended from there. */
const maxQueued = 10_000
const maxInFlight = 1_000
const retryAfterMs = 25

/** `first` is what clients wait for; `again` and `refill` were appended before. */
type Why = 'first' | 'again' | 'refill'

interface Waiting {
  readonly record: JournalRecord
  readonly why: Why
  readonly span: Span | undefined
  /** Nothing is gained by waiting for it any longer. */
  settle: () => void
}

const nothing = () => {}

interface StreamWriterOptions {
  store: StreamStore
  key: string
  maxEntries: number
  timeoutMs: number
  clock: Clock
  caution: Caution
  /** An entry was acknowledged. */
  appended(id: string, record: JournalRecord): void
}

/** Appends records, each once: what was sent and is not answered yet is in the socket, and may still arrive. */
export class StreamWriter {
  readonly #options: StreamWriterOptions
  readonly #timers: Timers
  #queue: Waiting[] = []
  #inFlight = 0
  #pausedUntilMs = 0
  /** Since the start. */
  appended = 0
  /** Whether records were dropped from the queue. */
  hasDropped = false

  constructor(options: StreamWriterOptions) {
    this.#options = options
    this.#timers = options.clock.timers
  }

  get queued(): number {
    return this.#queue.length
  }

  get waiting(): number {
    return this.#queue.length + this.#inFlight
  }

  /** Settles when the entry is acknowledged, or when waiting does not help. */
  append(record: JournalRecord): Promise<void> | void {
    const waiting: Waiting = { record, why: 'first', span: currentSpan(), settle: nothing }
    this.#push(waiting)
    const { store, timeoutMs } = this.#options
    if (!store.up) return
    const settled = new Promise<void>((resolve) => {
      const timer = new PatientTimer(timeoutMs, resolve, this.#timers)
      waiting.settle = () => {
        timer.clear()
        resolve()
      }
    })
    this.pump()
    return settled
  }

  refill(records: readonly JournalRecord[]): void {
    for (const record of records) this.#push({ record, why: 'refill', span: undefined, settle: nothing })
    this.pump()
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
    const { store, key, maxEntries, clock, caution } = this.#options
    const { record, span } = waiting
    const sentAtMs = this.#timers.steadyMs()
    this.#inFlight += 1
    const text = encodeRecord(record, lookAt(clock))
    inSpan(span, () => store.appendEntry(key, { text, maxEntries })).then(
      (id) => {
        this.#inFlight -= 1
        this.appended += 1
        const tookMs = this.#timers.steadyMs() - sentAtMs
        caution.answered(tookMs)
        this.#options.appended(id, record)
        waiting.settle()
        this.#appendLateAgain(waiting, tookMs)
        if (this.#queue.length > 0) this.pump()
      },
      () => {
        this.#inFlight -= 1
        caution.trouble()
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
  #appendLateAgain({ record, why }: Waiting, tookMs: number): void {
    const { timeoutMs, clock } = this.#options
    if (why !== 'first' || tookMs <= timeoutMs || record.kind !== 'noted') return
    if (orderLeftMs(record.quote, lookAt(clock)) <= 0) return
    this.#push({ record, why: 'again', span: undefined, settle: nothing })
  }
}
