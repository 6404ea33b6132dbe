import { type Clock, lookAt, type Now } from '../clock.ts'
import type { DiskOperation, Events } from '../events.ts'

/** A disk that takes longer hangs. */
export const patienceMs = 5_000

/** Counts what fails at the disk, and says once when that begins and once when it is over. */
export class DiskTrouble {
  readonly failures: Record<DiskOperation, number> = {
    folder: 0,
    write: 0,
    sync: 0,
    copy: 0,
  }
  readonly #clock: Clock
  readonly #events: Events
  readonly #failing = new Set<DiskOperation>()
  #away: Now | undefined

  constructor(clock: Clock, events: Events) {
    this.#clock = clock
    this.#events = events
  }

  /** By our wall clock. */
  get sinceMs(): number | undefined {
    return this.#away?.nowMs
  }

  isFailing(operation: DiskOperation): boolean {
    return this.#failing.has(operation)
  }

  /** Returns whether the step was done. */
  async watch(operation: DiskOperation, step: Promise<void>): Promise<boolean> {
    const timers = this.#clock.timers
    const hangs = timers
      .setTimeout(() => this.#begin(operation, patienceMs), patienceMs)
      .unref()
    try {
      await step
      this.#end(operation)
      return true
    } catch (cause) {
      this.failures[operation] += 1
      this.#begin(operation, cause)
      return false
    } finally {
      timers.clear(hangs)
    }
  }

  #begin(operation: DiskOperation, cause: unknown): void {
    this.#failing.add(operation)
    if (this.#away !== undefined) return
    this.#away = lookAt(this.#clock)
    this.#say(() => this.#events.journalAway('disk', operation, cause))
  }

  #end(operation: DiskOperation): void {
    this.#failing.delete(operation)
    if (this.#away === undefined || this.#failing.size > 0) return
    const forMs = this.#clock.steadyMs() - this.#away.steadyMs
    this.#away = undefined
    this.#say(() => this.#events.journalBack('disk', forMs))
  }

  /** The application's logger may have a defect. The records are still written. */
  #say(emit: () => void): void {
    try {
      emit()
    } catch {}
  }
}
