import type { LookupFunction } from 'node:net'
import type { Dispatcher } from 'undici'
import { UpstreamFailure } from '../http/problem.ts'
import { Attempt, type AttemptCommon, type Outcome } from './attempt.ts'
import { type Breaker, type BreakerState, createBreaker } from './breaker.ts'
import { Connections, type TryHandler } from './connections.ts'
import type { RequestBody } from './request-body.ts'
import { createRetryBudget } from './retry-budget.ts'

export type UpstreamName = 'swap' | 'payments' | 'webhooks'

export interface UpstreamLimits {
  connectTimeoutMs: number
  headersTimeoutMs: number
  bodyTimeoutMs: number
  connections: number
  /** Requests that may wait for a connection. */
  queue: number
  retries: number
  breakerFailures: number
  breakerOpenMs: number
}

/** What is counted of an upstream. */
export interface UpstreamObserver {
  onRequest(outcome: Outcome, durationMs: number): void
  onRetry(): void
  onBreaker(state: BreakerState): void
}

export interface UpstreamRequest {
  method: string
  /** The request target as received; the base URL's path goes before it. */
  target: string
  headers: string[]
  body: Buffer | RequestBody | null
}

/** undici's raw handler: header bytes as they came, no copies, no promises. */
export interface UpstreamHandler {
  /** Called just before the first byte is written; what it throws cancels the request unsent. */
  onConnect(abort: (reason?: Error) => void): void
  onHeaders(status: number, rawHeaders: Buffer[], resume: () => void, reason: string): boolean
  onData(chunk: Buffer): boolean
  onComplete(): void
  onError(error: Error): void
}

/** A request that was taken on. */
export interface UnderWay {
  /** Nobody wants it any more: if it still waits for a connection it makes room, and its handler gets the reason. */
  withdraw(reason: Error): void
}

/** One upstream: where it is, and how many connections and how much patience it gets. */
export interface Upstream {
  readonly name: UpstreamName
  readonly breaker: Breaker
  /** Requests that are under way or wait for a connection. */
  readonly inFlight: number
  readonly connections: { busy: number; idle: number }
  dispatch(request: UpstreamRequest, handler: UpstreamHandler): UnderWay
  close(): Promise<void>
}

// Providers commonly keep an idle connection for 5 s; a request must never meet one that is just closing.
const idleMs = 4_000
const idleMarginMs = 1_000
const idleMostMs = 60_000
/** Connections are renewed, so that a change in DNS is followed even under constant load. */
const connectionLifeMs = 60_000
const answerHeadBytes = 65_536

export interface UpstreamOptions {
  name: UpstreamName
  baseUrl: string
  limits: UpstreamLimits
  observer: UpstreamObserver
  /** How names are resolved; the system's way unless a test says otherwise. */
  lookup?: LookupFunction
  connectionLifeMs?: number
}

export function createUpstream(options: UpstreamOptions): Upstream {
  const { name, limits, observer } = options
  const { origin, pathname } = new URL(options.baseUrl)
  const basePath = pathname.replace(/\/+$/, '')
  const nowMs = () => performance.now()
  const connections = new Connections({
    origin,
    most: limits.connections,
    lifeMs: options.connectionLifeMs ?? connectionLifeMs,
    connectTimeoutMs: limits.connectTimeoutMs,
    lookup: options.lookup,
    client: {
      headersTimeout: limits.headersTimeoutMs,
      bodyTimeout: limits.bodyTimeoutMs,
      keepAliveTimeout: idleMs,
      keepAliveTimeoutThreshold: idleMarginMs,
      keepAliveMaxTimeout: idleMostMs,
      maxHeaderSize: answerHeadBytes,
    },
    nowMs,
  })
  const breaker = createBreaker({
    failures: limits.breakerFailures,
    openMs: limits.breakerOpenMs,
    nowMs,
    onChange: (state) => observer.onBreaker(state),
  })
  const budget = createRetryBudget(nowMs)
  const inFlightMost = limits.connections + limits.queue
  let inFlight = 0

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
    observer.onRequest(fault, 0)
    const retryAfterMs = breaker.retryAfterMs
    // Not before dispatch has returned, as with any other failure.
    process.nextTick(() =>
      handler.onError(new UpstreamFailure(name, { fault, maybeSeen: false, retryAfterMs })),
    )
    return { withdraw() {} }
  }

  const common: AttemptCommon = {
    countsConnectOnly: name !== 'swap',
    retries: limits.retries,
    send,
    mayRetry: budget.take,
    onRetry: () => observer.onRetry(),
    onOver(outcome, startedAtMs) {
      inFlight -= 1
      observer.onRequest(outcome, nowMs() - startedAtMs)
    },
  }

  return {
    name,
    breaker,
    get inFlight() {
      return inFlight
    },
    get connections() {
      return connections.stats
    },
    dispatch(request, handler) {
      if (inFlight >= inFlightMost) return refuse(handler, 'connection_limit_reached')
      const pass = breaker.admit()
      if (pass === undefined) return refuse(handler, 'breaker_open')
      const startedAtMs = nowMs()
      inFlight += 1
      budget.countRequest(startedAtMs)
      return new Attempt({ request, handler, pass, startedAtMs, common })
    },
    close: () => connections.close(),
  }
}
