export type BreakerState = 'closed' | 'open' | 'half-open'

export interface BreakerOptions {
  /** How many failures in a row open the breaker, once the first of them is `minFailingMs` old. */
  failures: number
  /** Failures are often faster than successes: that many in a row, all at once, may be a small share of the requests. */
  minFailingMs: number
  /** How long the breaker stays open before it admits one trial request. */
  openMs: number
  /** Must be monotonic: if a wall clock were set back, the breaker would stay open that much longer. */
  nowMs: () => number
  onChange?: (state: BreakerState) => void
}

/** Given to each admitted request, which must call `succeeded`, `failed` or `abandoned` exactly once. */
export interface Permit {
  /** Whether this request finds out if the outage is over. */
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
  /** When the first of the failures in a row ended, by `nowMs`; undefined: none has failed since one succeeded. */
  readonly failingSinceMs: number | undefined
  /** How long to wait before the next request can be admitted; 0 while the breaker is closed. */
  readonly retryAfterMs: number
  /** Whether `admit` would give a permit now. */
  admits(): boolean
  /**
   * A permit to send a request, or undefined. While half-open, one request at a time gets a permit; but one that takes
   * longer than `openMs`, such as an upload, keeps the next one waiting no longer.
   */
  admit(): Permit | undefined
  /** Ends the row of failures, and the outage if there is one: some request has shown that the upstream works. */
  close(): void
}

/** How much longer than `minFailingMs` failures have to last while slower requests may yet succeed. */
const patience = 2.5

/** Stops sending to a failing upstream: callers get their error at once, and the upstream has time to recover. */
export function createBreaker(options: BreakerOptions): Breaker {
  let state: BreakerState = 'closed'
  let failuresInARow = 0
  let failingSinceMs: number | undefined
  let slowestFailureMs = 0
  let nextTrialAtMs = 0
  /** The latest, if it has not ended. */
  let trial: Permit | undefined
  /** When each request was sent that has no answer yet, the oldest first. A new Map for each time the breaker closes. */
  let unanswered = new Map<Permit, number>()

  function change(next: BreakerState): void {
    if (state === next) return
    state = next
    options.onChange?.(next)
  }

  function open(): void {
    nextTrialAtMs = options.nowMs() + options.openMs
    change('open')
  }

  function endRow(): void {
    failuresInARow = 0
    failingSinceMs = undefined
    slowestFailureMs = 0
  }

  function countFailure(sentAtMs: number): void {
    const nowMs = options.nowMs()
    failuresInARow += 1
    failingSinceMs ??= nowMs
    slowestFailureMs = Math.max(slowestFailureMs, nowMs - sentAtMs)
    const [oldestMs = nowMs] = unanswered.values()
    const mayYetSucceed = nowMs - oldestMs > slowestFailureMs
    const minMs = options.minFailingMs * (mayYetSucceed ? patience : 1)
    if (failuresInARow >= options.failures && nowMs - failingSinceMs >= minMs) open()
  }

  function close(): void {
    endRow()
    if (state === 'closed') return
    trial = undefined
    // Requests from before the outage may still time out, one after another. Those timeouts belong to the old outage, so
    // the permits of these requests no longer count.
    unanswered = new Map()
    change('closed')
  }

  function ordinaryPermit(): Permit {
    const ours = unanswered
    const sentAtMs = options.nowMs()
    const isCurrent = () => state === 'closed' && ours === unanswered
    const answered = () => void ours.delete(permit)
    const permit: Permit = {
      isTrial: false,
      answerBegan: answered,
      succeeded() {
        answered()
        if (isCurrent()) endRow()
      },
      failed() {
        answered()
        if (isCurrent()) countFailure(sentAtMs)
      },
      abandoned: answered,
    }
    ours.set(permit, sentAtMs)
    return permit
  }

  function trialPermit(): Permit {
    const beforeOutage = unanswered
    /** Takes the reports of this request once its good answer has begun and closed the breaker. */
    let permitSinceClose: Permit | undefined
    /** A good answer ends the outage, however late it is, but not a later outage. */
    function endOutage(): void {
      if (unanswered === beforeOutage) close()
    }
    /** A later trial, or another request, may have decided meanwhile. */
    function endTrial(next: () => void): void {
      if (trial !== permit) return
      trial = undefined
      next()
    }
    const permit: Permit = {
      isTrial: true,
      answerBegan() {
        if (unanswered !== beforeOutage) return
        close()
        permitSinceClose = ordinaryPermit()
        permitSinceClose.answerBegan()
      },
      succeeded() {
        if (permitSinceClose) permitSinceClose.succeeded()
        else endOutage()
      },
      failed() {
        if (permitSinceClose) permitSinceClose.failed()
        else endTrial(open)
      },
      abandoned() {
        endTrial(() => {
          nextTrialAtMs = 0
        })
      },
    }
    return permit
  }

  const isDue = () => options.nowMs() >= nextTrialAtMs

  return {
    get state() {
      return state
    },
    get retryAfterMs() {
      return state === 'open' ? Math.max(0, nextTrialAtMs - options.nowMs()) : 0
    },
    get failingSinceMs() {
      return failingSinceMs
    },
    admits: () => state === 'closed' || isDue(),
    admit() {
      if (state === 'closed') return ordinaryPermit()
      if (!isDue()) return undefined
      trial = trialPermit()
      nextTrialAtMs = options.nowMs() + options.openMs
      change('half-open')
      return trial
    },
    close,
  }
}
