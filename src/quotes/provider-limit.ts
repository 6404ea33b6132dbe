import { hash, randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Clock } from '../clock.ts'
import type { Events } from '../events.ts'
import { headerValues } from '../http/headers.ts'
import { readHttpDate } from '../http/http-date.ts'
import { Problem } from '../http/problem.ts'
import { briefText } from '../process/text.ts'
import type { AnswerHead } from '../upstream/fetch.ts'
import { statedInError } from './error-body.ts'
import type { QuoteRequest } from './request.ts'

/** How the provider identifies a caller. */
type Caller = Pick<QuoteRequest, 'application' | 'authorization' | 'address'>

const maxCallers = 1_000
const leastMs = 1_000
const mostMs = 30_000

/** After limits at this many addresses in a row, an application is limited as a whole. */
const addressesOfWhole = 3

interface Limited {
  readonly application: string
  /** Undefined: the application is limited as a whole. */
  readonly address: string | undefined
  readonly untilMs: number
  /** The last limited addresses in a row, without an answered quote between them. Only for whole applications. */
  readonly inRow: readonly string[]
}

/**
 * After a 429 of the provider to a quote, the same caller's quotes are not fetched until the requested wait is over.
 * Once three addresses in a row have met such a limit, the whole application waits.
 */
export class ProviderLimit {
  readonly #clock: Clock
  readonly #events: Events
  readonly #salt = randomBytes(32).toString('base64url')
  /** By application and address, and by the application alone. */
  readonly #byCaller = new LRUCache<string, Limited>({ max: 2 * maxCallers })

  constructor({ clock, events }: { clock: Clock; events: Events }) {
    this.#clock = clock
    this.#events = events
  }

  /** 0: the provider may be asked. */
  leftMs(caller: Caller): number {
    if (this.#byCaller.size === 0) return 0
    const { own, whole } = this.#keysOf(caller)
    return Math.max(this.#leftOf(own), this.#leftOf(whole))
  }

  /** Throws if the provider may not be asked now. */
  check(caller: Caller): void {
    const leftMs = this.leftMs(caller)
    if (leftMs === 0) return
    const seconds = Math.max(1, Math.ceil(leftMs / 1_000))
    throw new Problem('provider-limit', {
      detail:
        'The provider answered 429 to quotes of this application, for users at this address or at three others in a ' +
        `row, so this request was not sent. Retry after ${seconds} s.`,
      headers: { 'Retry-After': String(seconds) },
      members: { upstream: 'swap' },
    })
  }

  /** The provider answered 429. `waitMs`: the wait that it asks for. */
  begin(caller: Caller, waitMs: number): void {
    const forMs = Math.min(Math.max(waitMs, leastMs), mostMs)
    const { address = 'unknown' } = caller
    const application = briefText(caller.application)
    const { own, whole } = this.#keysOf(caller)
    const leftMs = this.#leftOf(own)
    const untilMs = this.#clock.steadyMs() + Math.max(leftMs, forMs)
    this.#byCaller.set(own, { application, address, untilMs, inRow: [] })
    if (leftMs === 0) this.#events.coolDownBegan(application, address, forMs)
    this.#countInRow(own, whole, application)
  }

  #countInRow(own: string, whole: string, application: string): void {
    const known = this.#byCaller.get(whole)
    const others = known?.inRow.filter((key) => key !== own && this.#leftOf(key) > 0)
    const inRow = [...(others ?? []), own].slice(-addressesOfWhole)
    const isWhole = inRow.length === addressesOfWhole
    const ends = inRow.map((key) => this.#byCaller.get(key)?.untilMs ?? 0)
    const untilMs = isWhole ? Math.max(known?.untilMs ?? 0, ...ends) : 0
    if (isWhole && this.#leftOf(whole) === 0)
      this.#events.coolDownBegan(application, undefined, untilMs - this.#clock.steadyMs())
    this.#byCaller.set(whole, { application, address: undefined, untilMs, inRow })
  }

  /** The provider answered a quote, so the whole application is not limited. The address's own limit goes on. */
  endWhole(caller: Caller): void {
    if (this.#byCaller.size > 0) this.#byCaller.delete(this.#keysOf(caller).whole)
  }

  list() {
    return [...this.#byCaller]
      .map(([key, { application, address }]) => {
        return { application, address, leftMs: this.#leftOf(key) }
      })
      .filter(({ leftMs }) => leftMs > 0)
  }

  #leftOf(key: string): number {
    const untilMs = this.#byCaller.get(key)?.untilMs ?? 0
    return Math.max(0, untilMs - this.#clock.steadyMs())
  }

  /** Digests, so that no secret is kept. */
  #keysOf({ application, authorization, address = 'unknown' }: Caller) {
    const credentials = `${this.#salt}${application.length}:${application}${authorization}`
    const whole = hash('sha256', credentials, 'base64url')
    return { own: `${whole} ${address}`, whole }
  }
}

export function wasNotSentForLimit(error: unknown): boolean {
  return error instanceof Problem && error.slug === 'provider-limit'
}

const waitFields = ['retry-after', 'ratelimit-reset', 'x-ratelimit-reset']
const waitMembers = ['retryAfter', 'retry_after']

/** The longest wait that an answer asks for in its head and body. 0: it states none that can be read. */
export function readWait(
  { rawHeaders, receivedAtMs }: Pick<AnswerHead, 'rawHeaders' | 'receivedAtMs'>,
  body: Buffer = noBytes,
): number {
  const [date = ''] = headerValues(rawHeaders, 'date')
  const dateMs = readHttpDate(date, receivedAtMs) ?? receivedAtMs
  const policies = headerValues(rawHeaders, 'ratelimit').flatMap((value) =>
    [...value.matchAll(secondsOfPolicy)].map(([, seconds = '']) => seconds),
  )
  const stated = [
    ...waitFields.flatMap((name) => headerValues(rawHeaders, name)),
    ...policies,
    ...statedInError(body, waitMembers),
  ]
  return Math.max(0, ...stated.map((text) => waitOf(text.trim(), dateMs)))
}

const noBytes = Buffer.alloc(0)

/** `"default";r=0;t=30`, or in the form of an earlier draft `limit=100, remaining=0, reset=30`. */
const secondsOfPolicy = /(?<![\w-])(?:t|reset)=(\d+)/g

// From here on a number is an instant, because no wait takes 30 years: in seconds or, from 1e11 on, in milliseconds.
const minInstant = 1e9
const minInstantMs = 1e11

/** An instant counts from the answer's own Date, because both are by the same clock; without a Date, from our clock. */
function waitOf(text: string, dateMs: number): number {
  if (!/^\d+(?:\.\d+)?$/.test(text))
    return (readHttpDate(text, dateMs) ?? dateMs) - dateMs
  const number = Number(text)
  if (number < minInstant) return number * 1_000
  return (number < minInstantMs ? number * 1_000 : number) - dateMs
}
