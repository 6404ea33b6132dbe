import type { Clock } from '../clock.ts'
import type { Heard, Listener, NotKeptReason } from '../events.ts'
import { forEachUpstream, type UpstreamName, upstreamTable } from '../http/upstreams.ts'
import { roundedMs } from '../process/text.ts'
import type { Traffic } from '../upstream/breakers.ts'
import type { Counts } from './counts.ts'
import { failureText } from './outages.ts'
import {
  type Failures,
  RecentCalls,
  SliceTally,
  slicesOfTenMinutes,
} from './recent-calls.ts'
import type { Sparklines, Status } from './schemas.ts'
import { troubles, usableReasons } from './trouble-table.ts'

type Calls = Status['upstreams'][number]['traffic'][number]
type Sum = 'requests' | 'quotes' | 'hits' | 'errors' | 'refused'

/** The counters at the end of a slice, or now in the running one. */
type Row = Readonly<Record<Sum | 'inFlight', number>> & { readonly p95Ms: number | null }

/** Float orders at the end of a minute. */
type Orders = Readonly<Record<'orders' | 'unknown', number>>

const beforeTheStart: Row & Orders = {
  requests: 0,
  quotes: 0,
  hits: 0,
  errors: 0,
  refused: 0,
  inFlight: 0,
  p95Ms: null,
  orders: 0,
  unknown: 0,
}

const sliceMs = 10_000
const slicesOfMinute = 6
const slicesOfQuarter = 90
const minutesOfDay = 1_440

/** Why an answer to a quote call is not kept. */
const notKeptWords: Readonly<Record<Exclude<NotKeptReason, 'status'>, string>> = {
  'not-json': 'it is not JSON',
  'not-a-quote': 'it is not a quote',
  'other-amount': 'it is for another amount',
  'no-expiry': 'it has no expiry',
  'expiry-in-seconds': 'its expiry is in seconds',
  'expiry-too-far': 'its expiry is over a day away',
  expired: 'it has expired already',
  'content-coding': 'it has a content coding',
  vary: 'its Vary is *',
  'too-large': 'it is too large',
  used: 'an order has used it',
}

/**
 * A quarter of an hour in slices of ten seconds. Each slice's row has the counters at its end, or as of the last
 * second: what happened is the difference of two rows. Durations, and calls by kind, are in no metric and kept for ten
 * minutes. Each minute of a day keeps the figures that show what is usual.
 */
