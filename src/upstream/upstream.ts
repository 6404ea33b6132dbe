import type { LookupFunction } from 'node:net'
import type { Dispatcher } from 'undici'
import { UpstreamFailure } from '../http/problem.ts'
import { type UpstreamName, upstreamTable } from '../http/upstreams.ts'
import { Attempt, type AttemptCommon } from './attempt.ts'
import { createBreaker } from './breaker.ts'
import { Connections, type TryHandler } from './connections.ts'
import { createRetryBudget } from './retry-budget.ts'
import type {
  UnderWay,
  Upstream,
  UpstreamHandler,
  UpstreamLimits,
  UpstreamObserver,
  UpstreamRequest,
} from './types.ts'

// Providers commonly close an idle connection after 5 s; a request must not be sent on one that is just closing.
const idleMs = 4_000
const idleMarginMs = 1_000
const maxIdleMs = 60_000
/** Connections are renewed, so that the gateway follows a change in DNS even under constant load. */
const defaultConnectionLifeMs = 60_000
const maxAnswerHeadBytes = 65_536

export interface UpstreamOptions {
  name: UpstreamName
  baseUrl: string
  limits: UpstreamLimits
  observer: UpstreamObserver
  /** How names are resolved: by the system, unless a test passes its own. */
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
    lifeMs: options.connectionLifeMs ?? defaultConnectionLifeMs,
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

  function refuse(handler: UpstreamHandler, fault: 'connection_limit_reached' | 'breaker_open'): UnderWay {
    failures += 1
    observer.requestEnded(fault, 0)
    const retryAfterMs = breaker.retryAfterMs
    // After dispatch has returned, as with any other failure.
    process.nextTick(() =>
      handler.onError(new UpstreamFailure(name, { fault, maybeSeen: false, retryAfterMs })),
    )
    return { withdraw() {} }
  }

  const common: AttemptCommon = {
    countsConnectOnly: upstreamTable[name].breakerCounts === 'connects',
    retries: limits.retries,
    send,
    mayRetry: budget.take,
    onRetry: () => observer.retried(),
    onOver(outcome, startedAtMs) {
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
      const pass = breaker.admit()
      if (pass === undefined) return refuse(handler, 'breaker_open')
      const startedAtMs = performance.now()
      inFlight += 1
      budget.countRequest(startedAtMs)
      return new Attempt({ request, handler, pass, startedAtMs, common })
    },
    close: () => connections.close(),
  }
}
