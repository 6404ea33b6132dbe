import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { ClientAddress } from './client/client-address.ts'
import type { Difference, Now } from './clock.ts'
import type { Problem } from './http/problem.ts'
import type { Area } from './http/target.ts'
import type { UpstreamName } from './http/upstreams.ts'
import type { FloatOrder, FloatOrderDecision } from './orders/float-order.ts'
import type { Exchange } from './server/exchange.ts'
import type { Breaker, Traffic } from './upstream/breakers.ts'
import type { Call } from './upstream/call.ts'
import type { CountedFailure, Outcome } from './upstream/fault.ts'

/** What a quote request found. */
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
 * How replicas shared a call. found: the quote was in the store. awaited: another replica fetched it meanwhile.
 * fetched: this replica got the lock at once and fetches. alone: it waited, and then fetches itself. failed: the store
 * failed, so this replica fetches.
 */
export type Sharing = 'found' | 'awaited' | 'fetched' | 'alone' | 'failed'

/**
 * What became of an order with an Idempotency-Key. claimed: it was not known, so the order goes on. too-large: it was
 * answered with more than is kept. displaced: a key that was answered made room. refused: there was none.
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
  'journal-append',
  'journal-read',
] as const
export type StoreOperation = (typeof storeOperations)[number]
/** skipped: the store was away, so nothing was sent. */
export type StoreOutcome = 'ok' | 'failed' | 'timeout' | 'skipped'

/**
 * All that can happen, one method each: the code that sees it calls it, and the listeners that want it are called in
 * their order. Nothing is decided by what they do.
 */
export class Events {
  readonly #heard = {} as Heard

