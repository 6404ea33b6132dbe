import { inTime, lookAt, type Now, pause, type Timer, type Timers } from '../clock.ts'
import type { Events } from '../events.ts'
import { StateError } from '../process/errors.ts'
import type { Logger } from '../process/logger.ts'
import { inSpan } from '../process/span.ts'
import { Caution } from './caution.ts'
import type { Journal, JournalFacts, JournalRecord, ListReader } from './journal.ts'
import { decodeLine } from './records.ts'
import {
  firstId,
  instantOf,
  isAfter,
  partEntries,
  type StreamEntry,
} from './stream-store.ts'
import { type StreamOptions, StreamWriter } from './stream-writer.ts'

export interface StreamJournalOptions extends StreamOptions {
  log: Logger
  events: Events
}

export interface StreamFacts extends JournalFacts {
  /** Entries that were there at the last look and are not read yet. */
  readonly behind: number
}

const pollEveryMs = 50
/** An entry that came since a read of so long ago is new: what was left of its quote is left. */
const freshForMs = 250
const awayForMs = 250
const refillBatch = 500
const refillOthersAfterMs = [500, 1_500] as const
const minStartPatienceMs = 500
const closePatienceMs = 500

/**
 * The journal among replicas: one stream in the store, which every replica appends to and reads in order. What the store
 * lost is seen by counting, and is appended again by those who know it.
 */
export class StreamJournal implements Journal {
  readonly #options: StreamJournalOptions
  readonly #timers: Timers
  readonly #caution: Caution
  readonly #writer: StreamWriter
  #reader: ListReader | undefined
  #timer: Timer | undefined
  /** How many connections had ended when the server was last described; undefined: it never was. */
  #checkedAfter: number | undefined
  #isOver = false

  /** Each loss begins a generation, in which the list is read from its beginning. */
  #generation = 1
  #isWhole = false
  #lastId = firstId
  /** Of the other replicas' connections some ended too, and what they sent over these is appended again later. */
  #connectionsEnded = 0
  /** Entries that were ever added, as far as this replica has read; undefined: not read to the end yet. */
  #counted: number | undefined
  #wholeReadBeganMs = Number.NEGATIVE_INFINITY
  /** What was acknowledged and not read yet, by id. */
  readonly #unseen = new Map<string, JournalRecord>()
  #current: Promise<boolean> | undefined
  #next: Promise<boolean> | undefined

  #skipped = 0
  #behind = 0
  #partsRead = 0
  /** Since when the store is not up. */
  #away: Now | undefined
  /** Undefined: the start is over. */
  #starting: { done(): void; failed(error: Error): void } | undefined

