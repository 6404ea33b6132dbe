/** A clock that an application passes in. */
export interface GatewayClock {
  /** Wall time in milliseconds since the epoch: what an `expiry` is compared with. */
  nowMs(): number
  /** Monotonic milliseconds. Without this method, a change of the wall clock may go unnoticed. */
  steadyMs?(): number
  /**
   * Default: Node's timers.
   * @internal
   */
  readonly timers?: Timers
}

/** A `GatewayClock` with all its members: what everything that judges an expiry reads. */
export type Clock = Required<GatewayClock>

/** Timers, and the time that deadlines are counted by. A test passes timers that do not wait. */
export interface Timers {
  steadyMs(): number
  setTimeout(onTime: () => void, ms: number): Timer
  setInterval(onTime: () => void, ms: number): Timer
  clear(timer: Timer | undefined): void
}

/** The members of a `NodeJS.Timeout` that are used. */
export interface Timer {
  refresh(): unknown
  /** Keeps the timer from keeping the process running. */
  unref(): Timer
}

/** The time of both clocks at one moment. */
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

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  steadyMs: systemTimers.steadyMs,
  timers: systemTimers,
}

/** A clock without a steady time counts by its wall time. */
export function completeClock(given?: GatewayClock): Clock {
  if (given === undefined) return systemClock
  return {
    nowMs: () => given.nowMs(),
    steadyMs: () => given.steadyMs?.() ?? given.nowMs(),
    timers: given.timers ?? systemTimers,
  }
}

/**
 * Does not blame others for a pause of this process (SIGSTOP, a virtual machine that is moved). After a pause the timer
 * is due at once, though the data that it waits for may lie unread in a socket. So it lets the event loop read first,
 * and then calls back unless it was cleared or refreshed.
 */
export class PatientTimer {
  readonly #timers: Timers
  readonly #timer: Timer
  #lastLook: NodeJS.Immediate | undefined

  constructor(ms: number, onTime: () => void, timers = systemTimers) {
    this.#timers = timers
    this.#timer = timers.setTimeout(() => {
      this.#lastLook = setImmediate(() => {
        // Drops the immediate: Node leaves one that has run linked to its neighbours and their arguments.
        this.#lastLook = undefined
        onTime()
      })
    }, ms)
  }

  refresh(): void {
    clearImmediate(this.#lastLook)
    this.#timer.refresh()
  }

  clear(): void {
    clearImmediate(this.#lastLook)
    this.#timers.clear(this.#timer)
  }
}

/** An answer is waited for in four parts. A pause of this process takes one of them, and the others are left. */
const partsOfPatience = 4

/** Resolves as the promise does, or with undefined once `ms` have passed. */
export function inTime<Value>(
  promise: Promise<Value>,
  ms: number,
  timers: Timers,
): Promise<Value | undefined> {
  return new Promise((resolve, reject) => {
    let timer: PatientTimer
    // Node's timers drop fractions.
    const partMs = Math.ceil(ms / partsOfPatience)
    const wait = (parts: number) => {
      const onTime = () => (parts === 1 ? resolve(undefined) : wait(parts - 1))
      timer = new PatientTimer(partMs, onTime, timers)
    }
    wait(partsOfPatience)
    promise.finally(() => timer.clear()).then(resolve, reject)
  })
}

let turnsEnd: Promise<void> | undefined

/** Resolves once the event loop has read from every socket, for all who wait in this turn at once. */
export function endOfTurn(): Promise<void> {
  turnsEnd ??= new Promise((resolve) => {
    setImmediate(() => {
      turnsEnd = undefined
      resolve()
    })
  })
  return turnsEnd
}

/** `isUnref`: the pause does not keep the process running. */
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
