/** A clock as an application hands it in. */
export interface GatewayClock {
  /** Wall time in milliseconds since the epoch: what an `expiry` is compared with. */
  nowMs(): number
  /** Milliseconds that go on evenly when the wall clock is set. Without it, a step of that may go unnoticed. */
  steadyMs?(): number
  /**
   * Without it, Node's.
   * @internal
   */
  readonly timers?: Timers
}

/** The time, as everything that judges an expiry asks for it. */
export type Clock = Required<GatewayClock>

/** Timers, and the time that deadlines are counted by. Those of a test do not wait. */
export interface Timers {
  /** Milliseconds that go on evenly when the wall clock is set. */
  steadyMs(): number
  setTimeout(onTime: () => void, ms: number): Timer
  setInterval(onTime: () => void, ms: number): Timer
  clear(timer: Timer | undefined): void
}

/** A `NodeJS.Timeout` is one. */
export interface Timer {
  refresh(): unknown
  /** Keeps the timer from keeping the process running. */
  unref(): Timer
}

/** One look at both clocks. */
export interface Now {
  readonly nowMs: number
  readonly steadyMs: number
}

/** Node's timers. Each call looks them up again, so that they follow the fake timers of a test. */
export const systemTimers: Timers = {
  steadyMs: () => performance.now(),
  setTimeout: (onTime, ms) => setTimeout(onTime, ms),
  setInterval: (onTime, ms) => setInterval(onTime, ms),
  clear: (timer) => clearTimeout(timer as NodeJS.Timeout | undefined),
}

/** The clocks of this machine, looked up with each call as `systemTimers` are. */
export const systemClock: Clock = {
  nowMs: () => Date.now(),
  steadyMs: systemTimers.steadyMs,
  timers: systemTimers,
}

/** One without a steady time counts by its wall time. */
export function completeClock(given?: GatewayClock): Clock {
  if (given === undefined) return systemClock
  return {
    nowMs: () => given.nowMs(),
    steadyMs: () => given.steadyMs?.() ?? given.nowMs(),
    timers: given.timers ?? systemTimers,
  }
}

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

/** What the promise resolves with; undefined: that takes longer. */
export function inTime<Value>(
  promise: Promise<Value>,
  ms: number,
  timers: Timers,
): Promise<Value | undefined> {
  return new Promise((resolve, reject) => {
    const timer = new PatientTimer(ms, () => resolve(undefined), timers)
    promise.finally(() => timer.clear()).then(resolve, reject)
  })
}

/** `isUnref`: it does not keep the process running. */
export function pause(
  ms: number,
  timers: Timers,
  { isUnref = false } = {},
): Promise<void> {
  return new Promise((resolve) => {
    const timer = timers.setTimeout(resolve, ms)
    if (isUnref) timer.unref()
  })
}

export function lookAt(clock: Clock): Now {
  return { nowMs: clock.nowMs(), steadyMs: clock.steadyMs() }
}
