/** The time, as everything that judges an expiry asks for it; tests hand in their own. */
export interface Clock {
  /** Wall time in milliseconds since the epoch: what an `expiry` is compared with. */
  nowMs(): number
  /** Milliseconds that go on evenly when the wall clock is set. Without it, a step of that may go unnoticed. */
  steadyMs?(): number
}

/** One look at both clocks. */
export interface Now {
  readonly nowMs: number
  readonly steadyMs: number
}

export const systemClock: Clock = { nowMs: () => Date.now(), steadyMs: () => performance.now() }

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
