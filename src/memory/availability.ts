import { type Clock, systemClock, type Timer, type Timers } from '../clock.ts'
import type { Logger } from '../process/logger.ts'
import type { ValkeyClient } from './client.ts'
import { isOfReplica, reasonOf, refusesUs, repeatsRefusal } from './failure.ts'
import { Well } from './well.ts'

interface AvailabilityOptions {
  client: ValkeyClient
  timeoutMs: number
  log: Logger
  clock?: Clock | undefined
  /** Asks whether the store takes our commands, writes included. */
  greet(): Promise<unknown>
}

export interface Unanswered {
  giveUp(error: Error): void
}

const lookEveryMs = 50
/**
 * A pause of this process ends with a look, and what is written after the pause has no answer by then. So a command is
 * judged only after this many looks.
 */
const looksBeforeStuck = 2
const looksBeforeReplaced = 4
const minReplaceAfterMs = 1_000
const firstGreetAgainMs = 100
export const lastGreetAgainMs = 1_000
/** A shorter return does not end an outage in the log. */
const steadyAfterMs = 5_000

/** Commands that were sent, the oldest first. */
class UnansweredCommands {
  readonly #timers: Timers
  readonly #sent = new Map<Unanswered, { readonly ms: number; readonly looks: number }>()
  looks = 0

  constructor(timers: Timers) {
    this.#timers = timers
  }

  get size(): number {
    return this.#sent.size
  }

  add(command: Unanswered): void {
    this.#sent.set(command, { ms: this.#timers.steadyMs(), looks: this.looks })
  }

  delete(command: Unanswered): void {
    this.#sent.delete(command)
  }