export class History implements Listener {
  readonly #clock: Clock
  readonly #startedMs: number
  /** The rows of a quarter of an hour, and one row before. */
  readonly #rows: Row[] = []
  /** The number of the running slice; -1 until the first tick. */
  #last = -1
  readonly #answers = new RecentCalls()
  readonly #calls = forEachUpstream((name) => {
    const byKind = upstreamTable[name].requests === 'by-kind'
    const kinds: Calls['traffic'][] = byKind ? ['quotes', 'orders', 'rest'] : ['rest']
    return new Map(kinds.map((kind) => [kind, new RecentCalls()]))
  })
  /** For each minute of the last day: the p95 of ten minutes; null: too few calls. */
  readonly p95s = forEachUpstream((): (number | null)[] => [])
  /** For each minute of the last day. */
  readonly #orders: Orders[] = []
  #ordersNow: Orders = beforeTheStart
  /** Minutes that are over. */
  #minutes = 0
  /** Some hit came after this, by `performance.now()`: hits are counted, not timed. */
  hitAfterMs = Number.NEGATIVE_INFINITY
  #tickedAtMs = performance.now()

  constructor(clock: Clock) {
    this.#clock = clock
    this.#startedMs = clock.steadyMs()
  }

  requestEnded(...[exchange, status, durationMs]: Heard<'requestEnded'>): void {
    const now = this.#answers.during(this.#last)
    now.add(durationMs)
    if (durationMs <= (now.slowest?.durationMs ?? -1)) return
    const { area, request, id, traceId = null, span } = exchange
    now.slowest = {
      area,
      method: request.method ?? '',
      status,
      durationMs,
      endedAtMs: this.#clock.steadyMs(),
      requestId: id,
      traceId,
      sampled: span !== undefined,
    }
  }

  callRefused(...[upstream, traffic, outcome]: Heard<'callRefused'>): void {
    this.callEnded({ upstream, traffic, status: 0 }, outcome, 0)
  }

  callEnded(...[call, outcome, durationMs]: Heard<'callEnded'>): void {
    const recent = this.#calls[call.upstream].get(call.traffic)
    if (recent === undefined) return
    const now = recent.during(this.#last)
    if (outcome === 'breaker_open' || outcome === 'connection_limit_reached')
      now.notSent += 1
    else now.add(durationMs)
    // The breaker's sentence reports these.
    if (outcome === 'breaker_open') return
    now.calls += 1
    const { status, traffic } = call
    const hasAnswer = outcome === 'answered' || outcome === 'failed-status'
    // `quoteNotKept` judges quotes.
    if (hasAnswer && traffic !== 'quotes' && status >= 400 && !isRefusal(status))
      this.#countFailure(now, String(status))
    // The upstream did not fail, or the caller left.
    if (outcome === 'answered' || outcome === 'given-up') return
    if (outcome !== 'connection_limit_reached') now.failed += 1
    if (!hasAnswer) this.#countFailure(now, failureText(outcome))
    const failure = outcome === 'failed-status' ? status : outcome
    recent.lastError = { what: failureText(failure, durationMs), at: this.#clock.nowMs() }
  }

  quoteNotKept(...[reason, status]: Heard<'quoteNotKept'>): void {
    const now = this.#calls.swap.get('quotes')?.during(this.#last)
    if (now === undefined) return
    if (reason === 'status')
      this.#countFailure(now, String(status), isRefusal(status) ? 'refusal' : 'failure')
    else {
      const kind = usableReasons.includes(reason) ? 'usable' : 'failure'
      this.#countFailure(now, notKeptWords[reason], kind)
    }
  }

  #countFailure(
    tally: SliceTally,
    reason: string,
    kind: Failures['kind'] = 'failure',
  ): void {
    const known = tally.failures.get(reason)
    if (known !== undefined) known.count += 1
    else {
      const firstMs = this.#clock.steadyMs()
      tally.failures.set(reason, { count: 1, reason, kind, firstMs })
    }
  }

  /** Called once a second. */
  tick(counts: Counts): void {
    const number = Math.floor((this.#clock.steadyMs() - this.#startedMs) / sliceMs)
    this.#endMinutes(Math.floor(number / slicesOfMinute))
    this.#beginSlices(number)
    const running = this.#rows.pop() ?? beforeTheStart
    if (counts.hits > running.hits) this.hitAfterMs = this.#tickedAtMs
    this.#tickedAtMs = performance.now()
    this.#ordersNow = counts
    const { requests, quotes, hits, errors, refused } = counts
    this.#rows.push({
      requests,
      quotes,
      hits,
      errors,
      refused,
      inFlight: Math.max(running.inFlight, counts.inFlight),
      p95Ms: this.#answers.lately(this.#last, slicesOfMinute).quantile(0.95),
    })
  }

  /** After a pause of the process several slices begin, and nothing is known of the pause. */
  #beginSlices(number: number): void {
    const first = Math.max(this.#last + 1, number - slicesOfQuarter)
    for (let next = first; next <= number; next += 1) {
      const before = this.#rows.at(-1) ?? beforeTheStart
      this.#rows.push({ ...before, inFlight: 0, p95Ms: null })
    }
    this.#rows.splice(0, this.#rows.length - slicesOfQuarter - 1)
    this.#last = number
  }

  #endMinutes(number: number): void {
    const first = Math.max(this.#minutes + 1, number - minutesOfDay + 1)
    for (let minute = first; minute <= number; minute += 1) this.#endMinute(minute)
    this.#minutes = number
  }

  #endMinute(minute: number): void {
    const lastSlice = minute * slicesOfMinute - 1
    for (const [upstream, p95s] of Object.entries(this.p95s)) {
      const calls = new SliceTally(lastSlice)
      for (const recent of this.#calls[upstream as UpstreamName].values())
        calls.merge(recent.lately(lastSlice, slicesOfTenMinutes))
      // One slow answer would be the p95 of fewer calls.
      const isEnough = calls.count > troubles.slow.limits.calls
      pushLast(p95s, isEnough ? calls.quantile(0.95) : null)
    }
    const { orders, unknown } = this.#ordersNow
    pushLast(this.#orders, { orders, unknown })
  }

  /** The last quarter of an hour by slice, oldest first. */
  get sparklines(): Sparklines {
    const first = Math.max(0, this.#last - slicesOfQuarter + 1)
    const slices = Array.from(
      { length: this.#last - first + 1 },
      (_, index) => first + index,
    )
    const counted = (sum: Sum) =>
      slices.map((slice) => this.#at(slice)[sum] - this.#at(slice - 1)[sum])
    return {
      slotMs: sliceMs,
      requests: counted('requests'),
      quotes: counted('quotes'),
      hits: counted('hits'),
      errors: counted('errors'),
      refused: counted('refused'),
      inFlight: slices.map((slice) => this.#at(slice).inFlight),
      p95Ms: slices.map((slice) => this.#at(slice).p95Ms),
    }
  }

  #at(slice: number): Row {
    return this.#rows[this.#rows.length - 1 - this.#last + slice] ?? beforeTheStart
  }

  /** Float orders of these minutes, and the ones forwarded as unknown. */
  ordersOf(minutes = minutesOfDay): Orders {
    const before = this.#orders.at(-minutes) ?? beforeTheStart
    const { orders, unknown } = this.#ordersNow
    return { orders: orders - before.orders, unknown: unknown - before.unknown }
  }

  get uptimeMs(): number {
    return this.#clock.steadyMs() - this.#startedMs
  }

  /** The p95 of a minute's answers, and requests a second of late. */
  get recent(): Status['recent'] {
    const lately = this.#at(this.#last).requests - this.#at(this.#last - 2).requests
    return {
      p95Ms: this.#answers.lately(this.#last, slicesOfMinute).quantile(0.95),
      seconds: Math.round(this.#reachMs(slicesOfMinute) / 1_000),
      requestsPerSecond: Number(((lately / this.#reachMs(2)) * 1_000).toFixed(1)),
    }
  }

  trafficOf(upstream: UpstreamName): Calls[] {
    const seconds = Math.round(this.#reachMs(slicesOfMinute) / 1_000)
    return [...this.#calls[upstream]].map(([traffic, recent]) => {
      const calls = recent.lately(this.#last, slicesOfMinute)
      const { count, failed, notSent } = calls
      const attempted = count + notSent
      return {
        traffic,
        seconds,
        notSent,
        lastError: recent.lastError,
        callsPerSecond: Number((count / seconds).toFixed(2)),
        // To its caller, a request that was not sent has failed.
        failedShare:
          attempted === 0 ? null : Number(((failed + notSent) / attempted).toFixed(4)),
        notKept: traffic === 'quotes' ? this.#notKept : null,
        p50Ms: calls.quantile(0.5),
        p95Ms: calls.quantile(0.95),
      }
    })
  }

  /** The last minute's answers that were not kept; null: all were. */
  get #notKept(): Calls['notKept'] {
    const failures = this.failuresOf('swap', 'quotes')?.failures ?? []
    const [most] = failures
    const answers = failures.reduce((sum, { count }) => sum + count, 0)
    return most === undefined ? null : { answers, reason: most.reason }
  }

  get slice(): number {
    return this.#last
  }

  /** The last minute's calls and failures, the most frequent reason first. */
  failuresOf(upstream: UpstreamName, traffic: Traffic, afterSlice = -1) {
    const first = Math.max(this.#last - slicesOfMinute, afterSlice)
    return this.#calls[upstream].get(traffic)?.failuresAfter(first)
  }

  /** How far the last slices reach back, with the running one; at least a second. */
  #reachMs(slices: number): number {
    const beganMs = this.#startedMs + Math.max(0, this.#last - slices + 1) * sliceMs
    return Math.max(1_000, this.#clock.steadyMs() - beganMs)
  }

  /** The slowest request of the last minute; null: none ended. */
  get slowest(): Status['slowest'] {
    const { slowest } = this.#answers.lately(this.#last, slicesOfMinute)
    if (slowest === undefined) return null
    const { endedAtMs, durationMs, ...rest } = slowest
    return {
      ...rest,
      durationMs: roundedMs(durationMs),
      agoMs: Math.round(this.#clock.steadyMs() - endedAtMs),
    }
  }
}

function pushLast<One>(list: One[], one: One): void {
  list.push(one)
  if (list.length > minutesOfDay) list.shift()
}

const refusesAll: ReadonlySet<number> = new Set([401, 408, 429])

/** Whether an answer refuses one request, for its user's place or its amount. Others may get another answer. */
function isRefusal(status: number): boolean {
  return status >= 400 && status < 500 && !refusesAll.has(status)
}
