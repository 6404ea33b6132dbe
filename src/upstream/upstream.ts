import type { LookupFunction } from 'node:net'
import type { Dispatcher } from 'undici'
import { UpstreamFailure } from '../http/upstream-failure.ts'
import { type UpstreamName, upstreamTable } from '../http/upstreams.ts'
import { Attempt, type AttemptContext } from './attempt.ts'
import { type Breaker, Breakers } from './breakers.ts'
import { Connections, type TryHandler } from './connections.ts'
import type { ConnectionOptions } from './connector.ts'
import { connectionsForStreams, type Lane, reservedForFloatOrders } from './lanes.ts'
import { RequestBody } from './request-body.ts'
import { SlowReaders } from './slow-readers.ts'
import { createSuccesses } from './successes.ts'
import { TryTrace } from './try-trace.ts'
import {
  type InFlightRequest,
  type LastFailure,
  type RequestKind,
  type Traffic,
  trafficOf,
  type Upstream,
  type UpstreamLimits,
  type UpstreamObserver,
  type UpstreamRequest,
} from './types.ts'

// Providers commonly close an idle connection after 5 s. Closing it sooner keeps requests off a closing connection.
const idleMs = 4_000
const idleMarginMs = 1_000
const maxIdleMs = 60_000
/** Connections are replaced at this age, so that the gateway follows a change in DNS even under constant load. */
const defaultConnectionLifeMs = 60_000
const maxAnswerHeadBytes = 65_536
/** Longer than most answers take, so that successes have come by then, if there are any. */
const minFailingMs = 1_000

export interface UpstreamOptions {
  name: UpstreamName
  baseUrl: string
  limits: UpstreamLimits
  observer: UpstreamObserver
  /** Resolves host names. Default: the system's resolver. */
  lookup?: LookupFunction
  connectionLifeMs?: number
  /** Default: the system's authorities, and no certificate of our own. */
  tls?: ConnectionOptions['tls']
  /** Default: every connection is direct. */
  proxy?: ConnectionOptions['proxy']
}

