import { systemTimers, type Timer, type Timers } from '../clock.ts'

/**
 * A timer that does not blame others for a pause of this process (SIGSTOP, a virtual machine that is moved). After a
 * pause the timer is due at once, though what it waits for may lie in a socket already, unread. So when its time is
 * over it lets the event loop read first, and calls back only if it was not cleared or refreshed meanwhile.
 */
export class PatientTimer {
  readonly #timers: Timers
  readonly #timer: Timer
  #lastLook: NodeJS.Immediate | undefined

  constructor(ms: number, onTime: () => void, timers = systemTimers) {
    this.#timers = timers
    this.#timer = timers.setTimeout(() => {
      this.#lastLook = setImmediate(() => {
        // Node never unlinks one that has run from its neighbours and their arguments.
        this.#lastLook = undefined
        onTime()
      })
    }, ms)
  }

  /** Begins the time again. */
  refresh(): void {
    clearImmediate(this.#lastLook)
    this.#timer.refresh()
  }

  clear(): void {
    clearImmediate(this.#lastLook)
    this.#timers.clear(this.#timer)
  }
}
