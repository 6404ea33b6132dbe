export type BreakerState = 'closed' | 'open' | 'half-open'

export interface BreakerOptions {
  /** How many failures in a row open the breaker. */
  failures: number
  /** How long the breaker stays open before it admits one trial request. */
  openMs: number
  /** Must be monotonic: if a wall clock were set back, the breaker would stay open that much longer. */
  nowMs: () => number
  onChange?: (state: BreakerState) => void
}

/** Given to each admitted request, which must call `succeeded`, `failed` or `abandoned` exactly once. */
export interface Permit {
  /** Whether this is the one request that finds out if the outage is over. */
  readonly isTrial: boolean
  /** A good answer has begun. The outage is over, however long the rest of the answer takes. */
  answerBegan(): void
  succeeded(): void
  failed(): void
  /** The client left or the request was never sent, so its end says nothing about the upstream. */
  abandoned(): void
}

export interface Breaker {
  readonly state: BreakerState
  /** How long to wait before the next request can be admitted; 0 while the breaker is closed. */
  readonly retryAfterMs: number
  /** A permit to send a request, or undefined. While half-open, one request at a time gets a permit. */
  admit(): Permit | undefined
}

/** Stops sending to a failing upstream: callers get their error at once, and the upstream has time to recover. */
export function createBreaker(options: BreakerOptions): Breaker {
  let state: BreakerState = 'closed'
  let failuresInARow = 0
  let openUntilMs = 0
  let trialInFlight = false
  let ordinary = ordinaryPermit()

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
    // Requests from before the outage may still time out, one after another. Those timeouts belong to the old outage, so
    // the permits of these requests no longer count.
    ordinary = ordinaryPermit()
    change('closed')
  }

  function ordinaryPermit(): Permit {
    const isCurrent = () => state === 'closed' && ordinary === permit
    const permit: Permit = {
      isTrial: false,
      answerBegan() {},
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
    return permit
  }

  function trialPermit(): Permit {
    /** Takes the reports of this request once its good answer has begun and closed the breaker. */
    let permitSinceClose: Permit | undefined
    function endTrial(next?: () => void): void {
      trialInFlight = false
      next?.()
    }
    return {
      isTrial: true,
      answerBegan() {
        if (permitSinceClose) return
        endTrial(close)
        permitSinceClose = ordinary
      },
      succeeded() {
        if (permitSinceClose) permitSinceClose.succeeded()
        else endTrial(close)
      },
      failed() {
        if (permitSinceClose) permitSinceClose.failed()
        else endTrial(open)
      },
      abandoned() {
        if (!permitSinceClose) endTrial()
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
      if (trialInFlight || options.nowMs() < openUntilMs) return undefined
      trialInFlight = true
      change('half-open')
      return trialPermit()
    },
  }
}
