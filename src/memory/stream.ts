import { inTime, lookAt, type Now, pause, type Timer, type Timers } from '../clock.ts'
import type { Events } from '../events.ts'
import { StateError } from '../process/errors.ts'
import type { Logger } from '../process/logger.ts'
import { inSpan } from '../process/span.ts'
import type { Journal, JournalFacts, JournalRecord, ListReader } from './journal.ts'
import { decodeLine } from './records.ts'
import { SharedRuns } from './shared-runs.ts'
import { ReadList } from './stream-list.ts'
import { firstId, instantOf, type StreamEntry } from './stream-store.ts'
import { type StreamOptions, StreamWriter } from './stream-writer.ts'
import { Well } from './well.ts'

export interface StreamJournalOptions extends StreamOptions {
  log: Logger
  events: Events
}

export interface StreamFacts extends JournalFacts {
  readonly behind: number
}

const pollEveryMs = 50
const awayForMs = 250
const refillBatch = 500
const refillOthersAfterMs = [500, 1_500] as const
const minStartPatienceMs = 500
const closePatienceMs = 500
const doubtedAfterStartMs = 2_000
/** A slow read that is not yet trouble. Added to the time that other replicas take once the store is back. */
const slowReadMs = 250

/**
 * One stream in the store, which every replica appends to and reads in order. A loss is seen by counting, and replicas
 * that know the lost records append them again.
 */
export class StreamJournal implements Journal {
  readonly #options: StreamJournalOptions
  readonly #timers: Timers
  readonly trouble: Well<'journal'>
  readonly #writer: StreamWriter
  readonly #reads = new SharedRuns(() => this.#readSafely())
  #reader: ListReader | undefined
  #timer: Timer | undefined
  #isOver = false
  /** How many connections had ended when the server was last described. Undefined: it never was. */
  #connectionsEnded: number | undefined
  /** Each loss begins another list. */
  #list = new ReadList(1)
  #skipped = 0
  #partsRead = 0
  /** Undefined: startup is over. */
  #starting: { done(): void; failed(error: Error): void } | undefined

