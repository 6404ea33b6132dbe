import type { Clock } from '../clock.ts'
import type { Events, Listener } from '../events.ts'
import { type OpenBreaker, UpstreamFailure } from '../http/failure.ts'
import type { Problem } from '../http/problem.ts'
import type { Recent } from './recent.ts'
import type { Outage } from './schemas.ts'

type Failure =
  | Exclude<Parameters<Events['callEnded']>[1], 'answered' | 'given-up'>
  | number

type Kind = Outage['what'] | 'clock-unknown'
type Derived = 'id' | 'name' | 'since' | 'until' | 'requests' | 'concerned' | 'runbook'

/** `sinceMs`: when its first failure ended, by `performance.now()`; undefined: since it was first seen. */
export type Trouble = Omit<Outage, Derived> & { sinceMs?: number | undefined }

/** What happened to the requests that a trouble concerned, and the section of the runbook about it. */
const kinds: Readonly<Record<Kind, { concerned: Outage['concerned']; section: string }>> =
  {
    upstream: { concerned: 'refused', section: 'quotegatebreakeropen' },
    pairs: { concerned: 'refused', section: 'quotegatepairsstopped' },
    slow: { concerned: 'none', section: 'quotegateproviderslow' },
    store: { concerned: 'forwarded', section: 'quotegatestoredown' },
    clock: { concerned: 'none', section: 'quotegateclockoffset' },
    'clock-unknown': { concerned: 'none', section: 'quotegateclockunknown' },
    'trust-proxy': { concerned: 'misplaced', section: 'users-look-as-if-they-were-one' },
    'client-ip-header': {
      concerned: 'misplaced',
      section: 'users-look-as-if-they-were-one',
    },
    'no-client-header': {
      concerned: 'misplaced',
      section: 'users-look-as-if-they-were-one',
    },
    'unknown-orders': { concerned: 'forwarded', section: 'quotegateordersunknown' },
  }
export const runbookSections = Object.values(kinds).map(({ section }) => section)

/** A part that may be in trouble. */
export interface Subject {
  readonly name: string
  trouble(): Trouble | undefined
  /** How many requests it has concerned since the start; absent: it concerns none. */
  count?(): number
}

interface Watched extends Subject {
  outage?: Outage | undefined
  /** Since when, by `performance.now()`. */
  sinceMs: number
  countBefore: number
  /** The event that says how many pairs have stopped by now, if they were not as many at first. */
  numberEvent?: number | undefined
}

const maxPast = 100
/** If the wall clock moved by less since the last look, it was not set. */
const leastStepMs = 100

/** What is wrong now, and what was. Each beginning and end is an event. */
export class Outages implements Listener {
  readonly #clock: Clock
  readonly #recent: Pick<Recent, 'addEvent'>
  #watched: readonly Watched[] = []
  /** Our wall clock less `performance.now()`: an outage is as long as it is, however the wall clock is set meanwhile. */
  #wallAheadMs: number
  /** Requests that were answered with an error because a breaker was open. */
  readonly #refusals = new Map<string, number>()
  /** Those that are over, the newest last. */
  readonly past: Outage[] = []

  constructor(clock: Clock, recent: Pick<Recent, 'addEvent'>) {
    this.#clock = clock
    this.#recent = recent
    this.#wallAheadMs = clock.nowMs() - performance.now()
  }

