import { Durations } from './latency-histogram.ts'

/** One request that is over, as the console shows it. */
export interface SeenRequest {
  readonly at: number
  readonly method: string
  readonly route: string
  readonly path: string
  /** 0: the client left, or the answer broke off. */
  readonly status: number
  readonly cacheStatus: string | null
  readonly durationMs: number
  readonly upstreamMs: number | null
  readonly requestId: string
  /** Masked. */
  readonly client: string
  readonly application: string
  readonly why: string
}

export interface RefusedOrder {
  readonly at: number
  readonly reason: 'expired' | 'unknown'
  readonly pair: string
  readonly amount: string
  readonly application: string
  readonly quoteId: string | null
  readonly quoteAgeMs: number | null
  readonly expiredForMs: number | null
  readonly requestId: string
}

/** What happened within one second. */
export interface Sample {
  readonly requests: number
  readonly quotes: number
  readonly hits: number
  readonly p95Ms: number | null
  readonly upstreamErrors: number
  readonly refused: number
  readonly inFlight: number
}

export interface SecondPassed {
  readonly sample: Sample
  /** Of all the seconds that are remembered. */
  readonly p95Ms: number | null
  /** Those that are over since the last time, the oldest first. */
  readonly requests: readonly SeenRequest[]
  /** Further requests that were counted and not kept. */
  readonly skipped: number
  readonly refusals: readonly RefusedOrder[]
}

/**
 * What goes on, for those who look. Orders that were refused are always remembered, because they are few and the
 * person on call comes after the event; everything else only while `watched`.
 */
export interface Activity {
  watch(): void
  unwatch(): void
  requestOver(request: { durationMs: number; isQuote: boolean; isHit: boolean }): void
  /** Whether another request with this status would be kept: a flood is counted, and not described. */
  hasRoom(status: number): boolean
  keep(request: SeenRequest): void
  orderRefused(order: RefusedOrder): void
  readonly refusals: readonly RefusedOrder[]
  /** Less those of the current second, which its tick will tell of. */
  readonly refusalsTold: readonly RefusedOrder[]
  readonly refusedTotal: number
  readonly samples: readonly Sample[]
  readonly requests: readonly SeenRequest[]
  /** Closes the current second. */
  tick(inFlight: number): SecondPassed
}

const secondsKept = 60
const requestsKept = 200
const refusalsKept = 50
const plainASecond = 60
const failedASecond = 60

export interface ActivityOptions {
  /** Called when the first person begins to look, and when the last one stops. */
  watchedChanged?: (watched: boolean) => void
  /** Failed requests to upstreams, of all time. */
  upstreamFailures?: () => number
}

export function createActivity({
  watchedChanged = () => {},
  upstreamFailures = () => 0,
}: ActivityOptions = {}): Activity {
  let requests: SeenRequest[] = []
  let samples: Sample[] = []
  let durations: Durations[] = []
  let fresh: SeenRequest[] = []
  const refusals: RefusedOrder[] = []
  let second = newSecond()
  let refusedTotal = 0
  let refusedBefore = 0
  let failuresBefore = 0

  function forget(): void {
    requests = []
    samples = []
    durations = []
    fresh = []
    second = newSecond()
    refusedBefore = refusedTotal
    failuresBefore = upstreamFailures()
  }

  return {
    watch() {
      watchedChanged(true)
      forget()
    },
    unwatch() {
      watchedChanged(false)
      forget()
    },
    requestOver({ durationMs, isQuote, isHit }) {
      second.requests += 1
      if (isQuote) second.quotes += 1
      if (isHit) second.hits += 1
      second.durations.add(durationMs)
    },
    hasRoom(status) {
      if (status >= 200 && status < 400) return second.plain < plainASecond
      return second.failed < failedASecond
    },
    keep(request) {
      if (request.status >= 200 && request.status < 400) second.plain += 1
      else second.failed += 1
      fresh.push(request)
    },
    orderRefused(order) {
      refusedTotal += 1
      refusals.unshift(order)
      if (refusals.length > refusalsKept) refusals.pop()
    },
    get refusals() {
      return refusals
    },
    get refusalsTold() {
      return refusals.slice(refusedTotal - refusedBefore)
    },
    get refusedTotal() {
      return refusedTotal
    },
    get samples() {
      return samples
    },
    get requests() {
      return requests
    },
    tick(inFlight) {
      const { durations: taken, requests: counted, quotes, hits, plain, failed } = second
      const upstreamErrors = upstreamFailures() - failuresBefore
      failuresBefore += upstreamErrors
      const sample: Sample = {
        requests: counted,
        quotes,
        hits,
        upstreamErrors,
        refused: refusedTotal - refusedBefore,
        p95Ms: taken.quantile(0.95),
        inFlight,
      }
      samples = [...samples, sample].slice(-secondsKept)
      durations = [...durations, taken].slice(-secondsKept)
      requests = [...requests, ...fresh].slice(-requestsKept)
      const all = new Durations()
      for (const one of durations) all.merge(one)
      const passed: SecondPassed = {
        sample,
        p95Ms: all.quantile(0.95),
        requests: fresh,
        skipped: Math.max(0, counted - plain - failed),
        refusals: refusals.slice(0, sample.refused),
      }
      fresh = []
      second = newSecond()
      refusedBefore = refusedTotal
      return passed
    },
  }
}

function newSecond() {
  return {
    requests: 0,
    quotes: 0,
    hits: 0,
    plain: 0,
    failed: 0,
    durations: new Durations(),
  }
}
