import { type Clock, systemClock, type Timer, type Timers } from '../clock.ts'
import type { Logger } from '../process/logger.ts'
import type { ValkeyClient } from './client.ts'
import { isOfReplica, reasonOf, refusesUs, repeatsRefusal } from './failure.ts'
import { Well } from './well.ts'

interface AvailabilityOptions {
  client: ValkeyClient
  timeoutMs: number
  log: Logger
  /** Default: the machine's. */
  clock?: Clock | undefined
  /** Asks whether a new connection leads to a store that takes our commands, writes included. */
  greet(): Promise<unknown>
}

/** A command that the store has not answered. */
export interface Unanswered {
  readonly sentAtMs: number
  giveUp(error: Error): void
}

const lookEveryMs = 50
const minReplaceAfterMs = 1_000
const firstGreetAgainMs = 100
export const lastGreetAgainMs = 1_000
/** A shorter return ends no outage in the log. */
const steadyAfterMs = 5_000

/**
 * Watches the connection to the store, which cannot be used while a command waits for longer than VALKEY_TIMEOUT_MS, before
 * a new connection was greeted, and after the store has refused to take writes: until then it is greeted again and again.
 */
export class Availability {
  readonly #options: AvailabilityOptions
  readonly #timers: Timers
  readonly #replaceAfterMs: number
  readonly well: Well<'connection'>
  /** The oldest first. */
  readonly #unanswered = new Set<Unanswered>()
  /**
   * Whether the oldest waits for too long. Seen after what came was read, so that a busy process does not blame the
   * store.
   */
  #isStuck = false
  #isGreeted = false
  #greetAgainMs = firstGreetAgainMs
  #greetTimer: Timer | undefined
  #lookTimer: Timer | undefined
  #isClosed = false
  /** How it failed last; undefined: it is up. */
  #problem: unknown

  connectionsEnded = 0

  constructor(options: AvailabilityOptions) {
    const { clock = systemClock, timeoutMs, log } = options
    this.#options = options
    this.#timers = clock.timers
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
    // After a pause of this process, what it waits for may lie in the socket, unread.
    const look = () => setImmediate(() => this.look())
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
      // The next one is greeted. To end it while it asks a Sentinel would end the client permanently.
      this.#timers.clear(this.#greetTimer)
      this.#down(this.#problem ?? new Error('the connection was closed'))
    })
    // A node of a Cluster left. The client sends again, over another connection, what that node has not answered.
    client.on('-node', () => {
      this.connectionsEnded += 1
    })
    client.on('ready', () => this.#greet())
    client.connect().catch(() => {})
  }

  get up(): boolean {
    return this.#isGreeted && !this.#isStuck && !this.#isClosed
  }

  /** Whether the store takes our commands, however late it answers them. */
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
    if (this.#isStuck) this.#isStuck = this.#oldestMs() > this.#options.timeoutMs
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

  /** The deadline of a call is over: the next one is not to wait as well. */
  late(): void {
    if (this.#isClosed || this.#unanswered.size === 0) return
    this.#isStuck = true
    this.#down(this.#timedOut())
  }

  /** What only time shows. */
  look(): void {
    if (this.#isClosed) return
    const oldestMs = this.#oldestMs()
    this.#isStuck = oldestMs > this.#options.timeoutMs
    if (this.#isStuck) this.#down(this.#timedOut())
    else if (this.#isGreeted) this.#up()
    // To the kernel, a connection to a machine that vanished looks alive for a quarter of an hour.
    if (oldestMs > this.#replaceAfterMs) this.replaceConnection(this.#timedOut())
  }

  replaceConnection(why: Error): void {
    const lost = [...this.#unanswered]
    this.#unanswered.clear()
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

  /** The deadline of a call passed. */
  #timedOut(): Error {
    return new Error(`no answer within ${this.#options.timeoutMs} ms (VALKEY_TIMEOUT_MS)`)
  }

  #oldestMs(): number {
    for (const { sentAtMs } of this.#unanswered) return this.#timers.steadyMs() - sentAtMs
    return 0
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
        // After another failure the next connection is greeted. That of a Cluster stays, whichever of its masters failed.
        if (!this.#isClosed) this.#greetAgain(error)
      },
    )
  }

  #greetAgain(refusal: unknown): void {
    this.#timers.clear(this.#greetTimer)
    this.#greetTimer = this.#timers
      .setTimeout(() => {
        // A server that became a replica refuses writes. A new connection leads to the new master.
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
