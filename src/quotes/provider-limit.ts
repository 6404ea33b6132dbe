import { hash, randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Clock } from '../clock.ts'
import type { Events } from '../events.ts'
import { headerValues } from '../http/headers.ts'
import { readHttpDate } from '../http/http-date.ts'
import { Problem } from '../http/problem.ts'
import { briefText } from '../process/text.ts'
import type { Ask } from './ask.ts'

/** As whom a quote call is made, as the provider sees it. */
type Caller = Pick<Ask, 'application' | 'authorization' | 'address'>

const maxCallers = 1_000
const leastMs = 1_000
const mostMs = 30_000

/** After the provider's 429 to a quote, the same caller's quotes are not asked for until its Retry-After is over. */
export class ProviderLimit {
  readonly #clock: Clock
  readonly #events: Events
  readonly #salt = randomBytes(32).toString('base64url')
  readonly #byCaller = new LRUCache<
    string,
    { application: string; address: string; untilMs: number }
  >({
    max: maxCallers,
  })

  constructor({ clock, events }: { clock: Clock; events: Events }) {
    this.#clock = clock
    this.#events = events
  }

  /** 0: the provider may be asked. */
  leftMs(caller: Caller): number {
    return this.#byCaller.size === 0
      ? 0
      : this.#leftOf(this.#byCaller.get(this.#keyOf(caller)))
  }

  /** Throws the problem of a call that is not to be made now. */
  check(caller: Caller): void {
    const leftMs = this.leftMs(caller)
    if (leftMs === 0) return
    const seconds = Math.max(1, Math.ceil(leftMs / 1_000))
    throw new Problem('provider-limit', {
      detail:
        'The provider answered 429 to quotes of this application and client address, so this request was not ' +
        `sent. Retry after ${seconds} s.`,
      headers: { 'Retry-After': String(seconds) },
      members: { upstream: 'swap' },
    })
  }

  /** The provider answered 429. `retryAfterMs`: what its Retry-After says. */
  begin(caller: Caller, retryAfterMs: number): void {
    const forMs = Math.min(Math.max(retryAfterMs, leastMs), mostMs)
    const { address = 'unknown' } = caller
    const application = briefText(caller.application)
    const leftMs = this.leftMs(caller)
    const untilMs = this.#clock.steadyMs() + Math.max(leftMs, forMs)
    this.#byCaller.set(this.#keyOf(caller), { application, address, untilMs })
    if (leftMs === 0) this.#events.coolDownBegan(application, address, forMs)
  }

  list() {
    return [...this.#byCaller.values()]
      .map((one) => ({
        application: one.application,
        address: one.address,
        leftMs: this.#leftOf(one),
      }))
      .filter(({ leftMs }) => leftMs > 0)
  }

  #leftOf(one: { untilMs: number } | undefined): number {
    return one === undefined ? 0 : Math.max(0, one.untilMs - this.#clock.steadyMs())
  }

  /** No secret is kept. */
  #keyOf({ application, authorization, address = 'unknown' }: Caller): string {
    const credentials = `${this.#salt}${application.length}:${application}${authorization}`
    return `${hash('sha256', credentials, 'base64url')} ${address}`
  }
}

export function isProviderLimit(error: unknown): boolean {
  return error instanceof Problem && error.slug === 'provider-limit'
}

/**
 * How long an answer asks to wait; 0 if it does not say, or not readably. A date counts from the answer's own Date,
 * because both are of the same clock; without one, from `nowMs`, which is ours.
 */
export function readRetryAfter(rawHeaders: readonly string[], nowMs: number): number {
  const [date = ''] = headerValues(rawHeaders, 'date')
  const fromMs = readHttpDate(date, nowMs) ?? nowMs
  const waits = headerValues(rawHeaders, 'retry-after').map((value) => {
    const text = value.trim()
    return /^\d+$/.test(text)
      ? Number(text) * 1_000
      : (readHttpDate(text, nowMs) ?? fromMs) - fromMs
  })
  return Math.max(0, ...waits)
}
