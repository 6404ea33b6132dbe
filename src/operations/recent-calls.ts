import { createHistogram, type RecordableHistogram } from 'node:perf_hooks'
import type { Status } from './schemas.ts'

export const slicesOfTenMinutes = 60
/** Longer durations, such as of a streamed body, count as this: a histogram ignores higher values. */
const longestUs = 200_000_000

/** Failures for one reason. `refusal`: of one request, for example because its user's place is restricted. */
export interface Failures {
  count: number
  /** For example `503` or `its expiry is in seconds`. */
  readonly reason: string
  readonly kind: 'failure' | 'refusal' | 'usable'
  readonly firstMs: number
}

type LastError = Status['upstreams'][number]['traffic'][number]['lastError']

type SlowRequest = Omit<NonNullable<Status['slowest']>, 'agoMs'> & {
  readonly endedAtMs: number
}

/** Ten seconds of answers, or of calls of one kind. */
export class SliceTally {
  readonly slice: number
  /** Calls that no breaker kept back. */
  calls = 0
  readonly failures = new Map<string, Failures>()
  failed = 0
  notSent = 0
  slowest: SlowRequest | undefined
  /** Durations in microseconds, to a tenth: 3 KB for any traffic. */
  readonly #durations: RecordableHistogram = createHistogram({
    figures: 1,
    highest: longestUs,
  })

  constructor(slice: number) {
    this.slice = slice
  }

  get count(): number {
    return this.#durations.count
  }

  add(durationMs: number): void {
    this.#durations.record(
      Math.min(longestUs, Math.max(1, Math.round(durationMs * 1_000))),
    )
  }

  merge(other: SliceTally): void {
    if ((other.slowest?.durationMs ?? -1) > (this.slowest?.durationMs ?? -1))
      this.slowest = other.slowest
    this.failed += other.failed
    this.notSent += other.notSent
    this.#durations.add(other.#durations)
  }

  /** The duration that this share did not exceed, to three digits; null without calls. */
  quantile(share: number): number | null {
    if (this.count === 0) return null
    return Number((this.#durations.percentile(share * 100) / 1_000).toPrecision(3))
  }
}

/** Answers, or calls of one kind, by slice of the last ten minutes. */
export class RecentCalls {
  lastError: LastError = null
  /** Newest first. */
  #tallies: SliceTally[] = []

  during(last: number): SliceTally {
    const slice = Math.max(0, last)
    const [newest] = this.#tallies
    if (newest?.slice === slice) return newest
    const tally = new SliceTally(slice)
    this.#tallies = [tally, ...this.#tallies.slice(0, slicesOfTenMinutes - 1)]
    return tally
  }

  failuresAfter(slice: number) {
    const all = new Map<string, Failures>()
    let calls = 0
    for (const tally of this.#tallies) {
      if (tally.slice <= slice) continue
      calls += tally.calls
      // Older slices come later, so `firstMs` becomes the oldest.
      for (const [reason, one] of tally.failures)
        all.set(reason, { ...one, count: one.count + (all.get(reason)?.count ?? 0) })
    }
    const failures = [...all.values()].sort((left, right) => right.count - left.count)
    return { calls, failures }
  }

  lately(last: number, slices: number): SliceTally {
    const all = new SliceTally(last)
    for (const one of this.#tallies) if (one.slice > last - slices) all.merge(one)
    return all
  }
}
