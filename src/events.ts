import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { UserAddress } from './client/client-address.ts'
import type { Problem } from './http/problem.ts'
import type { Area } from './http/target.ts'
import type { UpstreamName } from './http/upstreams.ts'
import type { ShownHold } from './memory/holds.ts'
import type { FloatOrder, FloatOrderDecision } from './orders/guard.ts'
import type { Exchange } from './server/exchange.ts'
import type { Breaker, Traffic } from './upstream/breakers.ts'
import type { Call } from './upstream/call.ts'
import type { CallOutcome, CountedFailure } from './upstream/fault.ts'

export type Lookup = 'hit' | 'shared' | 'miss' | 'expired' | 'collapsed' | 'bypass'

/** Why an answer is not cached. */
export const notKeptReasons = [
  'status',
  'not-json',
  'not-a-quote',
  'other-amount',
  'no-expiry',
  'expiry-in-seconds',
  'expiry-too-far',
  'expired',
  'content-coding',
  'vary',
  'too-large',
  'used',
] as const

export type NotKeptReason = (typeof notKeptReasons)[number]

/**
 * What became of an order with an Idempotency-Key. claimed: the key was new, so the order goes on. too-large: it was
 * answered, but the answer is larger than what is kept. displaced: an answered key was dropped to make room. refused:
 * no key could be dropped.
 */
export const keyResults = [
  'claimed',
  'replayed',
  'in-progress',
  'unknown',
  'too-large',
  'reused',
  'displaced',
  'refused',
] as const

type KeyResult = (typeof keyResults)[number]

/** The kinds of calls to the shared store, as metrics name them. */
export const storeOperations = [
  'quote-get',
  'quote-set',
  'quote-forget',
  'unlock',
  'rate-limit',
  'key-claim',
  'key-settle',
  'hold-read',
  'hold-write',
  'journal-append',
  'journal-read',
] as const
export type StoreOperation = (typeof storeOperations)[number]
/**
 * The kinds of steps at the disk of STATE_DIRECTORY. folder: checks that the path still leads to the locked folder.
 * copy: writes everything that is remembered to a new file.
 */
export const diskOperations = ['folder', 'write', 'sync', 'copy'] as const
export type DiskOperation = (typeof diskOperations)[number]

/** skipped: the store was away, so nothing was sent. */
export type StoreOutcome = 'ok' | 'failed' | 'timeout' | 'skipped'

const ignored = () => {}

type Hear = (...happened: unknown[]) => void

/**
 * One method for each thing that can happen, called by the code that sees it. It calls the listeners in their order. No
 * listener decides anything.
 */