export function createUpstream(options: UpstreamOptions): Upstream {
  const { name, limits, observer } = options
  const url = new URL(options.baseUrl)
  const { origin, pathname } = url
  const basePath = pathname.replace(/(?<!\/)\/+$/, '')
  const byKind = upstreamTable[name].requests === 'by-kind'
  const breakers = new Breakers(byKind, {
    failures: limits.breakerFailures,
    minFailingMs: limits.breakerMinFailingMs ?? minFailingMs,
    openMs: limits.breakerOpenMs,
    nowMs: () => performance.now(),
    onChange: onBreakerChange,
  })
  const connections = new Connections({
    origin,
    connections: limits.connections,
    reserved: byKind ? reservedForFloatOrders(limits.connections) : 0,
    queue: limits.queue,
    breaker: breakers.states.connections,
    maxAgeMs: options.connectionLifeMs ?? defaultConnectionLifeMs,
    connectTimeoutMs: limits.connectTimeoutMs,
    lookup: options.lookup,
    tls: options.tls,
    proxy: options.proxy,
    client: {
      headersTimeout: limits.headersTimeoutMs,
      bodyTimeout: limits.bodyTimeoutMs,
      keepAliveTimeout: idleMs,
      keepAliveTimeoutThreshold: idleMarginMs,
      keepAliveMaxTimeout: maxIdleMs,
      maxHeaderSize: maxAnswerHeadBytes,
    },
  })
  const slowReaders = new SlowReaders({
    max: connectionsForStreams(limits.connections),
    othersWait: () => connections.stats.waiting > 0,
  })
  const successes = createSuccesses(breakers, () => performance.now())
  let inFlight = 0
  let failures = 0
  let isTryingToConnect = false
  const lastFailures: Partial<Record<'connections' | Traffic, LastFailure>> = {}

  function onBreakerChange({ name: what, state }: Breaker): void {
    if (what === 'pair') return
    observer.breakerChanged(what, state, lastFailures[what]?.failure)
    if (what !== 'connections') return
    if (state === 'closed') connections.serve()
    // Requests that waited for the trial have waited long enough: the outage may last.
    if (state === 'open' && isTryingToConnect) connections.refuseWaiting(refused(breakers.states.connections))
    isTryingToConnect = state === 'half-open'
  }

  function refused({ name: breaker, retryAfterMs, failingSinceMs }: Breaker): UpstreamFailure {
    const quotes = breaker === 'pair' ? successes.quotesOutage() : undefined
    const outage = {
      stoppedPairs: quotes?.stopped.length ?? 0,
      pairsAskedFor: quotes?.askedFor,
      stillServed: successes.since(
        quotes?.askedFor === undefined ? (failingSinceMs ?? Number.POSITIVE_INFINITY) : quotes.sinceMs,
      ),
    }
    const how = { fault: 'breaker_open', maybeSeen: false, retryAfterMs, breaker, outage } as const
    return new UpstreamFailure(name, how)
  }

  function traceTry({ trace, method }: UpstreamRequest, resends: number): TryTrace | undefined {
    return trace && new TryTrace(trace, { method, origin: url, basePath }, resends)
  }

  function send(request: UpstreamRequest, handler: TryHandler, traced: TryTrace | undefined) {
    return connections.dispatch(
      {
        method: request.method as Dispatcher.HttpMethod,
        // Never through `new URL(target, base)`: "//evil.example/x" would choose the host.
        path: basePath + request.target,
        headers: traced === undefined ? request.headers : request.headers.concat(traced.headers),
        // Its types leave out the lists that it sends in chunks.
        body: request.body as Buffer | RequestBody | null,
      },
      handler,
      laneOf(request),
    )
  }

  function saturated(): UpstreamFailure {
    return new UpstreamFailure(name, { fault: 'connection_limit_reached', maybeSeen: false })
  }

  function refusalOf(kind: RequestKind, lane: Lane): UpstreamFailure | undefined {
    const refusal = breakers.refusal(kind)
    const failure = connections.takes(lane) ? refusal && refused(refusal) : saturated()
    if (failure === undefined) return undefined
    failures += 1
    observer.requestEnded(failure.fault, 0, trafficOf(kind), 0)
    return failure
  }

  const context: AttemptContext = {
    retries: limits.retries,
    maxWaitMs: limits.headersTimeoutMs,
    waitedTooLong: saturated,
    send,
    traceTry,
    mayRetry: () => breakers.states.connections.state === 'closed',
    connected: () => breakers.states.connections.close(),
    onRetry: () => observer.retried(),
    onFailure(failure, { request, startedAtMs }, hadConnection) {
      const what = hadConnection ? trafficOf(request.kind) : 'connections'
      lastFailures[what] = { failure, afterMs: performance.now() - startedAtMs }
    },
    onEnd(outcome, { request, startedAtMs }, status) {
      inFlight -= 1
      if (outcome !== 'answered' && outcome !== 'given-up') failures += 1
      if (outcome === 'answered' && status < 400) successes.note(trafficOf(request.kind))
      observer.requestEnded(outcome, performance.now() - startedAtMs, trafficOf(request.kind), status)
    },
  }

  return {
    name,
    breakers,
    lastFailures,
    successes,
    slowReaders,
    get inFlight() {
      return inFlight
    },
    get failures() {
      return failures
    },
    get connections() {
      return connections.stats
    },
    refusal: (kind, { bodyStreams } = { bodyStreams: false }) =>
      refusalOf(kind, laneOfKind(kind, bodyStreams)),
    dispatch(request, handler) {
      const failure = refusalOf(request.kind, laneOf(request))
      if (failure !== undefined) {
        // Called after dispatch has returned, as with any other failure.
        process.nextTick(() => handler.onError(failure))
        return neverSent
      }
      const permit = breakers.admit(request.kind)
      const startedAtMs = performance.now()
      inFlight += 1
      return new Attempt({ request, handler, permit, startedAtMs, context })
    },
    close: () => connections.close(),
  }
}

/** Made outside `dispatch`: made there, it would keep the failure alive, and with its stack what the frames work on. */
const neverSent: InFlightRequest = { withdraw() {} }

function laneOf({ kind, body }: UpstreamRequest): Lane {
  return laneOfKind(kind, body instanceof RequestBody)
}

function laneOfKind(kind: RequestKind, bodyStreams: boolean): Lane {
  if (kind === 'float-order') return kind
  return bodyStreams ? 'stream' : 'other'
}