  takeAll(): Unanswered[] {
    const all = [...this.#sent.keys()]
    this.#sent.clear()
    return all
  }

  /** Whether the oldest waits for longer than `ms`, with at least `minLooks` looks since it was sent. */
  isOldestOver(ms: number, minLooks = 0): boolean {
    for (const sent of this.#sent.values())
      return this.looks - sent.looks >= minLooks && this.#timers.steadyMs() - sent.ms > ms
    return false
  }
}

/**
 * Watches the connection to the store. The store is not used while a command waits for longer than VALKEY_TIMEOUT_MS,
 * until a new connection was greeted, and after it has refused writes: then it is greeted until it takes them again.
 */
export class Availability {
  readonly #options: AvailabilityOptions
  readonly #timers: Timers
  readonly #replaceAfterMs: number
  readonly well: Well<'connection'>
  readonly #unanswered: UnansweredCommands
  /**
   * Whether the oldest command waits too long. Checked after incoming data was read, so that a busy process does not
   * blame the store.
   */
  #isStuck = false
  #isGreeted = false
  #greetAgainMs = firstGreetAgainMs
  #greetTimer: Timer | undefined
  #lookTimer: Timer | undefined
  #isClosed = false
  /** The last failure. Undefined: the store is up. */
  #problem: unknown

  connectionsEnded = 0

  constructor(options: AvailabilityOptions) {
    const { clock = systemClock, timeoutMs, log } = options
    this.#options = options
    this.#timers = clock.timers
    this.#unanswered = new UnansweredCommands(this.#timers)
    this.#replaceAfterMs = Math.max(minReplaceAfterMs, 2 * timeoutMs)
    this.well = new Well({
      clock,
      operations: ['connection'],
      steadyAfterMs,
      reasonOf,
      began: (reason) =>
        log.warn(
          {},
          `the shared store is down, so each replica works on its own: ${reason}`,
        ),
      goesOn: (reason) => log.warn({}, `the shared store is still down: ${reason}`),
      ended: (forMs) => {
        this.#greetAgainMs = firstGreetAgainMs
        log.info({}, `the shared store is back, after ${Math.round(forMs / 1_000)} s`)
      },
    })
  }

  start(): void {
    const { client } = this.#options
    const look = () => this.#lookAfterReading()
    this.#lookTimer = this.#timers.setInterval(look, lookEveryMs).unref()
    // Without a listener the first 'error' event would end the process.
    client.on('error', (error) => {
      this.#isGreeted = false
      this.#down(error)
      this.#greetAgain(error)
    })
    client.on('node error', (error: unknown) => {
      this.#problem = error
    })
    client.on('close', () => {
      this.connectionsEnded += 1
      this.#isGreeted = false
      // The next connection is greeted. Ending one during a Sentinel's lookup ends the client permanently.
      this.#timers.clear(this.#greetTimer)
      this.#down(this.#problem ?? new Error('the connection was closed'))
    })
    // A node of a Cluster left. The client repeats its unanswered commands over another connection.
    client.on('-node', () => {
      this.connectionsEnded += 1
    })
    client.on('ready', () => this.#greet())
    client.connect().catch(() => {})
  }

  get up(): boolean {
    return this.#isGreeted && !this.#isStuck && !this.#isClosed
  }

  /** Whether the store takes our commands, even if it answers late. */
  get isGreeted(): boolean {
    return this.#isGreeted && !this.#isClosed
  }

  get outage(): { sinceMs: number; reason: string } | undefined {
    const { outage } = this.well
    if (this.up || outage === undefined) return undefined
    return { sinceMs: outage.since.steadyMs, reason: outage.reason }
  }

  sent(command: Unanswered): void {
    this.#unanswered.add(command)
  }

  answered(command: Unanswered): void {
    this.#unanswered.delete(command)
    if (this.#isStuck)
      this.#isStuck = this.#unanswered.isOldestOver(this.#options.timeoutMs)
  }

  failed(command: Unanswered, error: unknown): void {
    this.answered(command)
    if (refusesUs(error)) this.refused(error)
  }

  /** The store takes no writes, or none of ours. */
  refused(error: unknown): void {
    if (!this.#isGreeted) return
    this.#isGreeted = false
    this.#down(error)
    this.#greetAgain(error)
  }

  /** A call has timed out: the next one should not wait as well. */
  late(): void {
    if (this.#isClosed || this.#unanswered.size === 0) return
    this.#isStuck = true
    this.#down(this.#timedOut())
  }

  /** After a pause of this process an answer may lie unread in the socket, so the event loop reads before the look. */
  #lookAfterReading(): void {
    this.#unanswered.looks += 1
    setImmediate(() => this.look())
  }

  /** Checks whether the oldest command waits too long. */
  look(): void {
    if (this.#isClosed) return
    this.#isStuck = this.#unanswered.isOldestOver(
      this.#options.timeoutMs,
      looksBeforeStuck,
    )
    if (this.#isStuck) this.#down(this.#timedOut())
    else if (this.#isGreeted) this.#up()
    // The kernel needs a quarter of an hour to notice that a machine has vanished.
    if (this.#unanswered.isOldestOver(this.#replaceAfterMs, looksBeforeReplaced))
      this.replaceConnection(this.#timedOut())
  }

  replaceConnection(why: Error): void {
    const lost = this.#unanswered.takeAll()
    this.#isStuck = false
    this.#isGreeted = false
    this.#down(why)
    this.#options.client.disconnect(true)
    for (const command of lost) command.giveUp(why)
  }

  close(): void {
    this.#isClosed = true
    this.#timers.clear(this.#lookTimer)
    this.#timers.clear(this.#greetTimer)
  }

  #timedOut(): Error {
    return new Error(`no answer within ${this.#options.timeoutMs} ms (VALKEY_TIMEOUT_MS)`)
  }

  #greet(): void {
    this.#timers.clear(this.#greetTimer)
    this.#isGreeted = false
    this.#options.greet().then(
      () => {
        this.#isGreeted = true
        this.look()
      },
      (error) => {
        this.#down(error)
        // After another failure, only a new connection is greeted. A Cluster keeps its connection, whichever master
        // failed.
        if (!this.#isClosed) this.#greetAgain(error)
      },
    )
  }

  #greetAgain(refusal: unknown): void {
    this.#timers.clear(this.#greetTimer)
    this.#greetTimer = this.#timers
      .setTimeout(() => {
        // A server that became a replica refuses writes. A new connection finds the new master.
        if (isOfReplica(refusal)) this.#options.client.disconnect(true)
        else this.#greet()
      }, this.#greetAgainMs)
      .unref()
    this.#greetAgainMs = Math.min(lastGreetAgainMs, this.#greetAgainMs * 2)
  }

  #up(): void {
    this.#problem = undefined
    this.well.works('connection')
  }

  #down(error: unknown): void {
    const before = this.#problem
    this.#problem =
      isNotConnected(error) || repeatsRefusal(error, before) ? (before ?? error) : error
    if (!this.#isClosed) this.well.fails('connection', this.#problem)
  }
}

/** ioredis's messages for a missing connection, which say nothing about its cause. */
function isNotConnected(error: unknown): boolean {
  return (
    error instanceof Error &&
    /isn't writeable|isn't ready|Connection is closed|max retries per request/.test(
      error.message,
    )
  )
}
