import { hasBody } from '../http/answer.ts'
import { ClientGone } from '../http/failure.ts'
import { mayBeVersioned } from '../http/fold-path.ts'
import { ownRequestId } from '../http/headers.ts'
import { Problem } from '../http/problem.ts'
import { type UpstreamName, upstreamTable } from '../http/upstreams.ts'
import { isSurelyLong, type RequestBodies } from '../upstream/body.ts'
import { relay } from '../upstream/relay.ts'
import { RequestBody, type SentBody } from '../upstream/request-body.ts'
import type { Upstream } from '../upstream/upstream.ts'
import type { Exchange } from './exchange.ts'
import { type RateLimit, rateLimitFields } from './rate-limit.ts'
import { type SwapHeaders, untouchedHeaders } from './swap-headers.ts'

interface PassThroughParts {
  config: { upstreams: { payments: { paths: readonly string[] } } }
  /** Undefined: the upstream has no base URL. */
  upstreams: Readonly<Record<UpstreamName, Upstream | undefined>>
  swapHeaders: SwapHeaders
  bodies: RequestBodies
  /** Limits requests to the swap API. Undefined: RATE_LIMIT_PER_MINUTE is 0. */
  rateLimit: RateLimit | undefined
}

interface OrderToPass {
  /** For the swap API. */
  readonly headers: string[]
  readonly body: SentBody
  /** As in UpstreamRequest. */
  readonly recheckInMs: () => number
}

export class PassThroughRoute {
  readonly #parts: PassThroughParts

  constructor(parts: PassThroughParts) {
    this.#parts = parts
  }

  async answer(exchange: Exchange, order?: OrderToPass): Promise<void> {
    const { bodies, swapHeaders } = this.#parts
    const { request, response, reading } = exchange
    if (!('target' in reading))
      throw new Problem('bad-target', { detail: 'The target "*" is not relayed.' })
    const upstream = this.#upstreamFor(reading.upstream, reading.path)
    const isSwap = upstreamTable[upstream.name].requests === 'by-kind'
    const rateLimit = isSwap ? this.#parts.rateLimit : undefined
    const kind = order === undefined ? 'other' : 'order'
    const headers =
      order?.headers ??
      (isSwap ? swapHeaders.of(exchange, { isOrder: false }) : untouchedHeaders(exchange))
    const ownHeaders = (answered: readonly string[]) => [
      ...(order === undefined ? [] : ownRequestId(answered, exchange.id)),
      ...rateLimitFields(exchange, answered),
    ]
    let body = order?.body ?? null
    try {
      if (rateLimit !== undefined) await rateLimit.count(exchange)
      if (body instanceof RequestBody && body.errored) throw body.errored
      if (isOver(exchange)) return drop(body, exchange)
      if (order === undefined && hasBody(request)) {
        // Checked before the body is read: a client that waits for `100 Continue` need not send its body for nothing.
        upstream.throwIfKeptBack(kind, { bodyStreams: isSurelyLong(request) })
        body = (await bodies.read(request, response, { isJudged: false })).body
        if (isOver(exchange)) return drop(body, exchange)
      }
      await relay({
        upstream,
        request,
        response,
        target: reading.target,
        kind,
        method: request.method ?? 'GET',
        headers,
        body,
        recheckInMs: order?.recheckInMs,
        ownHeaders: isSwap ? ownHeaders : undefined,
        times: exchange.asksUpstream(),
        cause: exchange,
      })
    } catch (error) {
      if (!(error instanceof ClientGone)) throw error
    }
  }

  #upstreamFor(name: UpstreamName | undefined, path: string): Upstream {
    if (name === undefined) {
      const { config, upstreams } = this.#parts
      const { paths } = config.upstreams.payments
      const webhooks = upstreams.webhooks === undefined ? '' : ', /webhooks/*'
      const detail = mayBeVersioned(path)
        ? 'This gateway serves only version /v3 of the swap API, in exactly this spelling. Paths below another ' +
          '/v<number> are never sent, whatever PAYMENTS_PATHS lists.'
        : `This gateway serves /v3/* (swap API)${webhooks}, and the payments paths in PAYMENTS_PATHS: ` +
          `${paths.join(', ')}. Add another payments path to PAYMENTS_PATHS. The console, /metrics and /healthz are ` +
          'on the operations port (ADMIN_PORT).'
      throw new Problem('not-found', { detail })
    }
    const upstream = this.#parts.upstreams[name]
    if (upstream !== undefined) return upstream
    const { slug, detail } = upstreamTable[name].missing
    throw new Problem(slug, { detail })
  }
}

function isOver({ response }: Exchange): boolean {
  return response.destroyed || response.headersSent
}

function drop(unsent: SentBody | null, { request }: Exchange): void {
  if (!(unsent instanceof RequestBody)) return
  unsent.destroy()
  request.resume()
}
