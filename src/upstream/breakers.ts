import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { OpenBreaker } from '../http/failure.ts'
import { flatText } from '../process/text.ts'

/** What a request to the swap API is. Other upstreams take all of their requests as `other`. */
export type RequestKind =
  | 'float-order'
  /** POST /v3/orders. */
  | 'order'
  | 'other'
  /** A quote of this pair, by one name for all spellings of the pair. */
  | { readonly quoteOf: string }

/** The kinds of requests that fail and stop apart. `rest`: neither a quote nor the creation of an order. */
export type Traffic = 'quotes' | 'orders' | 'rest'

/** What a request counts as. */
export function trafficOf(kind: RequestKind): Traffic {
  if (typeof kind === 'object') return 'quotes'
  return kind === 'other' ? 'rest' : 'orders'
}

export type BreakerState = 'closed' | 'open' | 'half-open'

interface BreakerOptions {
  /** How many failures in a row open the breaker, once the first of them is `minFailingMs` old. */
  failures: number
  /** Failures are often faster than successes: several at once may be a small share of the requests. */
  minFailingMs: number
  /** How long the breaker stays open before it lets one request try. */
  openMs: number
  /** Must be monotonic: a wall clock that is set back would keep the breaker open longer. */
  nowMs: () => number
  /** Not called for the breakers of single pairs. */
  onChange(breaker: Breaker, before: BreakerState): void
}

/**
 * A permit is given to each request that is let through, which must call `succeeded`, `failed` or `abandoned` exactly
 * once. It has no closures: each request has two permits, and what a Set has held is collected late.
 */
export class Permit {
  /** Whether this request finds out if the outage is over. */
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

  /** A good answer has begun. The outage is over, however long the rest of the answer takes. */
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

  /** The client left or the request was never sent, so its end says nothing about the upstream. */
  abandoned(): void {
    this.#unanswered.delete(this)
    this.#breaker.trialAbandoned(this)
  }
}

/** Failures have to last this many times `minFailingMs` while slower requests may still succeed. */
const patience = 2.5

/** Stops sending to what fails: callers get their error at once, and the upstream has time to recover. */
export class Breaker {
  readonly name: OpenBreaker
  readonly nowMs: () => number
  readonly #options: BreakerOptions
  state: BreakerState = 'closed'
  #failuresInARow = 0
  /** When the first of the failures in a row ended, by `nowMs`. Undefined: nothing has failed since a success. */
  failingSinceMs: number | undefined
  #slowestFailureMs = 0
  #nextTrialAtMs = 0
  /** The latest trial, until it ends. */
  #trial: Permit | undefined
  /**
   * The permits of requests without an answer, oldest first. An outage that ends starts a new Set: earlier requests may
   * still time out, one after another, and no longer count.
   */
  unanswered: Set<Permit> = new Set()
  /** When its last request came. */
  triedAtMs = 0

  constructor(name: OpenBreaker, options: BreakerOptions) {
    this.name = name
    this.nowMs = options.nowMs
    this.#options = options
  }

  /** How long to wait before the next request can be let through; 0 while the breaker is closed. */
  get retryAfterMs(): number {
    return this.state === 'open' ? Math.max(0, this.#nextTrialAtMs - this.nowMs()) : 0
  }

  /** Whether `admit` would give a permit now. */
  admits(): boolean {
    return this.state === 'closed' || this.nowMs() >= this.#nextTrialAtMs
  }

  /**
   * While half-open, one request at a time is admitted. A trial that takes longer than `openMs` no longer keeps the
   * next one waiting.
   */
  admit(): Permit | undefined {
    if (this.state === 'closed') return new Permit(this, false, this.nowMs())
    if (!this.admits()) return undefined
    this.#trial = new Permit(this, true, this.nowMs())
    this.#nextTrialAtMs = this.nowMs() + this.#options.openMs
    this.#change('half-open')
    return this.#trial
  }

  /** Ends the row of failures, and any outage: a request has shown that the upstream works. */
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

/** Max pairs with a breaker of their own. The pair that was tried longest ago is forgotten first. */
const maxPairs = 1_000
/** A longer name is kept as its SHA-256, because clients make up names. */
const maxNameLength = 256

const allTraffic: readonly Traffic[] = ['quotes', 'orders', 'rest']

/** The breakers of one upstream: of its connections, of each kind of requests, and of the quotes of each pair. */
export class Breakers {
  readonly #options: BreakerOptions
  /** Quotes have no entry: each pair has a breaker of its own. */
  readonly states: Readonly<Partial<Record<BreakerName | Traffic, Breaker>>> & {
    readonly connections: Breaker
  }
  readonly #pairs = new LRUCache<string, Breaker>({ max: maxPairs })
  /**
   * When each kind last succeeded: a sentence about an outage names a kind as still served only if it has succeeded
   * since.
   */
  readonly #succeededAtMs: Partial<Record<Traffic, number>> = {}

  /** Without `byKind`, only failures to connect count. */
  constructor(byKind: boolean, options: BreakerOptions) {
    this.#options = options
    const create = (name: BreakerName) => new Breaker(name, options)
    const ofKinds = byKind ? { orders: create('orders'), rest: create('rest') } : {}
    this.states = { connections: create('connections'), ...ofKinds }
  }

  /** The breakers of pairs, by their names in `quoteOf`. */
  get pairs(): readonly [pair: string, breaker: Breaker][] {
    return [...this.#pairs]
  }

  /** The breaker of this kind, if it has one: other upstreams have only the breaker of their connections. */
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

  /** The kinds that have succeeded since then and are not stopped. */
  servedSince(sinceMs: number): readonly Traffic[] {
    const { states } = this
    const isStopped = (breaker: Breaker | undefined) =>
      breaker !== undefined && breaker.state !== 'closed'
    if (isStopped(states.connections)) return []
    return allTraffic.filter(
      (traffic) => this.#hasSucceeded(traffic, sinceMs) && !isStopped(states[traffic]),
    )
  }

  /**
   * The pairs whose quotes keep failing, and since when. `triedPairs`: how many pairs were tried, if no quote has
   * succeeded since then.
   */
  quotesOutage() {
    const stopped = stoppedPairs(this)
    if (stopped.length === 0) return undefined
    // A pair that has failed for days must not date an outage of all pairs that began a minute ago.
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

/** The pairs whose breakers have opened, and that had no quote since. */
export function stoppedPairs({ pairs }: Pick<Breakers, 'pairs'>) {
  return pairs.flatMap(([pair, { state, failingSinceMs, retryAfterMs }]) =>
    state === 'closed' || failingSinceMs === undefined
      ? []
      : [{ pair, failingSinceMs, retryAfterMs }],
  )
}
