import { createHistogram, type RecordableHistogram } from 'node:perf_hooks'
import type { Clock } from '../clock.ts'
import type { Heard, Listener, NotKeptReason } from '../events.ts'
import { forEachUpstream, type UpstreamName, upstreamTable } from '../http/upstreams.ts'
import { roundedMs } from '../process/text.ts'
import type { Traffic } from '../upstream/breakers.ts'
import { failureText } from './outages.ts'
import type { Health, Hello, Slots } from './schemas.ts'
import { troubles, usableReasons } from './trouble-table.ts'

type Calls = Health['upstreams'][number]['traffic'][number]
type Column = keyof Slots['values']
type Sum = Exclude<Column, 'inFlight' | 'p95Ms'>

/** What was counted since the start, as the metrics have it, and how many requests are under way. */
export type Counts = Readonly<Record<Sum | 'inFlight', number>>

/** The counters as they stood at the end of a slice, or as they stand in the one that is running. */
type Row = Counts & { readonly p95Ms: number | null }

const beforeTheStart: Row = {
  requests: 0,
  quotes: 0,
  hits: 0,
  saved: 0,
  errors: 0,
  refused: 0,
  expired: 0,
  orders: 0,
  matched: 0,
  unknown: 0,
  inFlight: 0,
  p95Ms: null,
}
const columns = Object.keys(beforeTheStart) as readonly Column[]

const sliceMs = 10_000
const slicesOfMinute = 6
const slicesOfTenMinutes = 60
const slicesOfQuarter = 90
const slicesOfDay = 8_640
const minutesOfDay = 1_440
/** A streamed body may take longer. A histogram does not count what is above its highest value. */
const longestUs = 200_000_000

/** Calls that failed for one reason. `refusal`: what the provider says to one client, such as that its place is restricted. */
export interface Failures {
  count: number
  /** Such as `503` or `its expiry is in seconds`. */
  readonly reason: string
  readonly kind: 'failure' | 'refusal' | 'usable'
  readonly firstMs: number
}

/** What the answer to a quote call lacks. */
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

type SlowRequest = Omit<NonNullable<Health['slowest']>, 'agoMs'> & {
  readonly endedAtMs: number
}

/**
 * The last day in slices of ten seconds. At the end of a slice, and each second until then, its row has the counters as
 * they stand: what happened in a span of time is the difference of two rows. What no metric counts is kept for ten
 * minutes: the durations, and calls by their kind.
 */
