import type { Clock } from '../clock.ts'
import { forEachUpstream, upstreamTable } from '../http/upstreams.ts'
import { LatencyHistogram } from './latency-histogram.ts'
import { type CallEnd, RecentCalls, type ShownCalls } from './recent-calls.ts'
import { Ring, type Sums, sums } from './ring.ts'
import { type Slowness, UpstreamPace } from './upstream-pace.ts'

/** All that was counted since the start, and what is under way. */
export interface Counts {
  readonly sums: Sums
  readonly inFlight: number
}

/** What the gateway has saved and stopped in the last day, or since its start. */
export interface Savings {
  readonly forMs: number
  readonly quotes: number
  /** Quotes that took no call of their own to the provider. */
  readonly callsSaved: number
  readonly expiredOrdersStopped: number
  readonly orders: number
  /** Orders whose quote was found. */
  readonly ordersMatched: number
}

/** Orders that were forwarded though no quote seen here matches them. */
export interface UnknownOrders {
  readonly recent: { readonly orders: number; readonly unknown: number }
  readonly day: { readonly orders: number; readonly unknown: number }
}

/**
 * What happened in the last quarter of an hour by the second, and in the last day by the minute. Counters are read once
 * a second; all that a request adds is its duration, to a histogram.
 */
export interface History {
  /** Durations of answers in the current second. */
  readonly answers: LatencyHistogram
  callEnded(upstream: string, traffic: string, end: CallEnd): void
  /** Closes the current second. */
  tick(counts: Counts): void
  readonly seconds: Pick<Ring, 'shown' | 'bytes'>
  readonly minutes: Pick<Ring, 'shown' | 'bytes'>
  trafficOf(upstream: string): readonly ShownCalls[]
  /** Of answers to clients, over the last minute. */
  readonly recent: { readonly p95Ms: number | null; readonly seconds: number }
  readonly savings: Savings
  readonly unknownOrders: UnknownOrders
  /** Undefined: the upstream takes about as long as usual, or too little is known of it. */
  slownessOf(upstream: string): Slowness | undefined
}

export interface HistoryOptions {
  /** For each upstream the kinds of traffic that are counted apart. */
  traffic: Readonly<Record<string, readonly string[]>>
  /** The upstream whose time is drawn as the provider's. */
  provider: string
  nowMs(): number
  /** Never goes back. */
  steadyMs(): number
}

const dayMs = 86_400_000
const recentMinutes = 30

export function createHistory({ traffic, provider, nowMs, steadyMs }: HistoryOptions): History {
  const seconds = new Ring({ slotMs: 1_000, slots: 900 })
  const minutes = new Ring({ slotMs: 60_000, slots: 1_440 })
  const answers = new LatencyHistogram()
  const calls = new LatencyHistogram()
  const startedMs = steadyMs()
  const recentAnswers = new RecentCalls('answers')
  const byUpstream = new Map(
    Object.entries(traffic).map(([upstream, kinds]) => [
      upstream,
      new Map(kinds.map((kind) => [kind, new RecentCalls(kind)])),
    ]),
  )
  const paces = new Map(Object.keys(traffic).map((upstream) => [upstream, new UpstreamPace()]))
  let before = zeros()

  function totals(slots?: number) {
    return { orders: minutes.total('orders', slots), unknown: minutes.total('unknown', slots) }
  }

  return {
    answers,
    seconds,
    minutes,
    callEnded(upstream, kind, end) {
      byUpstream.get(upstream)?.get(kind)?.ended(end, nowMs)
      if (end.durationMs === undefined) return
      if (upstream === provider) calls.add(end.durationMs)
      paces.get(upstream)?.callEnded(end.durationMs)
    },
    tick({ sums: counted, inFlight }) {
      const passed = { sums: difference(counted, before), inFlight, answers, calls }
      before = counted
      const at = steadyMs() - startedMs
      seconds.add(at, passed)
      minutes.add(at, passed)
      recentAnswers.add(answers)
      answers.clear()
      calls.clear()
      recentAnswers.secondPassed()
      for (const kinds of byUpstream.values()) for (const recent of kinds.values()) recent.secondPassed()
      for (const pace of paces.values()) pace.tick(at)
    },
    trafficOf: (upstream) => [...(byUpstream.get(upstream)?.values() ?? [])].map((recent) => recent.shown()),
    get recent() {
      const { p95Ms, seconds: reach } = recentAnswers.shown()
      return { p95Ms, seconds: reach }
    },
    get savings() {
      return {
        forMs: Math.min(dayMs, Math.round(steadyMs() - startedMs)),
        quotes: minutes.total('quotes'),
        callsSaved: minutes.total('saved'),
        expiredOrdersStopped: minutes.total('expired'),
        orders: minutes.total('orders'),
        ordersMatched: minutes.total('matched'),
      }
    },
    get unknownOrders() {
      return { recent: totals(recentMinutes), day: totals() }
    },
    slownessOf: (upstream) => paces.get(upstream)?.slowness,
  }
}

function zeros(): Sums {
  return Object.fromEntries(sums.map((name) => [name, 0])) as Record<(typeof sums)[number], number>
}

function difference(now: Sums, before: Sums): Sums {
  return Object.fromEntries(sums.map((name) => [name, now[name] - before[name]])) as Record<
    (typeof sums)[number],
    number
  >
}

/** What the console keeps of the past. A request adds its duration; all else is read from the metrics once a second. */
export function historyOf(clock: Clock): History {
  return createHistory({
    traffic: forEachUpstream((name) =>
      upstreamTable[name].requests === 'by-kind' ? ['quotes', 'orders', 'rest'] : ['rest'],
    ),
    provider: 'swap',
    nowMs: clock.nowMs,
    steadyMs: clock.steadyMs ?? (() => performance.now()),
  })
}
