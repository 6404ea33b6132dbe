import { type Clock, steadyMsOf } from '../clock.ts'
import type { Logger } from '../process/logger.ts'

/** How far back the ledger remembers every quote. */
export interface LedgerReach {
  /** `droppedForMs`: how long ago the last quote expired that was dropped to make room; undefined if none was. */
  reachMs(droppedForMs: number | undefined): number
  /** A quote was dropped to make room, so long after its expiry. */
  dropped(expiredForMs: number): void
}

/** The matching rules look back so far (matching.ts). */
const wantedMs = 900_000
const warnEveryMs = 600_000

export function createLedgerReach(options: { entries: number; clock: Clock; log: Logger }): LedgerReach {
  const { entries, clock, log } = options
  const startedAtMs = steadyMsOf(clock)
  let warnedAtMs = Number.NEGATIVE_INFINITY

  return {
    reachMs: (droppedForMs) =>
      Math.min(Math.max(0, steadyMsOf(clock) - startedAtMs), droppedForMs ?? Number.POSITIVE_INFINITY),
    dropped(expiredForMs) {
      const nowMs = steadyMsOf(clock)
      if (expiredForMs >= wantedMs || nowMs - warnedAtMs < warnEveryMs) return
      warnedAtMs = nowMs
      log.warn(
        { expiredForMs: Math.round(expiredForMs), entries },
        'the ledger is full and forgets quotes less than 15 minutes after their expiry, so late orders for them are ' +
          'sent. Set LEDGER_ENTRIES higher.',
      )
    },
  }
}