export class History implements Listener {
  readonly #clock: Clock
  readonly #startedMs: number
  /** The rows of a day, and the one before it. */
  readonly #rows: Row[] = []
  /** The number of the slice that is running; -1 until the first tick. */
  #last = -1
  readonly #answers = new RecentCalls()
  readonly #calls = forEachUpstream((name) => {
    const byKind = upstreamTable[name].requests === 'by-kind'
    const kinds: Calls['traffic'][] = byKind ? ['quotes', 'orders', 'rest'] : ['rest']
    return new Map(kinds.map((kind) => [kind, new RecentCalls()]))
  })
  /** For each minute of the last day the p95 of the ten minutes that ended with it; null: there were too few calls. */
  readonly p95s = forEachUpstream((): (number | null)[] => [])
  /** A quote was served from memory after this, by `performance.now()`: hits are counted, and not dated. */
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
    // Nothing was called: the sentence of the breaker says so.
    if (outcome === 'breaker_open') return
    now.calls += 1
    const { status, traffic } = call
    const hasAnswer = outcome === 'answered' || outcome === 'failed-status'
    // `quoteNotKept` says of each quote whether it can be kept.
    if (hasAnswer && traffic !== 'quotes' && status >= 400 && !isRefusal(status))
      this.#countFailure(now, String(status))
    // Not of the upstream: it did not fail, or its client left.
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

  /** Called once a second, with the counters as they stand. */
  tick(counts: Counts): void {
    const number = Math.floor((this.#clock.steadyMs() - this.#startedMs) / sliceMs)
    // The process may have been paused, or the slice has ended.
    for (
      let next = Math.max(this.#last + 1, number - slicesOfDay);
      next <= number;
      next += 1
    )
      this.#begin(next)
    const running = this.#rows.pop() ?? beforeTheStart
    if (counts.hits > running.hits) this.hitAfterMs = this.#tickedAtMs
    this.#tickedAtMs = performance.now()
    this.#rows.push({
      ...counts,
      inFlight: Math.max(running.inFlight, counts.inFlight),
      p95Ms: this.#answers.lately(this.#last, slicesOfMinute).quantile(0.95),
    })
  }

  #begin(number: number): void {
    if (number > 0 && number % slicesOfMinute === 0) this.#endMinute()
    // Nothing is known of a slice that the process slept through.
    this.#rows.push({
      ...(this.#rows.at(-1) ?? beforeTheStart),
      inFlight: 0,
      p95Ms: null,
    })
    if (this.#rows.length > slicesOfDay + 1) this.#rows.shift()
    this.#last = number
  }

  #endMinute(): void {
    for (const [upstream, p95s] of Object.entries(this.p95s)) {
      const calls = new SliceTally(this.#last)
      for (const recent of this.#calls[upstream as UpstreamName].values())
        calls.merge(recent.lately(this.#last, slicesOfTenMinutes))
      // Among fewer calls, one slow answer would be the p95.
      const isEnough = calls.count > troubles.slow.limits.calls
      p95s.push(isEnough ? calls.quantile(0.95) : null)
      if (p95s.length > minutesOfDay) p95s.shift()
    }
  }

  /** A quarter of an hour by the slice, or the last few of these slots. */
  seconds(wanted?: number): Slots {
    return this.#shown(1, slicesOfQuarter, wanted)
  }

  /** A day by the minute, or the last few of these slots. */
  minutes(wanted?: number): Slots {
    return this.#shown(slicesOfMinute, minutesOfDay, wanted)
  }

  #shown(slices: number, slots: number, wanted = slots): Slots {
    const last = Math.floor(this.#last / slices)
    const first = Math.max(0, last - wanted + 1)
    const numbers = Array.from({ length: last - first + 1 }, (_, index) => first + index)
    const valuesOf = (column: Column) =>
      numbers.map((number) => this.#valueOf(column, number, slices))
    const values = Object.fromEntries(columns.map((column) => [column, valuesOf(column)]))
    return { slotMs: slices * sliceMs, slots, last, values: values as Slots['values'] }
  }

  #valueOf(column: Column, number: number, slices: number): number | null {
    const before = number * slices - 1
    const end = Math.min(before + slices, this.#last)
    if (column === 'p95Ms') return this.#at(end).p95Ms
    if (column !== 'inFlight') return this.#between(column, before, end)
    const inSlices = Array.from(
      { length: end - before },
      (_, index) => this.#at(end - index).inFlight,
    )
    return Math.max(...inSlices)
  }

  #at(slice: number): Row {
    return this.#rows[this.#rows.length - 1 - this.#last + slice] ?? beforeTheStart
  }

  /** What was counted after the end of one slice and until the end of another. */
  #between(sum: Sum, before: number, end: number): number {
    return this.#at(end)[sum] - this.#at(before)[sum]
  }

  /** In the last so many slices. */
  total(sum: Sum, slices = slicesOfDay): number {
    return this.#between(sum, this.#last - slices, this.#last)
  }

  /** Of answers to clients, over the last minute; and how many requests there are a second, lately. */
  get recent(): Hello['recent'] {
    return {
      p95Ms: this.#answers.lately(this.#last, slicesOfMinute).quantile(0.95),
      seconds: Math.round(this.#reachMs(slicesOfMinute) / 1_000),
      requestsPerSecond: Number(
        ((this.total('requests', 2) / this.#reachMs(2)) * 1_000).toFixed(1),
      ),
    }
  }

  trafficOf(upstream: UpstreamName): Calls[] {
    const seconds = Math.round(this.#reachMs(slicesOfMinute) / 1_000)
    return [...this.#calls[upstream]].map(([traffic, recent]) => {
      const calls = recent.lately(this.#last, slicesOfMinute)
      const { count, failed, notSent } = calls
      const asked = count + notSent
      return {
        traffic,
        seconds,
        notSent,
        lastError: recent.lastError,
        callsPerSecond: Number((count / seconds).toFixed(2)),
        // For its client, a request that was not sent has failed too.
        failedShare: asked === 0 ? null : Number(((failed + notSent) / asked).toFixed(4)),
        notKept: traffic === 'quotes' ? this.#notKept : null,
        p50Ms: calls.quantile(0.5),
        p95Ms: calls.quantile(0.95),
      }
    })
  }

  /** Of the answers to quote calls in the last minute; null: all were kept. */
  get #notKept(): Calls['notKept'] {
    const failures = this.failuresOf('swap', 'quotes')?.failures ?? []
    const [most] = failures
    const answers = failures.reduce((sum, { count }) => sum + count, 0)
    return most === undefined ? null : { answers, reason: most.reason }
  }

  /** The number of the slice that is running. */
  get slice(): number {
    return this.#last
  }

  /** The calls of the last minute, and those of them that failed, the most frequent reason first. */
  failuresOf(upstream: UpstreamName, traffic: Traffic, afterSlice = -1) {
    const first = Math.max(this.#last - slicesOfMinute, afterSlice)
    return this.#calls[upstream].get(traffic)?.failuresAfter(first)
  }

  /** How far the last slices reach back, of which the newest may not be over; at least a second. */
  #reachMs(slices: number): number {
    const beganMs = this.#startedMs + Math.max(0, this.#last - slices + 1) * sliceMs
    return Math.max(1_000, this.#clock.steadyMs() - beganMs)
  }

  get savings(): Health['savings'] {
    return {
      forMs: Math.min(
        slicesOfDay * sliceMs,
        Math.round(this.#clock.steadyMs() - this.#startedMs),
      ),
      quotes: this.total('quotes'),
      callsSaved: this.total('saved'),
      expiredOrdersStopped: this.total('expired'),
      orders: this.total('orders'),
      ordersMatched: this.total('matched'),
    }
  }

  /** The slowest request of the last minute; null: none ended. */
  get slowest(): Health['slowest'] {
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

const refusesAll: ReadonlySet<number> = new Set([401, 408, 429])

/** Whether an answer refuses one client, for its place or its amount. Others may well get another answer. */
function isRefusal(status: number): boolean {
  return status >= 400 && status < 500 && !refusesAll.has(status)
}

class SliceTally {
  readonly slice: number
  /** Those that no breaker refused. */
  calls = 0
  readonly failures = new Map<string, Failures>()
  failed = 0
  notSent = 0
  slowest: SlowRequest | undefined
  /** In microseconds, to a tenth of each: any traffic takes 3 KB. */
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

  /** The duration that this share of the calls did not exceed, with three digits; null without calls. */
  quantile(share: number): number | null {
    if (this.count === 0) return null
    return Number((this.#durations.percentile(share * 100) / 1_000).toPrecision(3))
  }
}

/** Answers, or calls of one kind, in those slices of the last ten minutes that had any. */
class RecentCalls {
  lastError: Calls['lastError'] = null
  /** The newest first. */
  #tallies: SliceTally[] = []

  /** Those of the slice that is running. */
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
      // An older slice comes later, so its first failure is the first of all.
      for (const [reason, one] of tally.failures)
        all.set(reason, { ...one, count: one.count + (all.get(reason)?.count ?? 0) })
    }
    const failures = [...all.values()].sort((left, right) => right.count - left.count)
    return { calls, failures }
  }

  /** Those of the last so many slices. */
  lately(last: number, slices: number): SliceTally {
    const all = new SliceTally(last)
    for (const one of this.#tallies) if (one.slice > last - slices) all.merge(one)
    return all
  }
}
