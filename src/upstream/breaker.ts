export type BreakerState = 'closed' | 'open' | 'half-open'

export interface BreakerOptions {
  /** Failures in a row that open it. */
  failures: number
  /** How long it stays open before one request may try. */
  openMs: number
  /** A clock that is never set back, or an outage could last as long as the correction. */
  nowMs: () => number
  onChange?: (state: BreakerState) => void
}

/** What a request that was let out must report: one of the last three, exactly once. */
export interface Pass {
  /** The one request that tries whether an outage is over. */
  readonly isTrial: boolean
  /** A good answer has begun. However long the rest takes, the outage is over. */
  answering(): void
  succeeded(): void
  failed(): void
  /** The client left, or the request never went out: it says nothing of the upstream. */
  abandoned(): void
}

export interface Breaker {
  readonly state: BreakerState
  /** How long to wait before it is worth asking again; 0 while it is closed. */
  readonly retryAfterMs: number
  /** Leave to send a request, or nothing. While half-open, one request at a time has it. */
  admit(): Pass | undefined
}

/** Stops asking an upstream that fails: its callers hear so at once, and it is left in peace to recover. */
export function createBreaker(options: BreakerOptions): Breaker {
  let state: BreakerState = 'closed'
  let failuresInARow = 0
  let openUntilMs = 0
  let trialUnderWay = false
  let ordinary = ordinaryPass()

  function change(next: BreakerState): void {
    if (state === next) return
    state = next
    options.onChange?.(next)
  }

  function open(): void {
    openUntilMs = options.nowMs() + options.openMs
    change('open')
  }

  function close(): void {
    failuresInARow = 0
    // Requests from before the outage may still time out, one after another: that is the old outage.
    ordinary = ordinaryPass()
    change('closed')
  }

  function ordinaryPass(): Pass {
    const isCurrent = () => state === 'closed' && ordinary === pass
    const pass: Pass = {
      isTrial: false,
      answering() {},
      succeeded() {
        if (isCurrent()) failuresInARow = 0
      },
      failed() {
        if (!isCurrent()) return
        failuresInARow += 1
        if (failuresInARow >= options.failures) open()
      },
      abandoned() {},
    }
    return pass
  }

  function trialPass(): Pass {
    let after: Pass | undefined
    function endTrial(next?: () => void): void {
      trialUnderWay = false
      next?.()
    }
    return {
      isTrial: true,
      answering() {
        if (after) return
        endTrial(close)
        after = ordinary
      },
      succeeded() {
        if (after) after.succeeded()
        else endTrial(close)
      },
      failed() {
        if (after) after.failed()
        else endTrial(open)
      },
      abandoned() {
        if (!after) endTrial()
      },
    }
  }

  return {
    get state() {
      return state
    },
    get retryAfterMs() {
      return state === 'closed' ? 0 : Math.max(0, openUntilMs - options.nowMs())
    },
    admit() {
      if (state === 'closed') return ordinary
      if (trialUnderWay || options.nowMs() < openUntilMs) return undefined
      trialUnderWay = true
      change('half-open')
      return trialPass()
    },
  }
}
