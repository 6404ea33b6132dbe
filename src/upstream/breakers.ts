import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { OpenBreaker } from '../http/failure.ts'
import { flatText } from '../process/text.ts'

/** What a request to the swap API is. Other upstreams take all requests as `other`. */
export type RequestKind =
  | 'float-order'
  /** POST /v3/orders. */
  | 'order'
  | 'other'
  /** A quote of this pair, by one name for all its spellings. */
  | { readonly quoteOf: string }

/** Requests that fail and stop apart. `rest`: neither a quote nor the creation of an order. */
export type Traffic = 'quotes' | 'orders' | 'rest'

export function trafficOf(kind: RequestKind): Traffic {
  if (typeof kind === 'object') return 'quotes'
  return kind === 'other' ? 'rest' : 'orders'
}

export type BreakerState = 'closed' | 'open' | 'half-open'

interface BreakerOptions {
  /** Failures in a row that open the breaker, once the first of them is `minFailingMs` old. */
  failures: number
  /** Failures are often faster than successes: several at once may be a small share. */
  minFailingMs: number
  /** How long the breaker stays open before it lets one request try. */
  openMs: number
  /** Must be monotonic: a wall clock set back would keep the breaker open longer. */
  nowMs: () => number
  /** Not called for single pairs. */
  onChange(breaker: Breaker, before: BreakerState): void
}

/**
 * Each request that is let through gets a permit, and must call `succeeded`, `failed` or `abandoned` exactly once. A
 * permit has no closures, because each request has two, and what a Set has held is collected late.
 */
export class Permit {
  readonly isTrial: boolean
  sentAtMs: number
  readonly #breaker: Breaker
  /** The breaker's set of unanswered permits when this permit was given, or when it ended the outage. */
  #unanswered: Set<Permit>
  /** True for a trial, until its good answer ends the outage. A later trial, or another request, may end it first. */
  #tries: boolean

  constructor(breaker: Breaker, isTrial: boolean, nowMs: number) {
    this.isTrial = isTrial
    this.sentAtMs = nowMs
    this.#breaker = breaker
    this.#unanswered = breaker.unanswered
    this.#tries = isTrial
    if (!isTrial) this.#unanswered.add(this)
  }

