import { claimsClientAddress } from '../client/client-address.ts'
import { Problem } from '../problem.ts'
import { formatForwarded } from '../upstream/forwarded.ts'
import { endToEndHeaders, viaNamesUs } from '../upstream/headers.ts'
import { passThrough } from '../upstream/passthrough.ts'
import type { Upstream } from '../upstream/upstream.ts'
import type { Exchange } from './exchange.ts'

export interface PassThroughRouteOptions {
  swap: Upstream
  payments: Upstream | undefined
  webhooks: Upstream | undefined
  paymentsPaths: readonly string[]
  swapDefaults: SwapDefaults
  bodyIdleTimeoutMs: number
  fail(exchange: Exchange, error: unknown): void
}

/** Sent to the swap upstream when the caller sent none. */
export interface SwapDefaults {
  appName: string | undefined
  appVersion: string | undefined
  authorization: string | undefined
}

/** Sends one exchange to the upstream of its area and streams the answer back. */
export function createPassThroughRoute(options: PassThroughRouteOptions): (exchange: Exchange) => void {
  const { bodyIdleTimeoutMs, fail } = options
  const swapHeaders = createSwapHeaders(options.swapDefaults)

  return function passThroughRoute(exchange) {
    const { request, response, reading } = exchange
    if (!('target' in reading)) throw new Problem('bad-target', { detail: 'There is nothing to ask for.' })
    const upstream = upstreamFor(exchange.area, options)
    passThrough({
      upstream,
      request,
      response,
      target: reading.target,
      headers: upstream === options.swap ? swapHeaders(exchange) : untouchedHeaders(exchange),
      bodyIdleTimeoutMs,
      onFailure: (error) => fail(exchange, error),
    })
  }
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

// Node answers Expect itself, and the upstream's Host is the upstream's.
const dropsFraming = (name: string) => name === 'host' || name === 'expect'

/** Payments and webhooks: signed over their exact bytes, so nothing is added and nothing is missing. */
function untouchedHeaders({ request }: Exchange): string[] {
  return withFewerForwards(request.method, endToEndHeaders(request.rawHeaders, dropsFraming))
}

function createSwapHeaders(defaults: SwapDefaults): (exchange: Exchange) => string[] {
  const supplied: [lowerCaseName: string, name: string, value: string][] = []
  if (defaults.appName) supplied.push(['app-name', 'App-Name', defaults.appName])
  if (defaults.appVersion) supplied.push(['app-version', 'App-Version', defaults.appVersion])
  if (defaults.authorization) supplied.push(['authorization', 'Authorization', defaults.authorization])

  return function swapHeaders(exchange) {
    const { rawHeaders, method } = exchange.request
    if (viaNamesUs(rawHeaders)) {
      throw new Problem('loop-detected', {
        detail: 'Via already names quotegate: its SWAP_BASE_URL leads back to a quotegate.',
        headers: { 'Proxy-Status': 'quotegate; error=proxy_loop_detected' },
      })
    }
    const seen = new Set<string>()
    const { id, callersId } = exchange
    const headers = endToEndHeaders(rawHeaders, (name) => {
      if (dropsFraming(name) || claimsClientAddress(name)) return true
      seen.add(name)
      return name === 'x-request-id' && !callersId
    })
    for (const [lowerCaseName, name, value] of supplied)
      if (!seen.has(lowerCaseName)) headers.push(name, value)
    if (!callersId) headers.push('X-Request-Id', id)
    headers.push('Forwarded', formatForwarded(exchange.client.address), 'Via', '1.1 quotegate')
    return withFewerForwards(method, headers)
  }
}

// RFC 9110 7.6.2: whoever passes an OPTIONS on counts its Max-Forwards down.
function withFewerForwards(method: string | undefined, headers: string[]): string[] {
  if (method !== 'OPTIONS') return headers
  return headers.map((part, index) =>
    index % 2 === 1 && headers[index - 1]?.toLowerCase() === 'max-forwards' && /^[1-9]\d{0,8}$/.test(part)
      ? String(Number(part) - 1)
      : part,
  )
}