  /** From now on these are looked at. */
  watch(subjects: readonly Subject[]): void {
    this.#watched = subjects.map((subject) => ({
      ...subject,
      sinceMs: 0,
      countBefore: 0,
    }))
  }

  problemAnswered({ cause }: Problem): void {
    if (!(cause instanceof UpstreamFailure) || cause.breaker === undefined) return
    const key = `${cause.upstream} ${cause.breaker}`
    this.#refusals.set(key, (this.#refusals.get(key) ?? 0) + 1)
  }

  refusals(upstream: string, breaker: OpenBreaker): number {
    return this.#refusals.get(`${upstream} ${breaker}`) ?? 0
  }

  readonly breakerChanged = () => this.look()
  readonly journalAway = () => this.look()

  /** Looks at every part; at least once a second, and before it is said what is wrong. */
  look(): void {
    const aheadMs = this.#clock.nowMs() - performance.now()
    if (Math.abs(aheadMs - this.#wallAheadMs) > leastStepMs) this.#wallAheadMs = aheadMs
    for (const one of this.#watched) this.#lookAt(one)
  }

  get current(): Outage[] {
    this.look()
    return this.#watched.flatMap(({ outage }) => outage ?? [])
  }

  #lookAt(one: Watched): void {
    const trouble = one.trouble()
    const count = one.count?.() ?? 0
    // All quotes that fail are another outage than single pairs: with a beginning and a count of its own.
    if (one.outage !== undefined && one.outage.isSevere !== trouble?.isSevere) {
      this.#end(
        one,
        { ...one.outage, requests: count - one.countBefore },
        trouble?.isSevere === true,
      )
      one.countBefore = count
    }
    if (trouble === undefined) {
      one.countBefore = count
      return
    }
    const known = one.outage
    const { what, howMany, askedFor } = trouble
    if (known === undefined) one.sinceMs = performance.now()
    // One event has the number of now, so that many pairs which stop one after the other push no other events out.
    else if (
      what === 'pairs' &&
      (howMany !== known.howMany || askedFor !== known.askedFor)
    )
      one.numberEvent = this.#say(one, trouble, one.numberEvent)
    const { sinceMs = one.sinceMs, ...said } = trouble
    one.sinceMs = Math.min(one.sinceMs, sinceMs)
    one.outage = {
      ...said,
      id: known?.id ?? this.#say(one, trouble),
      name: one.name,
      since: this.#wallTime(one.sinceMs),
      until: null,
      requests: count - one.countBefore,
      concerned: kinds[what].concerned,
      runbook: runbookOf(trouble),
    }
  }

  #say(
    { name }: Watched,
    { isSevere, says, lastFailure }: Trouble,
    replaces?: number,
  ): number {
    const failure =
      lastFailure === undefined ? '' : `, the last failure was ${lastFailure}`
    return this.#recent.addEvent(
      isSevere ? 'bad' : 'warn',
      `${name}: ${says}${failure}`,
      replaces,
    )
  }

  #end(one: Watched, outage: Outage, isWorse: boolean): void {
    const nowMs = performance.now()
    const { names: _areDetailsOfRequests, ...kept } = outage
    this.past.push({
      ...kept,
      since: this.#wallTime(one.sinceMs),
      until: this.#wallTime(nowMs),
    })
    if (this.past.length > maxPast) this.past.shift()
    one.outage = undefined
    one.numberEvent = undefined
    if (isWorse) return
    const { requests, concerned } = outage
    const suffered =
      requests > 0 && concerned !== 'none' ? `, ${requests} ${concerned}` : ''
    const text = `${one.name}: over after ${durationText(nowMs - one.sinceMs)}${suffered}`
    this.#recent.addEvent('good', text)
  }

  #wallTime(steadyMs: number): number {
    return Math.round(steadyMs + this.#wallAheadMs)
  }
}

/** As a person says it. */
export function durationText(ms: number): string {
  const seconds = Math.max(0, ms) / 1_000
  if (seconds < 10) return `${Number(seconds.toFixed(1))} s`
  if (seconds < 120) return `${Math.round(seconds)} s`
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`
  return `${Math.round(seconds / 3_600)} h`
}

const failureWords: Readonly<Record<string, string>> = {
  http_response_timeout: 'timeout',
  connection_limit_reached: 'no free connection',
}

/** How a request failed, as a person says it: `503`, `connection refused`, `timeout after 10 s`. */
export function failureText(failure: Failure, afterMs: number): string {
  const plain = String(failure).replaceAll('_', ' ')
  const words =
    failureWords[failure] ??
    plain.replace(/^(dns|http|tls) /, (name) => name.toUpperCase())
  return words.endsWith('timeout') ? `${words} after ${durationText(afterMs)}` : words
}

/** The runbook on the internet, below the homepage of package.json, or in the repository itself without one. */
export function runbookPageOf(homepage: string | undefined): string {
  const path = 'docs/runbook.md'
  if (homepage === undefined) return path
  const { origin, pathname } = new URL(homepage)
  return `${origin}${pathname.endsWith('/') ? pathname.slice(0, -1) : pathname}/blob/main/${path}`
}

/** Its section in the runbook that the operations listener serves, relative, since an app may mount that below a path. */
export function runbookOf({
  what,
  offsetMs,
}: Pick<Trouble, 'what' | 'offsetMs'>): string {
  const kind = what === 'clock' && offsetMs === undefined ? 'clock-unknown' : what
  return `runbook#${kinds[kind].section}`
}