  get #isCurrent(): boolean {
    return this.#unanswered === this.#breaker.unanswered
  }

  /** A good answer ends the outage, however long the rest of it takes. */
  answerBegan(): void {
    this.#unanswered.delete(this)
    if (!this.#tries || !this.#isCurrent) return
    this.#breaker.close()
    this.#tries = false
    this.#unanswered = this.#breaker.unanswered
    this.sentAtMs = this.#breaker.nowMs()
  }

  succeeded(): void {
    this.#unanswered.delete(this)
    if (this.#isCurrent && (this.#tries || this.#breaker.state === 'closed'))
      this.#breaker.close()
  }

  failed(): void {
    this.#unanswered.delete(this)
    if (this.#tries) this.#breaker.trialFailed(this)
    else if (this.#isCurrent && this.#breaker.state === 'closed')
      this.#breaker.countFailure(this)
  }

  /** The caller left, or nothing was sent: that says nothing about the upstream. */
  abandoned(): void {
    this.#unanswered.delete(this)
    this.#breaker.trialAbandoned(this)
  }
}

/** Failures have to last this many times as long while slower requests may still succeed. */
const patience = 2.5

/** Stops sending to what fails: callers get their error at once, and the upstream has time to recover. */
export class Breaker {
  readonly name: OpenBreaker
  readonly nowMs: () => number
  readonly #options: BreakerOptions
  state: BreakerState = 'closed'
  #failuresInARow = 0
  /** When the first of the failures in a row ended. Undefined: nothing has failed since a success. */
  failingSinceMs: number | undefined
  #slowestFailureMs = 0
  #nextTrialAtMs = 0
  /** The latest trial, until it ends. */
  #trial: Permit | undefined
  /**
   * Permits of requests without an answer, oldest first. The end of an outage starts a new Set: earlier requests may
   * still time out, and no longer count.
   */
  unanswered: Set<Permit> = new Set()
  /** When its last request came. */
  triedAtMs = 0

  constructor(name: OpenBreaker, options: BreakerOptions) {
    this.name = name
    this.nowMs = options.nowMs
    this.#options = options
  }

  get retryAfterMs(): number {
    return this.state === 'open' ? Math.max(0, this.#nextTrialAtMs - this.nowMs()) : 0
  }

  admits(): boolean {
    return this.state === 'closed' || this.nowMs() >= this.#nextTrialAtMs
  }

  /**
   * While half-open, it admits one request at a time; but a trial longer than `openMs` no longer keeps the next one
   * waiting.
   */
  admit(): Permit | undefined {
    if (this.state === 'closed') return new Permit(this, false, this.nowMs())
    if (!this.admits()) return undefined
    this.#trial = new Permit(this, true, this.nowMs())
    this.#nextTrialAtMs = this.nowMs() + this.#options.openMs
    this.#change('half-open')
    return this.#trial
  }

  /** Ends the row of failures, and any outage. */
  close(): void {
    this.#failuresInARow = 0
    this.failingSinceMs = undefined
    this.#slowestFailureMs = 0
    if (this.state === 'closed') return
    this.#trial = undefined
    this.unanswered = new Set()
    this.#change('closed')
  }

  countFailure({ sentAtMs }: Permit): void {
    const nowMs = this.nowMs()
    this.#failuresInARow += 1
    this.failingSinceMs ??= nowMs
    this.#slowestFailureMs = Math.max(this.#slowestFailureMs, nowMs - sentAtMs)
    const [oldest] = this.unanswered
    const mayYetSucceed = nowMs - (oldest?.sentAtMs ?? nowMs) > this.#slowestFailureMs
    const minMs = this.#options.minFailingMs * (mayYetSucceed ? patience : 1)
    if (
      this.#failuresInARow >= this.#options.failures &&
      nowMs - this.failingSinceMs >= minMs
    )
      this.#open()
  }

  trialFailed(trial: Permit): void {
    if (this.#trial === trial) this.#open()
  }

  trialAbandoned(trial: Permit): void {
    if (this.#trial !== trial) return
    this.#trial = undefined
    this.#nextTrialAtMs = 0
  }

  #open(): void {
    this.#trial = undefined
    this.#nextTrialAtMs = this.nowMs() + this.#options.openMs
    this.#change('open')
  }

  #change(next: BreakerState): void {
    const before = this.state
    if (before === next) return
    this.state = next
    if (this.name !== 'pair') this.#options.onChange(this, before)
  }
}

/** `orders`: requests that create an order. `rest`: all requests but these and quotes. */
export type BreakerName = Exclude<OpenBreaker, 'pair'>

/** Max pairs with a breaker of their own. The pair tried longest ago is dropped first. */
const maxPairs = 1_000
/** Longer names are kept as SHA-256, because callers make them up. */
const maxNameLength = 256

const allTraffic: readonly Traffic[] = ['quotes', 'orders', 'rest']

/** The breakers of one upstream: of its connections, each traffic, and each pair's quotes. */
export class Breakers {
  readonly #options: BreakerOptions
  /** Quotes have no entry: each pair has its own breaker. */
  readonly states: Readonly<Partial<Record<BreakerName | Traffic, Breaker>>> & {
    readonly connections: Breaker
  }
  readonly #pairs = new LRUCache<string, Breaker>({ max: maxPairs })
  /** When each traffic last succeeded. Only what has succeeded since an outage began is called still served. */
  readonly #succeededAtMs: Partial<Record<Traffic, number>> = {}

  /** Without `byTraffic`, only failures to connect count. */
  constructor(byTraffic: boolean, options: BreakerOptions) {
    this.#options = options
    const create = (name: BreakerName) => new Breaker(name, options)
    const ofTraffic = byTraffic ? { orders: create('orders'), rest: create('rest') } : {}
    this.states = { connections: create('connections'), ...ofTraffic }
  }

  /** The breakers of pairs, by their names in `quoteOf`. */
  get pairs(): readonly [pair: string, breaker: Breaker][] {
    return [...this.#pairs]
  }

  /** The breaker of its traffic, if there is one: other upstreams have only the breaker of connections. */
  of(kind: RequestKind): Breaker | undefined {
    if (typeof kind !== 'object') return this.states[trafficOf(kind)]
    const { quoteOf: pair } = kind
    const name =
      pair.length > maxNameLength ? createHash('sha256').update(pair).digest('hex') : pair
    const known = this.#pairs.get(name)
    const breaker = known ?? new Breaker('pair', this.#options)
    if (known === undefined) this.#pairs.set(flatText(name), breaker)
    breaker.triedAtMs = this.#options.nowMs()
    return breaker
  }

  noteSuccess(traffic: Traffic): void {
    this.#succeededAtMs[traffic] = this.#options.nowMs()
  }

  /** The traffic that has succeeded since then and is not stopped. */
  servedSince(sinceMs: number): readonly Traffic[] {
    const { states } = this
    const isStopped = (breaker: Breaker | undefined) =>
      breaker !== undefined && breaker.state !== 'closed'
    if (isStopped(states.connections)) return []
    return allTraffic.filter(
      (traffic) => this.#hasSucceeded(traffic, sinceMs) && !isStopped(states[traffic]),
    )
  }

  /** The pairs whose quotes keep failing, and since when. `triedPairs`: set if no quote has succeeded since. */
  quotesOutage() {
    const stopped = stoppedPairs(this)
    if (stopped.length === 0) return undefined
    // A pair that has failed for days must not date an outage of all pairs.
    const sinceSuccess = stopped.filter(
      ({ failingSinceMs }) => !this.#hasSucceeded('quotes', failingSinceMs),
    )
    const allFail = sinceSuccess.length > 0
    const failing = allFail ? sinceSuccess : stopped
    const sinceMs = Math.min(...failing.map(({ failingSinceMs }) => failingSinceMs))
    if (!allFail) return { stopped, sinceMs, triedPairs: undefined }
    const tried = this.pairs.filter(
      ([, one]) => one.triedAtMs >= sinceMs || one.state !== 'closed',
    )
    return { stopped, sinceMs, triedPairs: tried.length }
  }

  #hasSucceeded(traffic: Traffic, sinceMs: number): boolean {
    return (this.#succeededAtMs[traffic] ?? Number.NEGATIVE_INFINITY) >= sinceMs
  }
}

/** The pairs whose quotes are not sent now. */
export function refusedPairs({ pairs }: Pick<Breakers, 'pairs'>): string[] {
  return pairs.flatMap(([pair, breaker]) => (breaker.admits() ? [] : [pair]))
}

/** Pairs whose breakers have opened, without a quote since. */
export function stoppedPairs({ pairs }: Pick<Breakers, 'pairs'>) {
  return pairs.flatMap(([pair, { state, failingSinceMs, retryAfterMs }]) =>
    state === 'closed' || failingSinceMs === undefined
      ? []
      : [{ pair, failingSinceMs, retryAfterMs }],
  )
}
