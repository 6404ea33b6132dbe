import { Problem } from '../http/problem.ts'
import { type PassThroughOptions, passThrough } from '../upstream/relay.ts'
import {
  bodyInOneGo,
  ClientGone,
  mayComeInOneGo,
  RequestBody,
  requestBody,
} from '../upstream/request-body.ts'
import type { Upstream } from '../upstream/upstream.ts'
import type { Exchange } from './exchange.ts'
import { type RateLimit, rateLimitFields, wasNeverSent } from './rate-limit.ts'
import { untouchedHeaders } from './swap-headers.ts'

export interface PassThroughRouteOptions {
  swap: Upstream
  payments: Upstream | undefined
  webhooks: Upstream | undefined
  paymentsPaths: readonly string[]
  swapHeaders(exchange: Exchange): string[]
  bodyIdleTimeoutMs: number
  stallMs: number
  /** Of the swap side; undefined: none. */
  rateLimit: RateLimit | undefined
  fail(exchange: Exchange, error: unknown): void
}

/** A body that has been looked at already is handed on; else it is the request's own. */
export type PassThroughRoute = (exchange: Exchange, body?: Buffer | RequestBody) => void

/** Sends one exchange to the upstream of its area and streams the answer back. */
export function createPassThroughRoute(options: PassThroughRouteOptions): PassThroughRoute {
  const { bodyIdleTimeoutMs, fail, rateLimit, stallMs, swapHeaders } = options

  return function passThroughRoute(exchange, body) {
    const { request, response, reading } = exchange
    if (!('target' in reading)) throw new Problem('bad-target', { detail: 'There is nothing to ask for.' })
    const upstream = upstreamFor(exchange.area, options)
    const toSwap = upstream === options.swap
    const headers = toSwap ? swapHeaders(exchange) : untouchedHeaders(exchange)
    const onFailure = (error: unknown) => {
      if (wasNeverSent(error)) rateLimit?.giveBack(exchange)
      if (!(error instanceof ClientGone)) fail(exchange, error)
    }
    const send = (bytes: Buffer | RequestBody | null, ownHeaders?: PassThroughOptions['ownHeaders']) =>
      passThrough({
        upstream,
        request,
        response,
        target: reading.target,
        headers,
        stallMs,
        onFailure,
        body: bytes,
        ownHeaders,
      })
    if (!toSwap || rateLimit === undefined) {
      if (body !== undefined || !mayComeInOneGo(request)) {
        send(body ?? requestBody(request, bodyIdleTimeoutMs))
        return
      }
      // In one piece with the head if it is all there, without a stream.
      bodyInOneGo(request, (whole, begun) => {
        if (response.destroyed || response.headersSent) return
        try {
          send(whole ?? new RequestBody(request, bodyIdleTimeoutMs, begun))
        } catch (error) {
          fail(exchange, error)
        }
      })
      return
    }
    const ownHeaders = (received: readonly string[]) => rateLimitFields(exchange, received)
    counted(rateLimit, exchange, body)
      .then(() => {
        if (response.destroyed || response.headersSent) {
          rateLimit.giveBack(exchange)
          return
        }
        send(body ?? requestBody(request, bodyIdleTimeoutMs), ownHeaders)
      })
      .catch((error) => {
        if (!(error instanceof ClientGone)) fail(exchange, error)
      })
  }
}

async function counted(
  rateLimit: RateLimit,
  exchange: Exchange,
  body: Buffer | RequestBody | undefined,
): Promise<void> {
  if (!(body instanceof RequestBody)) return rateLimit.count(exchange)
  // A stream that breaks off while nobody listens to it would end the process.
  const ignore = () => {}
  body.on('error', ignore)
  try {
    await rateLimit.count(exchange)
  } catch (error) {
    body.destroy()
    throw error
  }
  if (!body.errored) return
  rateLimit.giveBack(exchange)
  throw body.errored
}

function upstreamFor(area: Exchange['area'], options: PassThroughRouteOptions): Upstream {
  switch (area) {
    case 'quote':
    case 'float-order':
    case 'order':
    case 'swap':
      return options.swap
    case 'payments':
      if (options.payments) return options.payments
      throw new Problem('no-payments-upstream', {
        detail: 'Set PAYMENTS_BASE_URL to the payments API; PAYMENTS_PATHS says which paths go there.',
      })
    case 'webhooks':
      if (options.webhooks) return options.webhooks
      throw new Problem('no-webhooks-upstream', {
        detail: 'Set WEBHOOKS_BASE_URL to the service that receives webhooks.',
      })
    case 'none':
      throw new Problem('not-found', {
        detail:
          'Here are /v3 and below (the swap API), /webhooks and below, and the payments paths in ' +
          `PAYMENTS_PATHS: ${options.paymentsPaths.join(', ')}. Another payments path has to be added to PAYMENTS_PATHS.`,
      })
  }
}
