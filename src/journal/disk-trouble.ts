import type { Clock } from '../clock.ts'
import type { Logger } from '../process/logger.ts'

export type DiskOperation = 'open' | 'write' | 'sync'

/** A disk that takes longer hangs. */
export const patienceMs = 5_000

/** Counts what fails at the disk, and logs once when that begins and once when it is over. */
export class DiskTrouble {
  readonly failures: Record<DiskOperation, number> = { open: 0, write: 0, sync: 0 }
  readonly #clock: Clock
  readonly #log: Logger
  readonly #failing = new Set<DiskOperation>()
  #sinceMs: number | undefined

  constructor(clock: Clock, log: Logger) {
    this.#clock = clock
    this.#log = log
  }

  /** By our wall clock. */
  get sinceMs(): number | undefined {
    return this.#sinceMs
  }

  /** Returns whether the step was done. */
  async watch(operation: DiskOperation, step: Promise<void>): Promise<boolean> {
    const hangs = setTimeout(() => this.#begin(operation, { longerThanMs: patienceMs }), patienceMs).unref()
    try {
      await step
      this.#end(operation)
      return true
    } catch (cause) {
      this.failures[operation] += 1
      this.#begin(operation, { cause })
      return false
    } finally {
      clearTimeout(hangs)
    }
  }

  #begin(operation: DiskOperation, how: object): void {
    this.#failing.add(operation)
    if (this.#sinceMs !== undefined) return
    this.#sinceMs = this.#clock.nowMs()
    this.#say(
      'error',
      { operation, ...how },
      'the ledger cannot be written to STATE_DIRECTORY: requests are served, but a restart now forgets the newest quotes',
    )
  }

  #end(operation: DiskOperation): void {
    // A full disk may still take an empty file.
    if (operation === 'open') return
    this.#failing.delete(operation)
    if (operation === 'write') this.#failing.delete('open')
    if (this.#sinceMs === undefined || this.#failing.size > 0) return
    const forMs = this.#clock.nowMs() - this.#sinceMs
    this.#sinceMs = undefined
    this.#say('info', { forMs }, 'the ledger is written to STATE_DIRECTORY again')
  }

  /** The application's logger may have a defect. The records are still written. */
  #say(level: 'error' | 'info', members: object, message: string): void {
    try {
      this.#log[level](members, message)
    } catch {}
  }
}
