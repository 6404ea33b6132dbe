import { type Clock, steadyMsOf } from '../clock.ts'

/**
 * What restored entries may refuse:
 * - `certain-alone`: after an end that was not clean, a client may hold a newer quote that was not written. Its order is
 *   refused only where it names an expired quote, or states it to eight digits.
 * - `nothing`: our wall clock cannot be right, so it is not known which of them have expired.
 */
export type Trust = 'all' | 'certain-alone' | 'nothing'

/** What an earlier process left. */
export interface Restoration {
  /** No restored entry has a higher serial. */
  readonly lastSerial: number
  /** That process noted nothing that is missing here. */
  readonly isClean: boolean
  /** Our wall clock when it last wrote. */
  readonly writtenAtMs: number
}

export interface RestoredTrust {
  begin(restoration: Restoration): void
  /** How long a restored quote lived. */
  noteLife(lifeMs: number): void
  /** Whether the entry with this serial was restored, and not given again since. */
  isRestored(serial: number): boolean
  trust(): Trust
  readonly isTimeDoubted: boolean
  /** How long the newest quotes of an end that was not clean may be held by clients, from the start on. */
  readonly doubtMs: number
}

const defaultLifeMs = 300_000

export function createRestoredTrust(options: {
  clock: Clock
  retentionMs: number
  /** Whether the provider has said its time to this process. */
  isProviderHeard(): boolean
}): RestoredTrust {
  const { clock, retentionMs, isProviderHeard } = options
  let restored: Restoration | undefined
  let beganAtMs = 0
  let longestLifeMs: number | undefined

  function isTimeDoubted(): boolean {
    if (restored === undefined || isProviderHeard()) return false
    const sinceWrittenMs = clock.nowMs() - restored.writtenAtMs
    return sinceWrittenMs < 0 || sinceWrittenMs > retentionMs
  }

  const doubtMs = () => (restored?.isClean === false ? (longestLifeMs ?? defaultLifeMs) : 0)

  return {
    begin(restoration) {
      restored = restoration
      beganAtMs = steadyMsOf(clock)
    },
    noteLife(lifeMs) {
      if (lifeMs > 0) longestLifeMs = Math.max(longestLifeMs ?? 0, lifeMs)
    },
    isRestored: (serial) => restored !== undefined && serial > 0 && serial <= restored.lastSerial,
    trust() {
      if (isTimeDoubted()) return 'nothing'
      return steadyMsOf(clock) - beganAtMs < doubtMs() ? 'certain-alone' : 'all'
    },
    get isTimeDoubted() {
      return isTimeDoubted()
    },
    get doubtMs() {
      return doubtMs()
    },
  }
}
