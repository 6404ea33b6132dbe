import type { Clock } from '../clock.ts'
import type { Events, Listener } from '../events.ts'
import { type OpenBreaker, UpstreamFailure } from '../http/failure.ts'
import type { Problem } from '../http/problem.ts'
import type { Logger } from '../process/logger.ts'
import type { Recent } from './recent.ts'
import type { Outage, PastOutage } from './schemas.ts'
import { durationText, isCritical, sectionOf, troubles } from './trouble-table.ts'

type Failure =
  | Exclude<Parameters<Events['callEnded']>[1], 'answered' | 'given-up'>
  | number

type Derived =
  | 'id'
  | 'name'
  | 'text'
  | 'since'
  | 'requests'
  | 'concerned'
  | 'isSevere'
  | 'runbook'

export interface Trouble extends Omit<Outage, Derived> {
  /** When its first failure ended, by `performance.now()`. Default: when it was first seen. */
  sinceMs?: number | undefined
  /** Default: by the table of troubles. */
  isSevere?: boolean
  /** Replaces the subject's name. */
  name?: string
  /** Replaces the sentence of name and `says`. */
  text?: string
  /** A new gist replaces the event about the trouble's present state. */
  gist?: string
  /** The log has one warning for each while it lasts. No other part logs these. */
  logged?: readonly Logged[]
}

export interface Logged {
  readonly what: string
  readonly reason: string
  readonly text: string
}

/** `covered`: another subject's sentence reports it. */
export interface Subject {
  readonly name: string
  trouble(): Trouble | 'covered' | undefined
  /** Requests concerned since the start. */
  count?(): number
}

interface WatchedTrouble extends Subject {
  outage?: Outage | undefined
  /** When the trouble began, by `performance.now()`. */
  sinceMs: number
  countBefore: number
  gist?: string | undefined
  /** The event about the trouble's present state, once that has changed. */
  newestEvent?: number | undefined
}

const maxPast = 20
/** If the wall clock moved by less since the last look, it was not set. */
const leastStepMs = 100

/** What is wrong and what was. Each beginning and end is an event. */
export class Outages implements Listener {
  readonly #clock: Clock
  readonly #recent: Pick<Recent, 'addEvent'>
  #watched: readonly WatchedTrouble[] = []
  /** Our wall clock less `performance.now()`: setting the wall clock changes no outage's length. */
  #wallAheadMs: number
  /** Requests that failed because a breaker was open. */
  readonly #refusals = new Map<string, number>()
  readonly #log: Logger
  /** What the log has warned of, and since when. */
  readonly #logged = new Map<string, Logged & { sinceMs: number }>()
  /** Past outages, newest last. */
  readonly past: PastOutage[] = []

  constructor(clock: Clock, recent: Pick<Recent, 'addEvent'>, log: Logger) {
    this.#clock = clock
    this.#recent = recent
    this.#log = log
    this.#wallAheadMs = clock.nowMs() - performance.now()
  }

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
  readonly journalBack = () => this.look()

