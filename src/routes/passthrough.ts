import type { IncomingMessage } from 'node:http'
import { ClientGone } from '../http/failure.ts'
import { mayBeVersioned } from '../http/fold-path.ts'
import { ownRequestId } from '../http/ids.ts'
import { Problem } from '../http/problem.ts'
import { type UpstreamName, upstreamTable } from '../http/upstreams.ts'
import { type Exchange, UpstreamTimes } from '../server/exchange.ts'
import { hasBody, isSurelyLong, type RequestBodies } from '../upstream/body.ts'
import { relay } from '../upstream/relay.ts'
import { RequestBody, type SentBody } from '../upstream/request-body.ts'
import type { Upstream } from '../upstream/upstream.ts'
import { type RateLimit, rateLimitFields } from './rate-limit.ts'
import { untouchedHeaders } from './swap-headers.ts'
import { traceOf, withTraceHeaders } from './trace-headers.ts'

interface PassThroughRouteOptions {
  /** Undefined: it has no base URL. */
  upstreams: Readonly<Record<UpstreamName, Upstream | undefined>>
  /** For people whose path goes nowhere. */
  paymentsPaths: readonly string[]
  swapHeaders(exchange: Exchange): string[]
  bodies: RequestBodies
  stallMs: number
  /** How long a request to the swap API may wait for a connection. */
  swapWaitMs: number
  /** Of the swap side; undefined: none. */
  rateLimit: RateLimit | undefined
}

/** `body`: what a route has read of the request already. Without it, the request's own. */
export type PassThroughRoute = (exchange: Exchange, body?: SentBody) => Promise<void>

/** Sends one exchange to the upstream of its area and streams the answer back. */
export function createPassThroughRoute(options: PassThroughRouteOptions): PassThroughRoute {
  const { bodies, stallMs, swapHeaders, swapWaitMs } = options

  return async function passThroughRoute(exchange, body) {
    const { request, response, reading } = exchange
    if (!('target' in reading)) throw new Problem('bad-target', { detail: 'The target "*" is not relayed.' })
    const upstream = upstreamFor(reading)
    const isSwap = upstreamTable[upstream.name].headers === 'swap'
    const rateLimit = isSwap ? options.rateLimit : undefined
    const isOrder = reading.area === 'order' && request.method === 'POST'
    const kind = isOrder ? 'order' : 'other'
    const received = isSwap ? swapHeaders(exchange) : untouchedHeaders(exchange)
    let sent: SentBody | null = body ?? null
    try {
      if (rateLimit !== undefined) await counted(rateLimit, exchange, body)
      const isOver = () => response.destroyed || response.headersSent
      if (body === undefined && !isOver() && hasBody(request)) {
        // Asked before the body: a client that waits for `100 Continue` sends none that would not be taken.
        upstream.mustTake(kind, { bodyStreams: isSurelyLong(request) })
        sent = (await bodies.read(request, response, { isJudged: false })).body
      }
      if (isOver()) {
        drop(sent, request)
        return
      }
      const times = new UpstreamTimes()
      exchange.times = times
      await relay({
        upstream,
        request,
        response,
        target: reading.target,
        kind,
        headers: isOrder ? withTraceHeaders(received, exchange) : received,
        body: sent,
        connectByMs: isSwap ? performance.now() + swapWaitMs : undefined,
        stallMs,
        ownHeaders:
          isOrder || rateLimit !== undefined
            ? (answered) => [
                ...(isOrder ? ownRequestId(answered, exchange.id) : []),
                ...rateLimitFields(exchange, answered),
              ]
            : undefined,
        times,
        trace: traceOf(exchange, isOrder),
      })
    } catch (error) {
      // No client is left to be answered.
      if (!(error instanceof ClientGone)) throw error
    }
  }

  function upstreamFor({
    upstream: name,
    path,
  }: {
    upstream: UpstreamName | undefined
    path: string
  }): Upstream {
    if (name === undefined && mayBeVersioned(path)) {
      throw new Problem('not-found', {
        detail:
          'This gateway serves only version /v3 of the swap API, in exactly this spelling. Paths below another ' +
          '/v<number> are never sent, whatever PAYMENTS_PATHS lists.',
      })
    }
    if (name === undefined) {
      throw new Problem('not-found', {
        detail:
          'This gateway serves /v3/* (swap API), /webhooks/*, and the payments paths in PAYMENTS_PATHS: ' +
          `${options.paymentsPaths.join(', ')}. Add another payments path to PAYMENTS_PATHS.`,
      })
    }
    const upstream = options.upstreams[name]
    if (upstream !== undefined) return upstream
    const { slug, detail } = upstreamTable[name].missing
    throw new Problem(slug, { detail })
  }
}

/** The client has left, or has its answer. */
function drop(unsent: SentBody | null, request: IncomingMessage): void {
  if (!(unsent instanceof RequestBody)) return
  unsent.destroy()
  request.resume()
}

async function counted(rateLimit: RateLimit, exchange: Exchange, body: SentBody | undefined): Promise<void> {
  try {
    await rateLimit.count(exchange)
  } catch (error) {
    if (body instanceof RequestBody) body.destroy()
    throw error
  }
  if (body instanceof RequestBody && body.errored) throw body.errored
}