export class Events {
  /** A request was answered, or will not be. `status` 0: the caller left, or the answer broke off. */
  requestEnded: (exchange: Exchange, status: number, durationMs: number) => void = ignored
  /**
   * The gateway answers with a problem. `exchange` undefined: the server answers, mostly before a route has the request,
   * sometimes because a body turns out malformed.
   */
  problemAnswered: (
    problem: Problem,
    requestId: string,
    exchange: Exchange | undefined,
  ) => void = ignored
  /**
   * A request was answered with a problem before it reached a route. `from`: only the socket, if no request could be
   * read.
   */
  requestRefused: (
    problem: Problem,
    requestId: string,
    from: IncomingMessage | Duplex,
  ) => void = ignored
  /** No client-address header could be used, or a trusted proxy sent none. */
  addressNoted: (user: UserAddress) => void = ignored
  /** A trusted proxy named a user for the first time, or its first 20 requests named none. */
  proxyJudged: (peer: string, namesUsers: boolean) => void = ignored
  /** An application or an address has used up its RATE_LIMIT_PER_MINUTE. */
  rateLimited: (area: Area) => void = ignored
  /** A quote request found no quote in memory with enough time left. */
  quoteLookedUp: (result: Exclude<Lookup, 'hit'>) => void = ignored
  /** A quote is served now. `countAs`: it was a hit, which `quoteLookedUp` does not report. */
  quoteServed: (pair: string, leftMs: number, nowMs: number, countAs?: 'hit') => void =
    ignored
  quoteCalled: (pair: string) => void = ignored
  quoteKept: (leftMs: number) => void = ignored
  /**
   * An answer that could have been cached, because its request has a key, is not. Where its end is known it is served with
   * the time it has left, otherwise relayed as it came. `code`: what the provider calls its error.
   */
  quoteNotKept: (reason: NotKeptReason, status: number, code?: string) => void = ignored
  /** Quotes left the memory: it was full, or an order used them, here or at another replica. */
  quotesDropped: (reason: 'capacity' | 'order' | 'elsewhere', quotes: number) => void =
    ignored
  /** A background call ended that was to replace a quote in memory before its end. */
  quoteRefreshed: (outcome: 'stored' | 'found' | 'failed') => void = ignored
  /** The provider marks its quotes with a Cache-Control that is not obeyed. Called once. */
  cacheControlIgnored: (directive: string) => void = ignored
  /**
   * The provider answered a quote with 429, so it gets no calls for a while. Not called if a further 429 prolongs that.
   * Address undefined: the whole application is limited.
   */
  coolDownBegan: (
    application: string,
    address: string | undefined,
    forMs: number,
  ) => void = ignored
  orderDecided: (
    exchange: Exchange,
    decision: FloatOrderDecision,
    order: FloatOrder,
  ) => void = ignored
  /** An order is sent for a quote that an order of the same partition has used or is using. */
  quoteOrderedAgain: (exchange: Exchange, order: FloatOrder) => void = ignored
  orderKeyed: (result: KeyResult) => void = ignored
  /** Operators hold orders, and perhaps quotes, here or at another replica. At startup: each hold still in force. */
  holdBegan: (hold: ShownHold) => void = ignored
  holdEnded: (hold: ShownHold, how: 'over' | 'released') => void = ignored
  /** A breaker or a full queue kept a request to an upstream back: it was not sent. */
  callRefused: (upstream: UpstreamName, traffic: Traffic, outcome: CallOutcome) => void =
    ignored
  callRetried: (upstream: UpstreamName) => void = ignored
  /** A request to an upstream has ended, after all of its tries. */
  callEnded: (
    call: Pick<Call, 'upstream' | 'traffic' | 'status'>,
    outcome: CallOutcome,
    durationMs: number,
  ) => void = ignored
  /** Any breaker but that of a single pair. `failure`: the last failure that the breaker counted. */
  breakerChanged: (
    upstream: UpstreamName,
    breaker: Breaker,
    failure: CountedFailure | undefined,
  ) => void = ignored
  /** `durationMs` has no meaning for a skipped operation. */
  storeAsked: (
    operation: StoreOperation,
    outcome: StoreOutcome,
    durationMs: number,
  ) => void = ignored
  /**
   * The journal takes nothing for now: a step of the disk fails or takes long, or the store is away. `cause`: an error,
   * or the milliseconds that the step has taken until now.
   */
  journalAway: (part: 'disk' | 'stream', step?: string, cause?: unknown) => void = ignored
  journalBack: (part: 'disk' | 'stream', forMs: number) => void = ignored
  /** Spans were dropped: too many waited, or the collector did not take them. */
  spansDropped: (count: number) => void = ignored

  constructor(listeners: readonly Listener[] = []) {
    const methods = this as unknown as Record<string, Hear>
    for (const name of Object.keys(this)) {
      const heard = (listeners as readonly Partial<Record<string, Hear>>[]).flatMap(
        (one) => one[name]?.bind(one) ?? [],
      )
      if (heard.length > 0)
        methods[name] = heard.length === 1 ? (heard[0] as Hear) : inTurn(heard)
    }
  }
}

/** An event has at most four arguments. Naming them costs less than a rest parameter at each event. */
function inTurn(heard: readonly Hear[]): Hear {
  return (first, second, third, fourth) => {
    for (const hear of heard) hear(first, second, third, fourth)
  }
}

export type Listener = Partial<Events>

export type Heard<Name extends keyof Events> = Parameters<Events[Name]>
