import type { Events as AllEvents } from '../events.ts'
import { pairsText } from '../http/problem.ts'
import { homepage } from '../process/package-info.ts'
import type { Events } from './seen-events.ts'

type Outcome = Parameters<AllEvents['callEnded']>[1]

/** What is wrong with one part now. */
export interface Trouble {
  readonly what:
    | 'upstream'
    | 'pairs'
    | 'slow'
    | 'store'
    | 'clock'
    | 'trust-proxy'
    | 'client-ip-header'
    | 'unknown-orders'
  readonly isSevere: boolean
  /** When its first failure ended; undefined: since it was first seen. */
  readonly since?: number | undefined
  readonly upstream?: string
  /** What has stopped: `connections`, and with them everything, `orders` or `rest`; `quotes`: of the pairs in `names`. */
  readonly traffic?: string
  readonly lastFailure?: string | undefined
  /** 0: the next request tries; undefined: a request is trying, or nothing is tried. */
  readonly retryInMs?: number | undefined
  readonly stillServed?: readonly string[]
  /** The pairs that fail, or the peers whose client-address header is not read; not all if there are many. */
  readonly names?: readonly string[]
  readonly howMany?: number
  /** What those peers send in place of CLIENT_IP_HEADER. */
  readonly headers?: readonly string[]
  readonly clientIpHeader?: string
  /** No quote has succeeded since the first failure: how many pairs were asked for. Undefined: some have. */
  readonly askedFor?: number | undefined
  /** The provider's clock minus ours; undefined: it is unknown. */
  readonly offsetMs?: number | undefined
  /** Of the orders: those forwarded as unknown, lately and in a day. */
  readonly share?: number
  readonly usualShare?: number
  /** Of a slow upstream: the p95 of ten minutes, and what it usually is. */
  readonly p95Ms?: number
  readonly usualP95Ms?: number
}

/** A part that may be in trouble. */
export interface Subject {
  /** What an event calls it. */
  readonly name: string
  /** What happened to the requests that it concerned. */
  readonly concerned: 'refused' | 'forwarded' | 'misplaced' | 'none'
  trouble(): Trouble | undefined
  /** How many requests it has concerned since the start. */
  count(): number
}

export interface Outage extends Trouble {
  readonly id: number
  readonly since: number
  /** Null: it goes on. */
  readonly until: number | null
  readonly requests: number
  readonly concerned: Subject['concerned']
  /** Where the runbook says what to do. */
  readonly runbook: string
}

interface Outages {
  /** Looks at every part; at least once a second, and when a breaker opens or closes. */
  look(): void
  readonly current: readonly Outage[]
  /** Those that are over, the newest last. */
  readonly past: readonly Outage[]
}

const maxPast = 100

interface Kept {
  subject: Subject
  outage: Outage | undefined
  countBefore: number
  /** The event that says how many pairs have stopped by now, if they were not as many at first. */
  numberEvent: number | undefined
}

export function createOutages(
  subjects: readonly Subject[],
  { nowMs, events }: { nowMs: () => number; events: Events },
): Outages {
  const kept: Kept[] = subjects.map((subject) => ({
    subject,
    outage: undefined,
    countBefore: 0,
    numberEvent: undefined,
  }))
  const past: Outage[] = []
  let lastId = 0

  function lookAt(one: Kept): void {
    const { subject } = one
    const trouble = subject.trouble()
    const count = subject.count()
    // All quotes that fail are another outage than single pairs: with a beginning and a count of its own.
    if (one.outage !== undefined && one.outage.isSevere !== trouble?.isSevere) {
      end(one, one.outage, { requests: count - one.countBefore, isWorse: trouble?.isSevere === true })
      one.countBefore = count
    }
    if (trouble === undefined) {
      one.countBefore = count
      return
    }
    const known = one.outage
    if (known === undefined) {
      lastId += 1
      events.add(trouble.isSevere ? 'bad' : 'warn', `${subject.name}: ${beginOf(trouble)}`)
    } else if (trouble.what === 'pairs') noteNumber(one, known, trouble)
    one.outage = {
      ...trouble,
      id: known?.id ?? lastId,
      since: Math.min(known?.since ?? nowMs(), trouble.since ?? Number.POSITIVE_INFINITY),
      until: null,
      requests: count - one.countBefore,
      concerned: subject.concerned,
      runbook: runbookOf(trouble),
    }
  }

  /** One event has the number of now, so that many pairs which stop one after the other push no other events out. */
  function noteNumber(one: Kept, known: Outage, trouble: Trouble): void {
    if (trouble.howMany === known.howMany && trouble.askedFor === known.askedFor) return
    const text = `${one.subject.name}: ${beginOf(trouble)}`
    one.numberEvent = events.add(trouble.isSevere ? 'bad' : 'warn', text, one.numberEvent)
  }

  function end(
    one: Kept,
    known: Outage,
    { requests, isWorse }: { requests: number; isWorse: boolean },
  ): void {
    const until = nowMs()
    past.push({ ...known, until, requests, retryInMs: undefined, names: [] })
    if (past.length > maxPast) past.shift()
    one.outage = undefined
    one.numberEvent = undefined
    if (isWorse) return
    const lasted = `over after ${durationText(until - known.since)}`
    const suffered = requests > 0 && known.concerned !== 'none' ? `, ${requests} ${known.concerned}` : ''
    events.add('good', `${one.subject.name}: ${lasted}${suffered}`)
  }

  return {
    look() {
      for (const one of kept) lookAt(one)
    },
    get current() {
      return kept.flatMap(({ outage }) => (outage === undefined ? [] : [outage]))
    },
    past,
  }
}

