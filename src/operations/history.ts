import type { Clock } from '../clock.ts'
import type { Events, Listener } from '../events.ts'
import { forEachUpstream, type UpstreamName, upstreamTable } from '../http/upstreams.ts'
import { roundedMs } from '../process/text.ts'
import { LatencyHistogram } from './latency-histogram.ts'
import { failureText } from './outages.ts'
import type { Health, Hello, Slots } from './schemas.ts'

type Seen<Name extends keyof Events> = Parameters<Events[Name]>
type Calls = Health['upstreams'][number]['traffic'][number]

/** What is counted since the start; the metrics have it. */
export const sums = [
  'requests',
  'quotes',
  'hits',
  'saved',
  'errors',
  'refused',
  'expired',
  'orders',
  'matched',
  'unknown',
] as const
type Sum = (typeof sums)[number]

/** All that was counted since the start, and how many requests are under way. */
export interface Counts {
  readonly sums: Readonly<Record<Sum, number>>
  readonly inFlight: number
}

const columns = [...sums, 'inFlight', 'p95Ms', 'callP95Ms'] as const
type Column = (typeof columns)[number]

const sliceMs = 10_000
const slicesOfMinute = 6
const slicesOfTenMinutes = 60
/** A quarter of an hour. */
const slotsOfQuarter = 90
const slicesOfDay = 8_640
const minutesOfDay = 1_440
/** The rows of a day, and the one before it. */
const rows = slicesOfDay + 1
/** Among fewer calls, one slow answer would be the p95. As in the alert QuotegateProviderSlow. */
const minCallsOfTenMinutes = 20

type SlowRequest = Omit<NonNullable<Health['slowest']>, 'agoMs'> & { readonly endedAtMs: number }

/**
 * The last day in slices of ten seconds. At the end of a slice, and each second until then, its row has the counters as
 * they stand: what happened in a span of time is the difference of two rows. What no metric counts is kept for ten
 * minutes: the durations, and calls by their kind.
 */
