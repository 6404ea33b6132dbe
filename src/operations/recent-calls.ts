import { LatencyHistogram } from './latency-histogram.ts'

/** The calls of one kind to one upstream in the last minute. */
export interface ShownCalls {
  readonly traffic: string
  /** How long the figures reach back. */
  readonly seconds: number
  readonly callsPerSecond: number
  /** Of all requests: for its client, one that was not sent has failed too. null: there was none. */
  readonly failedShare: number | null
  /** Requests that were not sent, because a breaker was open or no connection became free. */
  readonly notSent: number
  readonly p50Ms: number | null
  readonly p95Ms: number | null
  readonly lastError: { readonly what: string; readonly at: number } | null
}

export interface CallEnd {
  /** Undefined: the request was never sent. */
  durationMs: number | undefined
  /** How it failed; undefined: it did not, or because of its client, or a breaker refused it. */
  error: string | undefined
}

const stepSeconds = 10
const steps = 6

class Step {
  calls = 0
  failures = 0
  notSent = 0
  readonly durations = new LatencyHistogram()

  clear(): void {
    this.calls = 0
    this.failures = 0
    this.notSent = 0
    this.durations.clear()
  }
}

/** A minute in steps of ten seconds, so that it takes 4 KB for any traffic. */
export class RecentCalls {
  readonly #traffic: string
  readonly #steps = Array.from({ length: steps }, () => new Step())
  #lastError: ShownCalls['lastError'] = null
  #secondsPassed = 0

  constructor(traffic: string) {
    this.#traffic = traffic
  }

  ended({ durationMs, error }: CallEnd, nowMs: () => number): void {
    const step = this.#current()
    if (durationMs === undefined) step.notSent += 1
    else {
      step.calls += 1
      step.durations.add(durationMs)
      if (error !== undefined) step.failures += 1
    }
    if (error !== undefined) this.#lastError = { what: error, at: nowMs() }
  }

  /** Many that went well. */
  add(durations: LatencyHistogram): void {
    this.#current().durations.merge(durations)
  }

  /** Called once a second. */
  secondPassed(): void {
    this.#secondsPassed += 1
    if (this.#secondsPassed % stepSeconds === 0) this.#current().clear()
  }

  shown(): ShownCalls {
    const total = new Step()
    for (const { calls, failures, notSent, durations } of this.#steps) {
      total.calls += calls
      total.failures += failures
      total.notSent += notSent
      total.durations.merge(durations)
    }
    const inStep = this.#secondsPassed % stepSeconds
    const seconds = Math.max(1, Math.min(this.#secondsPassed, (steps - 1) * stepSeconds + inStep))
    const asked = total.calls + total.notSent
    return {
      traffic: this.#traffic,
      seconds,
      callsPerSecond: Number((total.calls / seconds).toFixed(2)),
      failedShare: asked === 0 ? null : Number(((total.failures + total.notSent) / asked).toFixed(4)),
      notSent: total.notSent,
      p50Ms: digits(total.durations.quantile(0.5)),
      p95Ms: digits(total.durations.quantile(0.95)),
      lastError: this.#lastError,
    }
  }

  #current(): Step {
    return this.#steps[Math.floor(this.#secondsPassed / stepSeconds) % steps] as Step
  }
}

function digits(ms: number | null): number | null {
  return ms === null ? null : Number(ms.toPrecision(3))
}