function beginOf(trouble: Trouble): string {
  const { what, lastFailure, howMany = 0, askedFor, offsetMs, p95Ms = 0, usualP95Ms = 0 } = trouble
  switch (what) {
    case 'upstream':
      return `stopped, the last failure was ${lastFailure ?? 'not kept'}`
    case 'pairs':
      return `${stoppedPairs(howMany, askedFor)}, the last failure was ${lastFailure ?? 'not kept'}`
    case 'slow':
      return `p95 of 10 min is ${p95Ms} ms, usually ${usualP95Ms} ms`
    case 'store':
      return `down, ${lastFailure ?? 'it does not answer'}`
    case 'clock':
      return offsetMs === undefined ? 'unknown' : `${durationText(Math.abs(offsetMs))} off`
    case 'trust-proxy':
      return 'a peer sent a client-address header and is not in TRUST_PROXY'
    case 'client-ip-header':
      return 'a trusted peer sent another client-address header than CLIENT_IP_HEADER'
    case 'unknown-orders':
      return 'more orders than usual are forwarded as unknown'
  }
}

function stoppedPairs(howMany: number, askedFor: number | undefined): string {
  if (askedFor !== undefined) return `all that were asked for fail (${pairsText(howMany, askedFor)})`
  return `${howMany} pair${howMany === 1 ? '' : 's'} stopped`
}

/** As a person says it. */
export function durationText(ms: number): string {
  const seconds = Math.max(0, ms) / 1_000
  if (seconds < 10) return `${Number(seconds.toFixed(1))} s`
  if (seconds < 120) return `${Math.round(seconds)} s`
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`
  return `${Math.round(seconds / 3_600)} h`
}

/** How a request failed, as a person says it: `503`, `connection refused`, `timeout after 10 s`. */
export function failureText(
  failure: Exclude<Outcome, 'answered' | 'given-up'> | number,
  afterMs: number,
): string {
  switch (failure) {
    case 'http_response_timeout':
      return `timeout after ${durationText(afterMs)}`
    case 'connection_timeout':
      return `connection timeout after ${durationText(afterMs)}`
    case 'connection_limit_reached':
      return 'no free connection'
    default:
      return String(failure)
        .replaceAll('_', ' ')
        .replace(/^(dns|http|tls) /, (name) => name.toUpperCase())
  }
}

/** The runbook, below the homepage of package.json, or in the repository itself without one. */
export function runbookPageOf(homepage: string | undefined): string {
  const path = 'docs/operations.md'
  if (homepage === undefined) return path
  const { origin, pathname } = new URL(homepage)
  return `${origin}${pathname.endsWith('/') ? pathname.slice(0, -1) : pathname}/blob/main/${path}`
}

/** The section of the runbook about each trouble. */
const sections: Readonly<Record<Trouble['what'] | 'clock-unknown', string>> = {
  upstream: 'quotegatebreakeropen',
  pairs: 'quotegatepairsstopped',
  slow: 'quotegateproviderslow',
  store: 'quotegatestoredown',
  clock: 'quotegateclockoffset',
  'clock-unknown': 'quotegateclockunknown',
  'trust-proxy': 'users-look-as-if-they-were-one',
  'client-ip-header': 'users-look-as-if-they-were-one',
  'unknown-orders': 'quotegateordersunknown',
}

export const runbookSections = Object.values(sections)

export function runbookOf({ what, offsetMs }: Pick<Trouble, 'what' | 'offsetMs'>): string {
  const section = what === 'clock' && offsetMs === undefined ? 'clock-unknown' : what
  return `${runbookPageOf(homepage)}#${sections[section]}`
}
