import { Problem } from '../http/problem.ts'
import { ownRequestId } from '../http/request-ids.ts'
import { type UpstreamName, upstreamTable } from '../http/upstreams.ts'
import { mayBeVersioned } from '../http/version-path.ts'
import { hasBody, isSurelyLong, readBodyStart } from '../upstream/body-start.ts'
import type { HeldBodies } from '../upstream/held-bodies.ts'
import { type RelayOwner, relay } from '../upstream/relay.ts'
import { ClientGone, RequestBody } from '../upstream/request-body.ts'
import type { SentBody, Upstream } from '../upstream/types.ts'
import type { Exchange, Exchanges } from './exchange.ts'
import { type RateLimit, rateLimitFields } from './rate-limit.ts'
import { untouchedHeaders } from './swap-headers.ts'
import { traceOf, withTraceHeaders } from './trace-headers.ts'
import { UpstreamTimes } from './upstream-times.ts'

export interface PassThroughRouteOptions {
  /** Undefined: it has no base URL. */
  upstreams: Readonly<Record<UpstreamName, Upstream | undefined>>
  /** For people whose path goes nowhere. */
  paymentsPaths: readonly string[]
  swapHeaders(exchange: Exchange): string[]
  bodyIdleTimeoutMs: number
  heldBodies: HeldBodies
  stallMs: number
  /** How long a request to the swap API may wait for a connection. */
  swapWaitMs: number
  /** Of the swap side; undefined: none. */
  rateLimit: RateLimit | undefined
  exchanges: Pick<Exchanges, 'fail'>
}

/**
 * `body`: what a route has read of the request already. Without it, the request's own. `explain` turns the failure of
 * the upstream into what the client is answered.
 */
export type PassThroughRoute = (
  exchange: Exchange,
  body?: SentBody,
  explain?: (error: unknown) => unknown,
) => void

/** Sends one exchange to the upstream of its area and streams the answer back. */
export function createPassThroughRoute(options: PassThroughRouteOptions): PassThroughRoute {
  const { bodyIdleTimeoutMs, exchanges, heldBodies, stallMs, swapHeaders, swapWaitMs } = options

  return function passThroughRoute(exchange, body, explain = unchanged) {
    const { request, response, reading } = exchange
    if (!('target' in reading)) throw new Problem('bad-target', { detail: 'The target "*" is not relayed.' })
    const upstream = upstreamFor(reading)
    const isSwap = upstreamTable[upstream.name].headers === 'swap'
    const rateLimit = isSwap ? options.rateLimit : undefined
    const { target, area } = reading
    const isOrder = area === 'order' && request.method === 'POST'
    const received = isSwap ? swapHeaders(exchange) : untouchedHeaders(exchange)
    const headers = isOrder ? withTraceHeaders(received, exchange) : received
    const owner: RelayOwner = {
      ownHeaders:
        isOrder || rateLimit !== undefined
          ? (received) => [
              ...(isOrder ? ownRequestId(received, exchange.id) : []),
              ...rateLimitFields(exchange, received),
            ]
          : undefined,
      sent() {
        exchange.upstreamTimes?.sent()
      },
      answerBegan() {
        exchange.upstreamTimes?.began()
      },
      failed(error) {
        if (!(error instanceof ClientGone)) exchanges.fail(exchange, explain(error))
      },
    }
    const kind = isOrder ? 'order' : 'other'
    const trace = traceOf(exchange, isOrder)
    function send(sent: SentBody | null): void {
      exchange.upstreamTimes = new UpstreamTimes()
      const connectByMs = isSwap ? performance.now() + swapWaitMs : undefined
      const how = { kind, target, headers, connectByMs, stallMs, owner, trace, body: sent } as const
      relay({ upstream, request, response, ...how })
    }
    function readAndSend(): void {
      if (body !== undefined || !hasBody(request)) {
        send(body ?? null)
        return
      }
      // Asked before the body: a client that waits for `100 Continue` sends none that would not be taken.
      const refusal = upstream.refusal(kind, { bodyStreams: isSurelyLong(request) })
      if (refusal !== undefined) {
        owner.failed(refusal)
        return
      }
      readBodyStart(
        request,
        { response, idleTimeoutMs: bodyIdleTimeoutMs, isJudged: false, held: heldBodies },
        (error, start) => {
          if (error !== undefined) owner.failed(error)
          else if (response.destroyed || response.headersSent) drop(start.body)
          else orFail(() => send(start.body))
        },
      )
    }
    /** The client has left, or has its answer. */
    function drop(unsent: SentBody | undefined): void {
      if (!(unsent instanceof RequestBody)) return
      unsent.destroy()
      request.resume()
    }
    function orFail(act: () => void): void {
      try {
        act()
      } catch (error) {
        exchanges.fail(exchange, error)
      }
    }
    if (rateLimit === undefined) {
      readAndSend()
      return
    }
    counted(rateLimit, exchange, body).then(
      () => {
        if (response.destroyed || response.headersSent) drop(body)
        else orFail(readAndSend)
      },
      (error) => {
        if (!(error instanceof ClientGone)) exchanges.fail(exchange, error)
      },
    )
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

const unchanged = (error: unknown) => error

async function counted(rateLimit: RateLimit, exchange: Exchange, body: SentBody | undefined): Promise<void> {
  if (!(body instanceof RequestBody)) return rateLimit.count(exchange)
  // A stream that breaks off without a listener would end the process.
  const ignore = () => {}
  body.on('error', ignore)
  try {
    await rateLimit.count(exchange)
  } catch (error) {
    body.destroy()
    throw error
  }
  if (body.errored) throw body.errored
}
