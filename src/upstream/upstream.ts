import type { LookupFunction } from 'node:net'
import type { Dispatcher } from 'undici'
import { UpstreamFailure } from '../http/problem.ts'
import { type UpstreamName, upstreamTable } from '../http/upstreams.ts'
import { Attempt, type AttemptContext } from './attempt.ts'
import { createBreaker } from './breaker.ts'
import { Connections, type TryHandler } from './connections.ts'
import { createRetryBudget } from './retry-budget.ts'
import type {
  InFlightRequest,
  Upstream,
  UpstreamHandler,
  UpstreamLimits,
  UpstreamObserver,
  UpstreamRequest,
} from './types.ts'

// Providers commonly close an idle connection after 5 s. Closing it sooner keeps requests off a closing connection.
const idleMs = 4_000
const idleMarginMs = 1_000
const maxIdleMs = 60_000
/** Connections are replaced at this age, so that the gateway follows a change in DNS even under constant load. */
const defaultConnectionLifeMs = 60_000
const maxAnswerHeadBytes = 65_536

export interface UpstreamOptions {
  name: UpstreamName
  baseUrl: string
  limits: UpstreamLimits
  observer: UpstreamObserver
  /** Resolves host names. Default: the system's resolver. */
  lookup?: LookupFunction
  connectionLifeMs?: number
}

export function createUpstream(options: UpstreamOptions): Upstream {
  const { name, limits, observer } = options
  const { origin, pathname } = new URL(options.baseUrl)
  const basePath = pathname.replace(/\/+$/, '')
  const connections = new Connections({
    origin,
    max: limits.connections,
    maxAgeMs: options.connectionLifeMs ?? defaultConnectionLifeMs,
    connectTimeoutMs: limits.connectTimeoutMs,
    lookup: options.lookup,
    client: {
      headersTimeout: limits.headersTimeoutMs,
      bodyTimeout: limits.bodyTimeoutMs,
      keepAliveTimeout: idleMs,
      keepAliveTimeoutThreshold: idleMarginMs,
      keepAliveMaxTimeout: maxIdleMs,
      maxHeaderSize: maxAnswerHeadBytes,
    },
  })
  const breaker = createBreaker({
    failures: limits.breakerFailures,
    openMs: limits.breakerOpenMs,
    nowMs: () => performance.now(),
    onChange: (state) => observer.breakerChanged(state),
  })
  const budget = createRetryBudget(() => performance.now())
  const maxInFlight = limits.connections + limits.queue
  let inFlight = 0
  let failures = 0

  function send(request: UpstreamRequest, handler: TryHandler) {
    return connections.dispatch(
      {
        method: request.method as Dispatcher.HttpMethod,
        // Never through `new URL(target, base)`: "//evil.example/x" would choose the host.
        path: basePath + request.target,
        headers: request.headers,
        body: request.body,
      },
      handler,
    )
  }

  function refuse(
    handler: UpstreamHandler,
    fault: 'connection_limit_reached' | 'breaker_open',
  ): InFlightRequest {
    failures += 1
    observer.requestEnded(fault, 0)
    const retryAfterMs = breaker.retryAfterMs
    // Called after dispatch has returned, as with any other failure.
    process.nextTick(() =>
      handler.onError(new UpstreamFailure(name, { fault, maybeSeen: false, retryAfterMs })),
    )
    return { withdraw() {} }
  }

  const context: AttemptContext = {
    countsConnectOnly: upstreamTable[name].breakerCounts === 'connects',
    retries: limits.retries,
    send,
    takeRetry: budget.take,
    onRetry: () => observer.retried(),
    onEnd(outcome, startedAtMs) {
      inFlight -= 1
      if (outcome !== 'answered' && outcome !== 'given-up') failures += 1
      observer.requestEnded(outcome, performance.now() - startedAtMs)
    },
  }

  return {
    name,
    breaker,
    get inFlight() {
      return inFlight
    },
    get failures() {
      return failures
    },
    get connections() {
      return connections.stats
    },
    dispatch(request, handler) {
      if (inFlight >= maxInFlight) return refuse(handler, 'connection_limit_reached')
      const permit = breaker.admit()
      if (permit === undefined) return refuse(handler, 'breaker_open')
      const startedAtMs = performance.now()
      inFlight += 1
      budget.countRequest(startedAtMs)
      return new Attempt({ request, handler, permit, startedAtMs, context })
    },
    close: () => connections.close(),
  }
}
