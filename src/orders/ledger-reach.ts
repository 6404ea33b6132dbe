import type { Clock } from '../clock.ts'
import type { Listener } from '../events.ts'
import type { Logger } from '../process/logger.ts'

/** The guard's rules look back so far (guard.ts). */
const wantedMs = 900_000
const warnEveryMs = 600_000

/** How far back the ledger remembers every quote. */
export class LedgerReach implements Listener {
  readonly #entries: number
  readonly #clock: Clock
  readonly #log: Logger
  readonly #startedAtMs: number
  /** When the last quote was over that was dropped to make room; undefined: none was. */
  #droppedEndMs: number | undefined
  #warnedAtMs = Number.NEGATIVE_INFINITY

  constructor({ entries, clock, log }: { entries: number; clock: Clock; log: Logger }) {
    this.#entries = entries
    this.#clock = clock
    this.#log = log
    this.#startedAtMs = clock.steadyMs()
  }

  get ms(): number {
    return Math.max(0, this.#clock.steadyMs() - (this.#droppedEndMs ?? this.#startedAtMs))
  }

  /** A quote was dropped to make room, so long after its end. */
  quoteForgotten(expiredForMs: number): void {
    const nowMs = this.#clock.steadyMs()
    this.#droppedEndMs = Math.max(this.#droppedEndMs ?? this.#startedAtMs, nowMs - expiredForMs)
    if (expiredForMs >= wantedMs || nowMs - this.#warnedAtMs < warnEveryMs) return
    this.#warnedAtMs = nowMs
    this.#log.warn(
      { expiredForMs: Math.round(expiredForMs), entries: this.#entries },
      'the ledger is full and forgets quotes less than 15 minutes after their expiry, so late orders for them are ' +
        'sent. Set LEDGER_ENTRIES higher.',
    )
  }
}