  constructor(options: StreamJournalOptions) {
    const { clock, events, store } = options
    this.#options = options
    this.#timers = clock.timers
    this.trouble = new Well({
      clock,
      operations: ['journal'],
      doubt: {
        afterStartMs: doubtedAfterStartMs,
        afterTroubleMs: store.backWithinMs + slowReadMs,
      },
      reasonOf: String,
      // The store logs the reason.
      began: () => events.journalAway('stream'),
      ended: (forMs) => events.journalBack('stream', forMs),
    })
    this.#writer = new StreamWriter(options, this.trouble, (id, record) =>
      this.#list.acknowledge(id, record),
    )
  }

  get facts(): StreamFacts {
    return {
      appended: this.#writer.appended,
      waiting: this.#writer.waiting,
      skipped: this.#skipped,
      awaySinceMs: this.trouble.sinceMs,
      behind: this.#list.behind,
    }
  }

  /** Settles once all is read, or without an answer of the store. Rejects if the server does not count its entries. */
  async start(reader: ListReader): Promise<void> {
    this.#reader = reader
    const isDone = new Promise<true>((resolve, failed) => {
      this.#starting = { done: () => resolve(true), failed }
    })
    this.#timer = this.#timers.setInterval(() => this.#tick(), pollEveryMs).unref()
    this.#tick()
    const patienceMs = Math.max(this.#options.timeoutMs, minStartPatienceMs)
    let before: number
    do before = this.#partsRead
    while (!(await inTime(isDone, patienceMs, this.#timers)) && this.#partsRead > before)
    this.#starting = undefined
  }

  append(record: JournalRecord): Promise<void> | void {
    if (this.#isOver) return
    return this.#writer.append(record)
  }

  async caughtUp(): Promise<boolean> {
    const { store, timeoutMs } = this.#options
    if (this.#isOver || this.#reader === undefined || !store.up) return false
    // Each read has the whole time, because this process may pause meanwhile.
    const [current, next] = [this.#reads.current, this.#reads.next()]
    for (const read of [current, next]) {
      if (read !== undefined && !(await inTime(read, timeoutMs, this.#timers)))
        return false
    }
    return !this.trouble.isDoubted
  }

  async close(): Promise<void> {
    const endsAtMs = this.#timers.steadyMs() + closePatienceMs
    while (
      this.#writer.waiting > 0 &&
      this.#options.store.up &&
      !this.#isOver &&
      this.#timers.steadyMs() < endsAtMs
    ) {
      this.#writer.pump()
      await pause(5, this.#timers)
    }
    this.#isOver = true
    this.#writer.close()
    this.#timers.clear(this.#timer)
    await this.#reads.current
  }

  #tick(): void {
    const { store } = this.#options
    if (store.up) {
      if (this.#reads.current === undefined) void this.#reads.next()
      return
    }
    this.trouble.fails('journal', 'not all is read since the store was away')
    const { outage } = this.trouble
    if (outage && this.#timers.steadyMs() - outage.since.steadyMs > awayForMs)
      this.trouble.doubt()
  }

  async #readSafely(): Promise<boolean> {
    try {
      return await this.#readToEnd()
    } catch {
      this.trouble.doubt()
      return false
    }
  }

  async #readToEnd(): Promise<boolean> {
    const { store, key, clock, timeoutMs } = this.#options
    while (!this.#isOver) {
      while (store.connectionsEnded !== this.#connectionsEnded) await this.#reconnected()
      if (this.#isOver) return false
      const list = this.#list
      const beganMs = this.#timers.steadyMs()
      const acknowledged = list.unseen
      const isFresh = list.isFresh(beganMs)
      const answer = store.readEntries(key, list.lastId)
      const part = await this.trouble.inTime(answer, timeoutMs)
      this.#partsRead += 1
      if (part.added === undefined) {
        this.#serverIsTooOld('its streams do not count their entries')
        return false
      }
      const read = list.read(part, part.added)
      if (read === undefined) {
        this.#hasLost()
        continue
      }
      if (read.isTrimmed) this.trouble.doubtFor(this.#reader?.longestLifeMs ?? 0)
      this.#deliver(read.entries, isFresh ? undefined : part.storeNowMs, lookAt(clock))
      if (!read.isLast) continue
      const isFirst = !list.isWhole
      const lost = list.end(beganMs, acknowledged)
      this.#allIsRead(lost, { isFirst, provesNothing: read.provesNothing })
      return true
    }
    return false
  }

  /** A new connection may lead to another server, or to one with another configuration. */
  async #reconnected(): Promise<void> {
    const { store, log } = this.#options
    const { connectionsEnded } = store
    // Connections of other replicas ended too, and what they sent is appended again later.
    if (connectionsEnded > (this.#connectionsEnded ?? 0)) this.trouble.doubt()
    const { version, maxmemoryPolicy } = await store.describeServer()
    if (version !== undefined && Number.parseInt(version, 10) < 7)
      this.#serverIsTooOld(`it is Redis ${version}`)
    const drops = droppedBy(maxmemoryPolicy)
    if (drops !== undefined)
      log.warn(
        {},
        `a full shared store drops ${drops}, so orders are sent twice (maxmemory-policy ${maxmemoryPolicy}): use volatile-ttl`,
      )
    this.#connectionsEnded = connectionsEnded
  }

  #hasLost(): void {
    this.#options.log.warn(
      {},
      'the shared store has lost records: each replica appends again what it knows',
    )
    this.#list = new ReadList(this.#list.generation + 1)
    this.trouble.doubt()
  }

  #deliver(
    entries: readonly StreamEntry[],
    storeNowMs: number | undefined,
    now: Now,
  ): void {
    for (const { id, text } of entries) {
      // The age by the entry's id or by its writer's clock, whichever is less: a wrong clock must not refuse a live
      // order. New entries have no age.
      const ageOf = (wallMs: number) =>
        storeNowMs === undefined
          ? 0
          : Math.max(0, Math.min(storeNowMs - instantOf(id), now.nowMs - wallMs))
      const record = this.#list.take(id) ?? decodeLine(text, now, ageOf)?.record
      if (record === undefined) this.#skipped += 1
      else this.#reader?.deliver(record, this.#list.generation)
    }
  }

  /**
   * `lost`: our records that the store acknowledged and has lost. `isFirst`: the first whole read of this generation.
   */
  #allIsRead(
    lost: readonly JournalRecord[],
    { isFirst, provesNothing }: { isFirst: boolean; provesNothing: boolean },
  ): void {
    const { generation, lastId } = this.#list
    this.trouble.works('journal')
    if (lost.length > 0) this.trouble.doubt()
    for (const record of lost) this.#writer.appendAgain(record)
    // Without a span: this is not work of the request whose read found the gap.
    if (isFirst) void inSpan(undefined, () => this.#refill(generation))
    else if (this.#writer.hasDropped) {
      this.#writer.hasDropped = false
      void inSpan(undefined, () => this.#appendMissing(generation, true))
    }
    if (!provesNothing && !isFirst && this.#writer.queued === 0) this.trouble.trust()
    // The loss of an empty list cannot be seen, so it gets one entry.
    if (lastId === firstId && this.#writer.waiting === 0)
      this.#writer.appendAgain(firstRecord)
    this.#starting?.done()
  }

  /** Appends what this replica knows and the list lacks, after a loss and at startup. */
  async #refill(generation: number): Promise<void> {
    await this.#appendMissing(generation, true)
    const [soonestMs, latestMs] = refillOthersAfterMs
    // Replicas know much the same, so the first to wake up appends for all.
    const waitsMs = soonestMs + Math.random() * (latestMs - soonestMs)
    await pause(waitsMs, this.#timers, { isUnref: true })
    while (!(await this.#reads.next())) {
      if (this.#isOver || generation !== this.#list.generation) return
      await pause(pollEveryMs, this.#timers, { isUnref: true })
    }
    await this.#appendMissing(generation, false)
  }

  async #appendMissing(generation: number, own: boolean): Promise<void> {
    const { maxEntries, store } = this.#options
    let appended = 0
    for (const record of this.#reader?.missing(generation, own) ?? []) {
      if (appended === maxEntries) return
      if (appended > 0 && appended % refillBatch === 0) await this.#reads.next()
      while (!this.#isOver && (!store.up || this.#writer.queued >= refillBatch))
        await pause(pollEveryMs, this.#timers, { isUnref: true })
      if (this.#isOver || generation !== this.#list.generation) return
      this.#writer.appendAgain(record)
      appended += 1
    }
  }

  #serverIsTooOld(why: string): void {
    const error = new StateError(
      `the store of VALKEY_URL has to be Valkey, or Redis 7 or later: ${why}`,
    )
    this.#isOver = true
    this.trouble.fails('journal', error.message)
    this.#timers.clear(this.#timer)
    if (this.#starting !== undefined) this.#starting.failed(error)
    else
      this.#options.log.error(
        {},
        `${error.message}. This replica works on its own until it is restarted`,
      )
  }
}

/** A record without meaning. */
const firstRecord: JournalRecord = { kind: 'used', quote: { id: '', expiresAtMs: 0 } }

/**
 * What a full store drops under this policy. `volatile-ttl` drops quotes first, because the key of an order lives
 * longer than any quote. Under `noeviction` a full store refuses writes, and counts as down.
 */
function droppedBy(policy: string | undefined): string | undefined {
  if (policy === undefined || policy === 'volatile-ttl' || policy === 'noeviction')
    return undefined
  return policy.startsWith('allkeys-')
    ? 'the journal and the keys of orders'
    : 'the keys of orders'
}
