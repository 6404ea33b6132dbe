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

/** What a request that was let out must report, exactly once. */
export interface Pass {
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
    change('closed')
  }

  const ordinary: Pass = {
    succeeded() {
      // An answer to a request from before the outage does not end it; the trial does.
      if (state === 'closed') failuresInARow = 0
    },
    failed() {
      if (state !== 'closed') return
      failuresInARow += 1
      if (failuresInARow >= options.failures) open()
    },
    abandoned() {},
  }

  function endTrial(next: () => void): () => void {
    return () => {
      trialUnderWay = false
      next()
    }
  }

  const trial: Pass = { succeeded: endTrial(close), failed: endTrial(open), abandoned: endTrial(() => {}) }

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
      return trial
    },
  }
}
