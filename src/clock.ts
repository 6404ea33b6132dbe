/** The time, as everything that judges an expiry asks for it; tests hand in their own. */
export interface Clock {
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
  /** It does not keep the process running. */
  unref(): Timer
}

/** One look at both clocks. */
export interface Now {
  readonly nowMs: number
  readonly steadyMs: number
}

const steadyMs = performance.now.bind(performance)

export const systemClock: Clock = { nowMs: Date.now, steadyMs }

export const systemTimers: Timers = {
  steadyMs,
  setTimeout,
  setInterval,
  clear: clearTimeout as Timers['clear'],
}

export function timersOf(clock: Clock): Timers {
  return clock.timers ?? systemTimers
}

/** `isUnref`: it does not keep the process running. */
export function pause(ms: number, timers: Timers, { isUnref = false } = {}): Promise<void> {
  return new Promise((resolve) => {
    const timer = timers.setTimeout(resolve, ms)
    if (isUnref) timer.unref()
  })
}

/** The steady clock's time. A clock without one counts by its wall time: `nowMs`, if that was just read. */
export function steadyMsOf(clock: Clock, nowMs?: number): number {
  return clock.steadyMs?.() ?? nowMs ?? clock.nowMs()
}

export function lookAt(clock: Clock): Now {
  const nowMs = clock.nowMs()
  return { nowMs, steadyMs: steadyMsOf(clock, nowMs) }
}

/** From when orders for a quote are refused, on both of our clocks (`quotes/ends.ts` computes it). */
export interface Ending {
  readonly refusedFromMs: number
  /** Our wall clock less our steady clock then: makes an instant of the steady clock out of the other. */
  readonly wallAheadMs: number
}

/** How long until orders for it are refused: until both of our clocks are past its end. */
export function orderLeftMs({ refusedFromMs, wallAheadMs }: Ending, { nowMs, steadyMs }: Now): number {
  return refusedFromMs - Math.min(nowMs, steadyMs + wallAheadMs)
}

/** The provider's clock less ours, as the `Date` of one answer bounds it. */
export interface Difference {
  readonly lowMs: number
  readonly highMs: number
}