export class History implements Listener {
  readonly #clock: Clock
  readonly #startedMs: number
  readonly #table: Readonly<Record<Column, Float64Array>>
  /** The number of the slice that is running; -1 until the first tick. */
  #last = -1
  readonly #answers = new RecentCalls()
  readonly #calls = forEachUpstream((name) => {
    const byKind = upstreamTable[name].requests === 'by-kind'
    const kinds: Calls['traffic'][] = byKind ? ['quotes', 'orders', 'rest'] : ['rest']
    return new Map(kinds.map((kind) => [kind, new RecentCalls()]))
  })
  readonly #p95s = forEachUpstream((): (number | null)[] => [])

  constructor(clock: Clock) {
    this.#clock = clock
    this.#startedMs = this.#steadyMs()
    const made = columns.map((column) => [column, new Float64Array(rows)])
    this.#table = Object.fromEntries(made) as Record<Column, Float64Array>
  }

  requestEnded(...[exchange, status, durationMs]: Seen<'requestEnded'>): void {
    const { now } = this.#answers
    now.durations.add(durationMs)
    if (durationMs <= (now.slowest?.durationMs ?? -1)) return
    const { area, request, id, traceId = null, span } = exchange
    now.slowest = {
      ...{ area, method: request.method ?? '', status, durationMs },
      ...{ endedAtMs: this.#steadyMs(), requestId: id, traceId, sampled: span !== undefined },
    }
  }

  callRefused(...[upstream, traffic, outcome]: Seen<'callRefused'>): void {
    this.#note({ upstream, traffic, status: 0 }, outcome, undefined)
  }

  callEnded(...[call, outcome, durationMs]: Seen<'callEnded'>): void {
    const wasSent = outcome !== 'breaker_open' && outcome !== 'connection_limit_reached'
    this.#note(call, outcome, wasSent ? durationMs : undefined)
  }

  /** `sentForMs`: undefined if the request was never sent. */
  #note(call: Seen<'callEnded'>[0], outcome: Seen<'callEnded'>[1], sentForMs: number | undefined): void {
    const recent = this.#calls[call.upstream].get(call.traffic)
    if (recent === undefined) return
    const { now } = recent
    if (sentForMs === undefined) now.notSent += 1
    else now.durations.add(sentForMs)
    // Not of the upstream: it did not fail, its client left, or a breaker refused the call.
    if (outcome === 'answered' || outcome === 'given-up' || outcome === 'breaker_open') return
    if (sentForMs !== undefined) now.failed += 1
    const failure = outcome === 'failed-status' ? call.status : outcome
    recent.lastError = { what: failureText(failure, sentForMs ?? 0), atMs: this.#steadyMs() }
  }

  /** Called once a second, with the counters as they stand. */
  tick({ sums: counted, inFlight }: Counts): void {
    const number = Math.floor((this.#steadyMs() - this.#startedMs) / sliceMs)
    // The process may have been paused, or the slice has ended.
    for (let next = Math.max(this.#last + 1, number - slicesOfDay); next <= number; next += 1)
      this.#begin(next)
    const place = this.#last % rows
    const table = this.#table
    for (const sum of sums) table[sum][place] = counted[sum]
    table.inFlight[place] = Math.max(table.inFlight[place] ?? 0, inFlight)
    table.p95Ms[place] = this.#answers.last(slicesOfMinute).durations.quantile(0.95) ?? Number.NaN
    table.callP95Ms[place] = this.#callsOf('swap', slicesOfMinute).durations.quantile(0.95) ?? Number.NaN
  }

  #begin(number: number): void {
    if (number > 0 && number % slicesOfMinute === 0) this.#endMinute()
    const [before, place] = [Math.max(0, this.#last) % rows, number % rows]
    for (const sum of sums) this.#table[sum][place] = this.#table[sum][before] ?? 0
    this.#table.inFlight[place] = 0
    // Nothing is known of a slice that the process slept through.
    this.#table.p95Ms[place] = Number.NaN
    this.#table.callP95Ms[place] = Number.NaN
    this.#last = number
    if (number === 0) return
    this.#answers.beginSlice()
    for (const kinds of Object.values(this.#calls)) for (const one of kinds.values()) one.beginSlice()
  }

  #endMinute(): void {
    for (const [upstream, p95s] of Object.entries(this.#p95s)) {
      const { durations } = this.#callsOf(upstream as UpstreamName, slicesOfTenMinutes)
      p95s.push(durations.count > minCallsOfTenMinutes ? durations.quantile(0.95) : null)
      if (p95s.length > minutesOfDay) p95s.shift()
    }
  }

  #callsOf(upstream: UpstreamName, slices: number): Tally {
    const all = new Tally()
    for (const recent of this.#calls[upstream].values()) all.add(recent.last(slices))
    return all
  }

  /** A quarter of an hour by the slice. */
  seconds(slots = slotsOfQuarter): Slots {
    return { ...this.#shown(1, slots), slots: slotsOfQuarter }
  }

  /** A day by the minute. */
  minutes(slots = minutesOfDay): Slots {
    return { ...this.#shown(slicesOfMinute, slots), slots: minutesOfDay }
  }

  #shown(slices: number, slots: number): Omit<Slots, 'slots'> {
    const last = Math.floor(this.#last / slices)
    const first = Math.max(0, last - slots + 1)
    const numbers = Array.from({ length: last - first + 1 }, (_, index) => first + index)
    const valuesOf = (column: Column) => numbers.map((number) => this.#valueOf(column, number, slices))
    const values = Object.fromEntries(columns.map((column) => [column, valuesOf(column)]))
    return { slotMs: slices * sliceMs, last, values: values as Record<Column, (number | null)[]> }
  }

  /** In a slot of so many slices. */
  #valueOf(column: Column, number: number, slices: number): number | null {
    const before = number * slices - 1
    const end = Math.min(before + slices, this.#last)
    if (column === 'p95Ms' || column === 'callP95Ms') return digits(this.#table[column][end % rows] ?? null)
    if (column !== 'inFlight') return this.#between(column, before, end)
    const inSlices = Array.from({ length: end - before }, (_, index) => before + 1 + index)
    return Math.max(...inSlices.map((slice) => this.#table.inFlight[slice % rows] ?? 0))
  }

  /** What was counted after the end of one slice and until the end of another; a slice before 0 is before the start. */
  #between(sum: Sum, before: number, end: number): number {
    const at = (slice: number) => (slice < 0 ? 0 : (this.#table[sum][slice % rows] ?? 0))
    return at(end) - at(before)
  }

  /** In the last so many slices. */
  total(sum: Sum, slices = slicesOfDay): number {
    return this.#between(sum, this.#last - slices, this.#last)
  }

  /** Of answers to clients, over the last minute; and how many requests there are a second, lately. */
  get recent(): Hello['recent'] {
    const { durations } = this.#answers.last(slicesOfMinute)
    return {
      p95Ms: digits(durations.quantile(0.95)),
      seconds: Math.round(this.#reachMs(slicesOfMinute) / 1_000),
      requestsPerSecond: Number(((this.total('requests', 2) / this.#reachMs(2)) * 1_000).toFixed(1)),
    }
  }

  /** Calls to an upstream in the last minute, by their kind. */
  trafficOf(upstream: UpstreamName): Calls[] {
    const seconds = Math.round(this.#reachMs(slicesOfMinute) / 1_000)
    return [...this.#calls[upstream]].map(([traffic, recent]) => {
      const { failed, notSent, durations } = recent.last(slicesOfMinute)
      const asked = durations.count + notSent
      return {
        ...{ traffic, seconds, notSent, lastError: this.#shownError(recent.lastError) },
        callsPerSecond: Number((durations.count / seconds).toFixed(2)),
        // For its client, a request that was not sent has failed too.
        failedShare: asked === 0 ? null : Number(((failed + notSent) / asked).toFixed(4)),
        p50Ms: digits(durations.quantile(0.5)),
        p95Ms: digits(durations.quantile(0.95)),
      }
    })
  }

  /** Its time is by the wall clock as that is set now. */
  #shownError(error: RecentCalls['lastError']): Calls['lastError'] {
    return error && { what: error.what, at: Math.round(this.#clock.nowMs() - this.#steadyMs() + error.atMs) }
  }

  /** How far the last slices reach back, of which the newest may not be over; at least a second. */
  #reachMs(slices: number): number {
    const beganMs = this.#startedMs + Math.max(0, this.#last - slices + 1) * sliceMs
    return Math.max(1_000, this.#steadyMs() - beganMs)
  }

  get savings(): Health['savings'] {
    return {
      forMs: Math.min(slicesOfDay * sliceMs, Math.round(this.#steadyMs() - this.#startedMs)),
      quotes: this.total('quotes'),
      callsSaved: this.total('saved'),
      expiredOrdersStopped: this.total('expired'),
      orders: this.total('orders'),
      ordersMatched: this.total('matched'),
    }
  }

  /** For each minute of the last day the p95 of the ten minutes that ended with it; null: there were too few calls. */
  p95sOf(upstream: UpstreamName): readonly (number | null)[] {
    return this.#p95s[upstream]
  }

  /** The slowest request of the last minute; null: none ended. */
  get slowest(): Health['slowest'] {
    const { slowest } = this.#answers.last(slicesOfMinute)
    if (slowest === undefined) return null
    const { endedAtMs, durationMs, ...rest } = slowest
    const agoMs = Math.round(this.#steadyMs() - endedAtMs)
    return { ...rest, durationMs: roundedMs(durationMs), agoMs }
  }

  /** Never goes back, whatever is done to the wall clock. */
  #steadyMs(): number {
    return this.#clock.steadyMs?.() ?? performance.now()
  }
}

class Tally {
  failed = 0
  notSent = 0
  slowest: SlowRequest | undefined
  readonly durations = new LatencyHistogram()

  add(other: Tally): void {
    if ((other.slowest?.durationMs ?? -1) > (this.slowest?.durationMs ?? -1)) this.slowest = other.slowest
    this.failed += other.failed
    this.notSent += other.notSent
    this.durations.merge(other.durations)
  }
}

/** Answers, or calls of one kind, in the slices of the last ten minutes: 40 KB for any traffic. */
class RecentCalls {
  lastError: { readonly what: string; readonly atMs: number } | null = null
  /** The newest first. */
  readonly #slices = [new Tally()]

  get now(): Tally {
    return this.#slices[0] as Tally
  }

  beginSlice(): void {
    this.#slices.unshift(new Tally())
    if (this.#slices.length > slicesOfTenMinutes) this.#slices.pop()
  }

  last(slices: number): Tally {
    const all = new Tally()
    for (const one of this.#slices.slice(0, slices)) all.add(one)
    return all
  }
}

/** Three digits are all that a quantile of these histograms has. */
function digits(ms: number | null): number | null {
  return ms === null || Number.isNaN(ms) ? null : Number(ms.toPrecision(3))
}
