/** When an exchange asked its upstream, by `performance.now()`, which goes on evenly when the wall clock is set. */
export class UpstreamTimes {
  readonly askedAtMs = performance.now()
  sentAtMs: number | undefined = undefined
  /** The head of the answer was received. */
  beganAtMs: number | undefined = undefined
  /** The upstream has answered, or failed; undefined for an answer that is streamed. */
  settledAtMs: number | undefined = undefined

  /** Called for each try. The first counts: a try that failed is the upstream's time. */
  sent(): void {
    this.sentAtMs ??= performance.now()
  }

  began(): void {
    this.beganAtMs = performance.now()
  }

  settled(): void {
    this.settledAtMs = performance.now()
  }

  /** From the sending to the last byte of an answer that is read whole; undefined: there is none. */
  get wholeMs(): number | undefined {
    const { sentAtMs, beganAtMs, settledAtMs } = this
    const isWhole = sentAtMs !== undefined && beganAtMs !== undefined && settledAtMs !== undefined
    return isWhole ? settledAtMs - sentAtMs : undefined
  }
}

/** Where the time of a request went. Null: no time is known to have gone there. */
export interface TimeSpent {
  /** It waited for a connection. */
  readonly queueMs: number | null
  /** From the sending to the head of the answer; without one, until the upstream failed or the request ended. */
  readonly upstreamMs: number | null
  /** From the head to the last byte of the answer. */
  readonly transferMs: number | null
  readonly ownMs: number | null
}

export interface TimedRequest {
  startedAtMs: number
  durationMs: number
  /** Undefined: the request did not ask its upstream itself. */
  times: UpstreamTimes | undefined
  /** It waited for a call that another request had begun. */
  waitedForOther: boolean
}

export function timeSpent({ startedAtMs, durationMs, times, waitedForOther }: TimedRequest): TimeSpent {
  if (times === undefined) {
    const ownMs = waitedForOther ? null : durationMs
    return { queueMs: null, upstreamMs: null, transferMs: null, ownMs }
  }
  const endedAtMs = startedAtMs + durationMs
  const { askedAtMs, sentAtMs, beganAtMs } = times
  // A call may go on though its client has left.
  const settledAtMs = Math.min(times.settledAtMs ?? endedAtMs, endedAtMs)
  const queueMs = (sentAtMs ?? settledAtMs) - askedAtMs
  const upstreamMs = sentAtMs === undefined ? null : (beganAtMs ?? settledAtMs) - sentAtMs
  const transferMs = beganAtMs === undefined ? null : settledAtMs - beganAtMs
  const ownMs = durationMs - queueMs - (upstreamMs ?? 0) - (transferMs ?? 0)
  return { queueMs, upstreamMs, transferMs, ownMs: Math.max(0, ownMs) }
}
