import { systemTimers, type Timers } from '../clock.ts'
import type { Events } from '../events.ts'
import { type OpenBreaker, UpstreamFailure } from '../http/failure.ts'
import { type UpstreamName, upstreamTable } from '../http/upstreams.ts'
import {
  type Breaker,
  Breakers,
  type RequestKind,
  type Traffic,
  trafficOf,
} from './breakers.ts'
import { Call, type CalledUpstream } from './call.ts'
import type { ConnectionOptions } from './connection.ts'
import {
  Connections,
  connectionsForStreams,
  type Lane,
  reservedForFloatOrders,
} from './connections.ts'
import type { CallOutcome, CountedFailure } from './fault.ts'
import type { Receiver, UpstreamRequest } from './request.ts'
import { RequestBody } from './request-body.ts'
import { SlowReaders } from './slow-readers.ts'

// Providers commonly close idle connections after 5 s. Closing sooner keeps requests off a closing one.
const idleMs = 4_000
const idleMarginMs = 1_000
const maxIdleMs = 60_000
/** Renewed connections follow a change in DNS even under constant load. */
const defaultConnectionLifeMs = 60_000
const maxAnswerHeadBytes = 65_536
/** Longer than most answers take, so that any successes have come. */
const minFailingMs = 1_000

export interface UpstreamLimits {
  connectTimeoutMs: number
  headersTimeoutMs: number
  bodyTimeoutMs: number
  connections: number
  /** Max requests that wait for a free connection, and for how long. */
  queue: number
  waitMs: number
  floatOrderWaitMs: number
  retries: number
  breakerFailures: number
  /** Age of the first failure in a row at which a breaker may open. Default: a second. */
  breakerMinFailingMs?: number
  breakerOpenMs: number
}

/** Defaults: the system's resolver and authorities, no certificate, no proxy, Node's timers. */
export interface UpstreamOptions
  extends Partial<Pick<ConnectionOptions, 'lookup' | 'tls' | 'proxy' | 'connect'>> {
  name: UpstreamName
  baseUrl: string
  limits: UpstreamLimits
  events: Events
  timers?: Timers
  connectionLifeMs?: number
}

export class Upstream implements CalledUpstream {
  readonly name: UpstreamName
  readonly url: URL
  readonly basePath: string
  readonly timers: Timers
  readonly breakers: Breakers
  readonly connections: Connections
  readonly retries: number
  readonly waitMs: Readonly<Record<Lane, number>>
  readonly slowReaders: SlowReaders
  /**
   * The latest counted failure, and how long after its request it came: of connections, and of requests that had one.
   */
  readonly lastFailures: Partial<
    Record<
      'connections' | Traffic,
      { readonly failure: CountedFailure; readonly afterMs: number }
    >
  > = {}
  inFlight = 0
  /** Failed requests so far. A request whose caller left has not failed. */
  failures = 0
  readonly #events: Events

  constructor(options: UpstreamOptions) {
    const { name, limits, timers = systemTimers } = options
    this.name = name
    this.url = new URL(options.baseUrl)
    this.basePath = this.url.pathname.replace(/(?<!\/)\/+$/, '')
    this.timers = timers
    this.retries = limits.retries
    const { floatOrderWaitMs, waitMs } = limits
    this.waitMs = { 'float-order': floatOrderWaitMs, stream: waitMs, other: waitMs }
    this.#events = options.events
    const byTraffic = upstreamTable[name].requests === 'by-kind'
    this.breakers = new Breakers(byTraffic, {
      failures: limits.breakerFailures,
      minFailingMs: limits.breakerMinFailingMs ?? minFailingMs,
      openMs: limits.breakerOpenMs,
      nowMs: () => timers.steadyMs(),
      onChange: (breaker, before) => this.#onBreakerChange(breaker, before),
    })
    this.connections = new Connections({
      ...options,
      origin: this.url.origin,
      connections: limits.connections,
      reserved: byTraffic ? reservedForFloatOrders(limits.connections) : 0,
      queue: limits.queue,
      breaker: this.breakers.states.connections,
      maxAgeMs: options.connectionLifeMs ?? defaultConnectionLifeMs,
      connectTimeoutMs: limits.connectTimeoutMs,
      timers,
      client: {
        headersTimeout: limits.headersTimeoutMs,
        bodyTimeout: limits.bodyTimeoutMs,
        keepAliveTimeout: idleMs,
        keepAliveTimeoutThreshold: idleMarginMs,
        keepAliveMaxTimeout: maxIdleMs,
        maxHeaderSize: maxAnswerHeadBytes,
      },
    })
    const slow = {
      max: connectionsForStreams(limits.connections),
      stallMs: limits.bodyTimeoutMs,
    }
    this.slowReaders = new SlowReaders(
      slow,
      () => this.connections.lanes.waiting > 0,
      timers,
    )
  }