  /** Looks at every part, once a second and before outages are read. */
  look(): void {
    const aheadMs = this.#clock.nowMs() - performance.now()
    if (Math.abs(aheadMs - this.#wallAheadMs) > leastStepMs) this.#wallAheadMs = aheadMs
    this.#logChanges(this.#watched.flatMap((one) => this.#lookAt(one)?.logged ?? []))
  }

  get current(): Outage[] {
    this.look()
    return this.#watched.flatMap(({ outage }) => outage ?? [])
  }

  #lookAt(one: WatchedTrouble): Trouble | undefined {
    const found = one.trouble()
    const count = one.count?.() ?? 0
    if (found === undefined || found === 'covered') {
      if (one.outage !== undefined) {
        const requests = count - one.countBefore
        this.#end(one, { ...one.outage, requests }, found === undefined)
      }
      one.countBefore = count
      return undefined
    }
    const known = one.outage
    const { sinceMs, gist, logged: _isForTheLog, ...said } = found
    const { name = one.name, text = `${name}: ${found.says}` } = said
    const requests = known === undefined ? 0 : count - one.countBefore
    const { isSevere = isCritical(found.what, requests) } = found
    const now = `${isSevere} ${gist}`
    const say = (replaces?: number) =>
      this.#recent.addEvent(isSevere ? 'bad' : 'warn', text, replaces)
    if (known === undefined) one.sinceMs = performance.now()
    // The event is replaced, so that many pairs that stop one after the other push no other events out.
    else if (now !== one.gist) one.newestEvent = say(one.newestEvent)
    one.gist = now
    one.sinceMs = Math.min(one.sinceMs, sinceMs ?? one.sinceMs)
    one.outage = {
      ...said,
      id: known?.id ?? say(),
      name,
      text,
      since: this.#wallTime(one.sinceMs),
      requests: count - one.countBefore,
      isSevere,
      concerned: troubles[found.what].concerned,
      runbook: runbookOf(found),
    }
    return found
  }

  #end(one: WatchedTrouble, outage: Outage, isOver: boolean): void {
    const nowMs = performance.now()
    this.past.push({
      what: outage.what,
      since: this.#wallTime(one.sinceMs),
      until: this.#wallTime(nowMs),
    })
    if (this.past.length > maxPast) this.past.shift()
    one.outage = undefined
    one.newestEvent = undefined
    if (!isOver) return
    const { name, requests, concerned } = outage
    const suffered =
      requests > 0 && concerned !== 'none' ? `, ${requests} ${concerned}` : ''
    const text = `${name}: over after ${durationText(nowMs - one.sinceMs)}${suffered}`
    this.#recent.addEvent('good', text)
  }

  #logChanges(current: readonly Logged[]): void {
    const nowMs = performance.now()
    const keyOf = ({ what, reason }: Logged) => `${what} ${reason}`
    const keys = new Set(current.map(keyOf))
    for (const [key, { what, reason, sinceMs }] of this.#logged) {
      if (keys.has(key)) continue
      this.#logged.delete(key)
      const forMs = Math.round(nowMs - sinceMs)
      const text = `${what}: over after ${durationText(forMs)} (${reason})`
      this.#log.info({ outage: what, reason, forMs }, text)
    }
    for (const one of current) {
      if (this.#logged.has(keyOf(one))) continue
      this.#logged.set(keyOf(one), { ...one, sinceMs: nowMs })
      this.#log.warn({ outage: one.what, reason: one.reason }, one.text)
    }
  }

  #wallTime(steadyMs: number): number {
    return Math.round(steadyMs + this.#wallAheadMs)
  }
}

const failureWords: Readonly<Record<string, string>> = {
  http_response_timeout: 'timeout',
  connection_limit_reached: 'no free connection',
}

/** As a person says it: `503`, `connection refused`, `timeout after 10 s`. */
export function failureText(failure: Failure, afterMs?: number): string {
  const plain = String(failure).replaceAll('_', ' ')
  const words =
    failureWords[failure] ??
    plain.replace(/^(dns|http|tls) /, (name) => name.toUpperCase())
  return words.endsWith('timeout') && afterMs !== undefined
    ? `${words} after ${durationText(afterMs)}`
    : words
}

/** The runbook below the homepage of package.json, or in the repository without one. */
export function runbookPageOf(homepage: string | undefined): string {
  const path = 'docs/runbook.md'
  if (homepage === undefined) return path
  const { origin, pathname } = new URL(homepage)
  return `${origin}${pathname.endsWith('/') ? pathname.slice(0, -1) : pathname}/blob/main/${path}`
}

/** An unknown clock has no offset. */
const kindOf = ({ what, offsetMs }: Pick<Trouble, 'what' | 'offsetMs'>) =>
  what === 'clock' && offsetMs === undefined ? 'clock-unknown' : what

/**
 * The link to the trouble's section in the runbook. It is relative, because an app may mount the operations listener
 * below a path.
 */
export function runbookOf(trouble: Pick<Trouble, 'what' | 'offsetMs'>): string {
  return `runbook#${sectionOf(troubles[kindOf(trouble)])}`
}
