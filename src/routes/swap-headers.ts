import { claimsClientAddress } from '../http/client-address-headers.ts'
import { formatForwarded } from '../http/forwarded.ts'
import { endToEndHeaders, headerLines, lineBreak, viaNamesUs } from '../http/headers.ts'
import { Problem } from '../http/problem.ts'
import type { Exchange } from './exchange.ts'

/** Sent to the swap upstream when the caller sent none. */
export interface SwapDefaults {
  appName: string | undefined
  appVersion: string | undefined
  authorization: string | undefined
}

/** By their names in lower case; a map, because a header may be called `constructor`. */
export function suppliedHeaders(defaults: SwapDefaults): ReadonlyMap<string, string> {
  const supplied = new Map<string, string>()
  if (defaults.appName) supplied.set('app-name', defaults.appName)
  if (defaults.appVersion) supplied.set('app-version', defaults.appVersion)
  if (defaults.authorization) supplied.set('authorization', defaults.authorization)
  return supplied
}

/** app-name as App-Name: names are case-insensitive, but not to every reader of logs. */
export function wireName(lowerCaseName: string): string {
  return lowerCaseName.replace(/(^|-)[a-z]/g, (start) => start.toUpperCase())
}

/** RFC 9110 7.6.3: two gateways in a row are a mistake here, and one that calls itself would never end. */
export function refuseLoop(rawHeaders: readonly string[]): void {
  if (!viaNamesUs(rawHeaders)) return
  throw new Problem('loop-detected', {
    detail: 'Via already names quotegate: its SWAP_BASE_URL leads back to a quotegate.',
    headers: { 'Proxy-Status': 'quotegate; error=proxy_loop_detected' },
  })
}

/** Limits, the ledger and the provider would each take another of them for the one that counts. */
export function refuseSecondAppName(appNames: string | undefined): void {
  if (!appNames?.includes(lineBreak)) return
  throw new Problem('malformed-request', { detail: 'There is more than one App-Name header.' })
}

// Node answers Expect itself, and the upstream's Host is the upstream's.
const dropsFraming = (name: string) => name === 'host' || name === 'expect'

/** Payments and webhooks: signed over their exact bytes, so nothing is added and nothing is missing. */
export function untouchedHeaders({ request }: Exchange): string[] {
  return withFewerForwards(request.method, endToEndHeaders(request.rawHeaders, dropsFraming))
}

/** The swap side: the client's word about itself is replaced by ours, and what the team lends is supplied. */
export function createSwapHeaders(
  defaults: SwapDefaults,
  /** What trusted peers say of a client to us alone, in lower case. */
  saidToUs: ReadonlySet<string>,
): (exchange: Exchange) => string[] {
  const supplied = [...suppliedHeaders(defaults)].map(([lowerCaseName, value]) => {
    return { lowerCaseName, name: wireName(lowerCaseName), value }
  })

  return function swapHeaders(exchange) {
    const { rawHeaders, method } = exchange.request
    refuseLoop(rawHeaders)
    refuseSecondAppName(headerLines(rawHeaders, 'app-name'))
    const seen = new Set<string>()
    const { id, callersId } = exchange
    const headers = endToEndHeaders(rawHeaders, (name) => {
      if (dropsFraming(name) || claimsClientAddress(name) || saidToUs.has(name)) return true
      seen.add(name)
      return name === 'x-request-id' && !callersId
    })
    for (const { lowerCaseName, name, value } of supplied)
      if (!seen.has(lowerCaseName)) headers.push(name, value)
    // Connection may have taken the caller's own away; the upstream is given it all the same.
    if (!callersId || !seen.has('x-request-id')) headers.push('X-Request-Id', id)
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