  /** Returns the breaker of its traffic. Throws, and counts, if such a request would not be sent now. */
  throwIfKeptBack(
    kind: RequestKind,
    { bodyStreams } = { bodyStreams: false },
  ): Breaker | undefined {
    const breaker = this.breakers.of(kind)
    const stopped = [this.breakers.states.connections, breaker].find(
      (one) => one?.admits() === false,
    )
    const isFull = !this.connections.lanes.takes(laneOf(kind, bodyStreams))
    if (!isFull && stopped === undefined) return breaker
    const failure =
      isFull || stopped === undefined
        ? new UpstreamFailure(this.name, {
            fault: 'connection_limit_reached',
            maybeSeen: false,
          })
        : this.#stopped(stopped)
    this.failures += 1
    this.#events.callRefused(this.name, trafficOf(kind), failure.fault)
    throw failure
  }

  /** Admits a request, which begins with its call's `start()`. Throws if it is not sent. */
  call(request: UpstreamRequest, receiver: Receiver): Call {
    const { kind, body } = request
    const bodyStreams = body instanceof RequestBody
    const permit = this.throwIfKeptBack(kind, { bodyStreams })?.admit()
    this.inFlight += 1
    return new Call(request, receiver, {
      upstream: this,
      lane: laneOf(kind, bodyStreams),
      permit,
    })
  }

  close(): Promise<void> {
    return this.connections.close()
  }

  callRetried(): void {
    this.#events.callRetried(this.name)
  }

  callFailed(
    failure: CountedFailure,
    { startedAtMs, traffic }: Call,
    hadConnection: boolean,
  ): void {
    const afterMs = this.timers.steadyMs() - startedAtMs
    this.lastFailures[hadConnection ? traffic : 'connections'] = { failure, afterMs }
  }

  callEnded(outcome: CallOutcome, call: Call): void {
    this.inFlight -= 1
    if (outcome !== 'answered' && outcome !== 'given-up') this.failures += 1
    if (outcome === 'answered' && call.status < 400)
      this.breakers.noteSuccess(call.traffic)
    this.#events.callEnded(call, outcome, this.timers.steadyMs() - call.startedAtMs)
  }

  #onBreakerChange(breaker: Breaker, before: Breaker['state']): void {
    const { name: what, state } = breaker
    if (what === 'pair') return
    this.#events.breakerChanged(this.name, breaker, this.lastFailures[what]?.failure)
    if (what !== 'connections') return
    if (state === 'closed') this.connections.serve()
    // Requests that waited for the trial have waited long enough: the outage may last.
    if (state === 'open' && before === 'half-open')
      this.connections.refuseWaiting(this.#stopped(breaker))
  }

  #stopped(breaker: Breaker): UpstreamFailure {
    return new UpstreamFailure(this.name, {
      fault: 'breaker_open',
      maybeSeen: false,
      retryAfterMs: breaker.retryAfterMs,
      breaker: breaker.name,
      outage: outageText(breaker, this.breakers),
    })
  }
}

const failing: Record<OpenBreaker, string> = {
  connections: 'Connections to the API keep failing.',
  orders: 'Orders keep failing at the API.',
  rest: 'Requests other than quotes and orders keep failing at the API.',
  pair: 'Quotes of this pair keep failing at the API.',
}

/**
 * Names what has failed and what is still served: only what has succeeded since, or a caller would try it without
 * success.
 */
function outageText({ name, failingSinceMs }: Breaker, breakers: Breakers): string {
  const quotes = name === 'pair' ? breakers.quotesOutage() : undefined
  const allFail = quotes?.triedPairs !== undefined
  const what = allFail
    ? `All quotes that were asked for fail at the API (${pairsText(quotes.stopped.length, quotes.triedPairs)}).`
    : failing[name]
  const served = breakers.servedSince(
    (allFail ? quotes.sinceMs : failingSinceMs) ?? Number.POSITIVE_INFINITY,
  )
  const names = served.map((traffic) => {
    if (traffic === 'quotes') return name === 'pair' ? 'quotes of other pairs' : 'quotes'
    return traffic === 'orders' ? 'orders' : 'the rest of the API'
  })
  const listed =
    names.length < 2
      ? names.join('')
      : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`
  return listed === '' ? what : `${what} Still served: ${listed}.`
}

/** How many of the pairs, which all fail, are stopped. */
export function pairsText(stopped: number, triedPairs: number): string {
  const pairs = `${stopped} of ${triedPairs} pair${triedPairs === 1 ? '' : 's'}`
  return stopped < triedPairs ? `${pairs} stopped` : pairs
}

function laneOf(kind: RequestKind, bodyStreams: boolean): Lane {
  if (kind === 'float-order') return kind
  return bodyStreams ? 'stream' : 'other'
}