  constructor(listeners: readonly Listener[] = []) {
    for (const name of eventNames) hearing(this.#heard, name, listeners)
  }

  /** A request has its whole answer, or has none. `status` 0: the client left, or the answer broke off. */
  requestEnded(exchange: Exchange, status: number, durationMs: number): void {
    for (const one of this.#heard.requestEnded) one.requestEnded(exchange, status, durationMs)
  }

  /** The gateway answers with a problem. Undefined: the request had not reached a route. */
  problemAnswered(problem: Problem, requestId: string, exchange: Exchange | undefined): void {
    for (const one of this.#heard.problemAnswered) one.problemAnswered(problem, requestId, exchange)
  }

  /** That request has its answer. `from`: only the connection, if no request could be read. */
  requestRefused(problem: Problem, requestId: string, from: IncomingMessage | Duplex): void {
    for (const one of this.#heard.requestRefused) one.requestRefused(problem, requestId, from)
  }

  /** What a client-address header says could not be used: its `note` says why. */
  addressNoted(client: ClientAddress): void {
    for (const one of this.#heard.addressNoted) one.addressNoted(client)
  }

  /** A client has used its RATE_LIMIT_PER_MINUTE. */
  rateLimited(area: Area): void {
    for (const one of this.#heard.rateLimited) one.rateLimited(area)
  }

  quoteLookedUp(result: Lookup): void {
    for (const one of this.#heard.quoteLookedUp) one.quoteLookedUp(result)
  }

  /** A quote goes out, with this much of its time left. */
  quoteServed(pair: string, leftMs: number): void {
    for (const one of this.#heard.quoteServed) one.quoteServed(pair, leftMs)
  }

  /** The provider is asked for a quote. */
  quoteCalled(pair: string): void {
    for (const one of this.#heard.quoteCalled) one.quoteCalled(pair)
  }

  /**
   * A quote is in memory. `moved`: its price, from that of the quote that it replaces, as a share; undefined: of none.
   */
  quoteKept(leftMs: number, pair: string, moved: number | undefined): void {
    for (const one of this.#heard.quoteKept) one.quoteKept(leftMs, pair, moved)
  }

  /** The answer to a quote call is relayed alone. */
  quoteNotKept(reason: NotKeptReason): void {
    for (const one of this.#heard.quoteNotKept) one.quoteNotKept(reason)
  }

  /** Quotes left the memory: it was full, or an order used them, here or at another replica. */
  quotesDropped(reason: 'capacity' | 'order' | 'elsewhere', quotes: number): void {
    for (const one of this.#heard.quotesDropped) one.quotesDropped(reason, quotes)
  }

  /** A quote was asked for ahead of the end of the one before. */
  quoteRefreshed(outcome: 'stored' | 'found' | 'failed'): void {
    for (const one of this.#heard.quoteRefreshed) one.quoteRefreshed(outcome)
  }

  quoteShared(sharing: Sharing): void {
    for (const one of this.#heard.quoteShared) one.quoteShared(sharing)
  }

  /** The provider marks its quotes with a Cache-Control that is not obeyed. Once. */
  cacheControlIgnored(directive: string): void {
    for (const one of this.#heard.cacheControlIgnored) one.cacheControlIgnored(directive)
  }

  /** The provider answered a quote with 429, and is not asked for a while. Not for one that another 429 prolongs. */
  coolDownBegan(application: string, address: string, forMs: number): void {
    for (const one of this.#heard.coolDownBegan) one.coolDownBegan(application, address, forMs)
  }

  /** What an answer says of the provider's clock; undefined: nothing. */
  providerDated(difference: Difference | undefined, now: Now): void {
    for (const one of this.#heard.providerDated) one.providerDated(difference, now)
  }

  /** The ledger dropped a quote to make room, so long after its end. */
  quoteForgotten(expiredForMs: number): void {
    for (const one of this.#heard.quoteForgotten) one.quoteForgotten(expiredForMs)
  }

  orderDecided(exchange: Exchange, decision: FloatOrderDecision, order: FloatOrder): void {
    for (const one of this.#heard.orderDecided) one.orderDecided(exchange, decision, order)
  }

  /** An order goes out for a quote that an order of the same client has used, or is using. */
  orderRepeated(exchange: Exchange, order: FloatOrder): void {
    for (const one of this.#heard.orderRepeated) one.orderRepeated(exchange, order)
  }

  /** What became of an order with an Idempotency-Key, or of a key. */
  orderKeyed(result: KeyResult): void {
    for (const one of this.#heard.orderKeyed) one.orderKeyed(result)
  }

  /** An order was refused because it came slowly while too much was held of unfinished bodies. */
  bodyRefused(): void {
    for (const one of this.#heard.bodyRefused) one.bodyRefused()
  }

  /** A request to an upstream was refused unsent. */
  callRefused(upstream: UpstreamName, traffic: Traffic, outcome: Outcome): void {
    for (const one of this.#heard.callRefused) one.callRefused(upstream, traffic, outcome)
  }

  callRetried(upstream: UpstreamName): void {
    for (const one of this.#heard.callRetried) one.callRetried(upstream)
  }

  /** A request to an upstream has ended, after all of its tries. */
  callEnded(call: Pick<Call, 'upstream' | 'traffic' | 'status'>, outcome: Outcome, durationMs: number): void {
    for (const one of this.#heard.callEnded) one.callEnded(call, outcome, durationMs)
  }

  /** Not that of a single pair. `failure`: what the last request that it counted had failed with. */
  breakerChanged(upstream: UpstreamName, breaker: Breaker, failure: CountedFailure | undefined): void {
    for (const one of this.#heard.breakerChanged) one.breakerChanged(upstream, breaker, failure)
  }

  /** `durationMs` has no meaning for a skipped operation. */
  storeAsked(operation: StoreOperation, outcome: StoreOutcome, durationMs: number): void {
    for (const one of this.#heard.storeAsked) one.storeAsked(operation, outcome, durationMs)
  }

  /**
   * It takes nothing for now: a step of the disk fails, or has taken so many milliseconds already; or the store is away.
   */
  journalAway(part: 'disk' | 'stream', step?: string, cause?: unknown): void {
    for (const one of this.#heard.journalAway) one.journalAway(part, step, cause)
  }

  journalBack(part: 'disk' | 'stream', forMs: number): void {
    for (const one of this.#heard.journalBack) one.journalBack(part, forMs)
  }

  /** Too many wait, or the collector did not take them. */
  spansDropped(count: number): void {
    for (const one of this.#heard.spansDropped) one.spansDropped(count)
  }
}

type EventName = keyof Events

/** It has a method for each event that it wants. */
export type Listener = { readonly [Name in EventName]?: Events[Name] }

type Heard = { [Name in EventName]: readonly Pick<Events, Name>[] }

export const eventNames = Object.getOwnPropertyNames(Events.prototype).filter(
  (name) => name !== 'constructor',
) as readonly EventName[]

function hearing<Name extends EventName>(
  heard: { [Each in Name]: readonly Pick<Events, Each>[] },
  name: Name,
  listeners: readonly Listener[],
): void {
  heard[name] = listeners.filter((one): one is Listener & Pick<Events, Name> => one[name] !== undefined)
}