  constructor(options: StreamJournalOptions) {
    this.#options = options
    this.#timers = options.clock.timers
    const { backWithinMs } = options.store
    this.#caution = new Caution(
      { timeoutMs: options.timeoutMs, backWithinMs },
      this.#timers,
    )
    this.#writer = new StreamWriter(options, this.#caution, (id, record) => {
      if (isAfter(id, this.#lastId)) this.#unseen.set(id, record)
    })
  }

  get facts(): StreamFacts {
    return {
      appended: this.#writer.appended,
      waiting: this.#writer.waiting,
      skipped: this.#skipped,
      awaySinceMs: this.#away?.nowMs,
      behind: this.#behind,
    }
  }

  /** Settles when all is read, or when the store does not answer. Rejects where the server does not count its entries. */
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
    // The read that is under way has its time, and the next one has its own: this process may pause meanwhile.
    const [current, next] = [this.#current, this.#read()]
    for (const read of [current, next]) {
      if (read !== undefined && !(await inTime(read, timeoutMs, this.#timers)))
        return false
    }
    return this.#caution.isOver
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
    this.#timers.clear(this.#timer)
    await this.#current
  }

  #tick(): void {
    const { store, clock, events } = this.#options
    if (store.up) {
      this.#writer.pump()
      if (this.#current === undefined) void this.#read()
      return
    }
    if (this.#away === undefined) {
      this.#away = lookAt(clock)
      events.journalAway('stream')
    }
    if (clock.steadyMs() - this.#away.steadyMs > awayForMs) this.#caution.trouble()
  }

  /** A read that begins after now. Those who come while one is under way share the next. */
  #read(): Promise<boolean> {
    this.#next ??= this.#readNext()
    return this.#next
  }

  async #readNext(): Promise<boolean> {
    await this.#current
    this.#next = undefined
    this.#current = this.#readToEnd()
      .catch(() => {
        this.#caution.trouble()
        return false
      })
      .finally(() => {
        this.#current = undefined
      })
    return this.#current
  }

  async #readToEnd(): Promise<boolean> {
    const { store, key, clock } = this.#options
    // A new connection may lead to another server, or to one that was restarted with another configuration.
    if (store.connectionsEnded !== this.#checkedAfter) await this.#checkServer()
    while (!this.#isOver) {
      if (store.connectionsEnded > this.#connectionsEnded) this.#caution.trouble()
      this.#connectionsEnded = store.connectionsEnded
      const beganMs = this.#timers.steadyMs()
      const acknowledged = [...this.#unseen.keys()]
      const isFresh = beganMs - this.#wholeReadBeganMs <= freshForMs
      const id = this.#lastId
      const part = await this.#caution.watch(store.readEntries(key, id))
      const isLast = part.entries.length < partEntries
      const isFromStart = id === firstId
      // The last entry that was read comes again, unless it was lost, and others with it; or all up to it was trimmed.
      const isThere = !isFromStart && part.entries[0]?.id === id
      const mayBeTrimmed = isFromStart || isAfter(part.oldestId, id)
      const entries = isThere ? part.entries.slice(1) : part.entries
      const { added } = part
      if (added === undefined)
        this.#serverIsTooOld('its streams do not count their entries')
      else if (!isThere && !mayBeTrimmed) this.#hasLost()
      else if (
        !this.#isCountRight(entries.length, { added, length: part.length, isLast })
      )
        this.#hasLost()
      else {
        this.#deliver(entries, isFresh ? undefined : part.storeNowMs, lookAt(clock))
        if (isLast) {
          this.#wholeReadBeganMs = beganMs
          this.#allIsRead(acknowledged, isFromStart)
          return true
        }
      }
      this.#partsRead += 1
    }
    return false
  }

  /** Counts what was read. False: the store has lost entries. */
  #isCountRight(
    read: number,
    { added, length, isLast }: { added: number; length: number; isLast: boolean },
  ): boolean {
    if (this.#counted === undefined) {
      this.#behind = isLast ? 0 : length
      if (isLast) this.#counted = added
      return true
    }
    const expected = this.#counted + read
    this.#behind = isLast ? 0 : Math.max(0, added - expected)
    this.#counted = isLast ? added : expected
    if (isLast && added > expected) {
      // Entries were trimmed that this replica had not read. They may be of quotes that live. Its own are not lost.
      this.#unseen.clear()
      this.#caution.forMs(this.#reader?.longestLifeMs ?? 0)
    }
    return !isLast || added >= expected
  }

  #hasLost(): void {
    this.#options.log.warn(
      {},
      'the shared store has lost records: each replica appends again what it knows',
    )
    this.#generation += 1
    this.#isWhole = false
    this.#lastId = firstId
    this.#counted = undefined
    this.#wholeReadBeganMs = Number.NEGATIVE_INFINITY
    this.#unseen.clear()
    this.#caution.trouble()
  }

  #deliver(
    entries: readonly StreamEntry[],
    storeNowMs: number | undefined,
    now: Now,
  ): void {
    for (const { id, text } of entries) {
      this.#lastId = id
      // By its id and by its writer's clock; whichever clock is wrong, no live order is refused. New entries have no age.
      const ageOf = (wallMs: number) =>
        storeNowMs === undefined
          ? 0
          : Math.max(0, Math.min(storeNowMs - instantOf(id), now.nowMs - wallMs))
      const record = this.#unseen.get(id) ?? decodeLine(text, now, ageOf)?.record
      this.#unseen.delete(id)
      if (record === undefined) this.#skipped += 1
      else this.#reader?.deliver(record, this.#generation)
    }
  }

  /** `provesNothing`: it was read from its beginning, so what it had before is not known. */
  #allIsRead(acknowledged: readonly string[], provesNothing: boolean): void {
    const { clock, events } = this.#options
    if (this.#away !== undefined)
      events.journalBack('stream', clock.steadyMs() - this.#away.steadyMs)
    this.#away = undefined
    // Acknowledged before this read, and not brought by it: lost, and the count happened to be right.
    const lost = acknowledged
      .map((id) => this.#unseen.get(id))
      .filter((record) => record !== undefined)
    for (const id of acknowledged) this.#unseen.delete(id)
    if (lost.length > 0) {
      this.#caution.trouble()
      for (const record of lost) this.#writer.appendAgain(record)
    }
    const isFirst = !this.#isWhole
    this.#isWhole = true
    // Not on behalf of the request whose read has seen that something lacks.
    if (isFirst) void inSpan(undefined, () => this.#refill(this.#generation))
    else if (this.#writer.hasDropped) {
      this.#writer.hasDropped = false
      void inSpan(undefined, () => this.#appendMissing(this.#generation, true))
    }
    if (!provesNothing && !isFirst && this.#writer.queued === 0) this.#caution.calm()
    // Of an empty list it could not be seen that it was lost.
    if (this.#lastId === firstId && this.#writer.waiting === 0)
      this.#writer.appendAgain(firstRecord)
    this.#writer.pump()
    this.#starting?.done()
  }

  /** After a loss, and at a start: appends what this replica knows and the list has not. */
  async #refill(generation: number): Promise<void> {
    await this.#appendMissing(generation, true)
    const [soonestMs, latestMs] = refillOthersAfterMs
    // Replicas know much the same. The first one to wake up appends it for all.
    const waitsMs = soonestMs + Math.random() * (latestMs - soonestMs)
    await pause(waitsMs, this.#timers, { isUnref: true })
    while (!(await this.#read())) {
      if (this.#isOver || generation !== this.#generation) return
      await pause(pollEveryMs, this.#timers, { isUnref: true })
    }
    await this.#appendMissing(generation, false)
  }

  async #appendMissing(generation: number, own: boolean): Promise<void> {
    const { maxEntries, store } = this.#options
    let appended = 0
    for (const record of this.#reader?.missing(generation, own) ?? []) {
      if (appended === maxEntries) return
      if (appended > 0 && appended % refillBatch === 0) {
        this.#writer.pump()
        await this.#read()
      }
      while (!this.#isOver && (!store.up || this.#writer.queued >= refillBatch))
        await pause(pollEveryMs, this.#timers, { isUnref: true })
      if (this.#isOver || generation !== this.#generation) return
      this.#writer.appendAgain(record)
      appended += 1
    }
    this.#writer.pump()
  }

  async #checkServer(): Promise<void> {
    const { store, log } = this.#options
    const { connectionsEnded } = store
    const { version, maxmemoryPolicy } = await store.describeServer()
    if (version !== undefined && Number.parseInt(version, 10) < 7)
      this.#serverIsTooOld(`it is Redis ${version}`)
    const drops = droppedBy(maxmemoryPolicy)
    if (drops !== undefined)
      log.warn(
        {},
        `a full shared store drops ${drops}, so orders are sent twice (maxmemory-policy ${maxmemoryPolicy}): use volatile-ttl`,
      )
    this.#checkedAfter = connectionsEnded
  }

  #serverIsTooOld(why: string): void {
    const error = new StateError(
      `the store of VALKEY_URL has to be Valkey, or Redis 7 or later: ${why}`,
    )
    this.#isOver = true
    this.#away ??= lookAt(this.#options.clock)
    this.#timers.clear(this.#timer)
    if (this.#starting !== undefined) this.#starting.failed(error)
    else
      this.#options.log.error(
        {},
        `${error.message}. This replica works on its own until it is restarted`,
      )
  }
}

/** It says nothing. */
const firstRecord: JournalRecord = { kind: 'used', quote: { id: '', expiresAtMs: 0 } }

/**
 * What a full store loses under this policy. `volatile-ttl` drops quotes first, because a key of an order lives longer
 * than any quote. Under `noeviction` a full store refuses writes, and counts as down.
 */
function droppedBy(policy: string | undefined): string | undefined {
  if (policy === undefined || policy === 'volatile-ttl' || policy === 'noeviction')
    return undefined
  return policy.startsWith('allkeys-')
    ? 'the journal and the keys of orders'
    : 'the keys of orders'
}
