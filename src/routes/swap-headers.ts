import type { Clients } from '../client/client-address.ts'
import { refuseSecondAppName } from '../client/partition.ts'
import { claimsClientAddress, formatForwarded } from '../http/forwarded.ts'
import { droppingNames, endToEndHeaders, headerLines, namesQuotegate } from '../http/headers.ts'
import { ownRequestId } from '../http/ids.ts'
import { Problem } from '../http/problem.ts'
import type { Exchange } from '../server/exchange.ts'

/** Sent to the swap upstream where the client sends none. */
export interface SwapDefaults {
  appName: string | undefined
  appVersion: string | undefined
  authorization: string | undefined
}

/** Names the quote of an order, to the gateway alone. */
export const quoteHeader = 'quotegate-quote'

/** By their names in lower case; a map, because a header may be called `constructor`. */
export function suppliedHeaders(defaults: SwapDefaults): ReadonlyMap<string, string> {
  const supplied = new Map<string, string>()
  if (defaults.appName) supplied.set('app-name', defaults.appName)
  if (defaults.appVersion) supplied.set('app-version', defaults.appVersion)
  if (defaults.authorization) supplied.set('authorization', defaults.authorization)
  return supplied
}

/** app-name as App-Name: header names are case-insensitive, but people read them in logs. */
export function wireName(lowerCaseName: string): string {
  return lowerCaseName.replace(/(^|-)[a-z]/g, (start) => start.toUpperCase())
}

/** RFC 9110 7.6.3: two gateways in a row are a mistake here, and a gateway that calls itself would never end. */
export function refuseLoop(viaLines: string | undefined): void {
  if (!namesQuotegate(viaLines)) return
  throw new Problem('loop-detected', {
    detail:
      'Via already names quotegate: the SWAP_BASE_URL of a gateway leads back to a gateway. Correct it.',
    headers: { 'Proxy-Status': 'quotegate; error=proxy_loop_detected' },
  })
}

// Node answers Expect itself, and the upstream has a Host of its own.
const neverForwarded = ['host', 'expect']
const dropsNeverForwarded = droppingNames(neverForwarded)

/** Payments and webhooks: clients sign their exact bytes, so nothing is added and nothing is left out. */
export function untouchedHeaders({ request }: Exchange): string[] {
  return withFewerForwards(request.method, endToEndHeaders(request.rawHeaders, dropsNeverForwarded))
}

/** The swap side: the client's Forwarded is replaced by ours, and what SWAP_… says is supplied. */
export function createSwapHeaders(
  suppliedByName: ReadonlyMap<string, string>,
  /** Headers in lower case that trusted proxies send to the gateway alone. */
  forUsAlone: ReadonlySet<string>,
  clients: Clients,
): (exchange: Exchange) => string[] {
  const supplied = [...suppliedByName].map(([lowerCaseName, value]) => {
    return { lowerCaseName, name: wireName(lowerCaseName), value }
  })

  const dropped = [...neverForwarded, quoteHeader, ...forUsAlone]
  const drops = droppingNames(dropped, claimsClientAddress)
  const dropsRequestIdToo = droppingNames([...dropped, 'x-request-id'], claimsClientAddress)

  return function swapHeaders(exchange) {
    const { rawHeaders, method } = exchange.request
    refuseLoop(headerLines(rawHeaders, 'via'))
    const { id, hasClientsId } = exchange
    const headers = endToEndHeaders(rawHeaders, hasClientsId ? drops : dropsRequestIdToo)
    const appName = headerLines(rawHeaders, 'app-name')
    for (const { lowerCaseName, name, value } of supplied)
      if (headerLines(headers, lowerCaseName) === undefined) headers.push(name, value)
    // Connection may have removed the client's own; the upstream gets it nevertheless.
    headers.push(...ownRequestId(headers, id))
    headers.push('Forwarded', formatForwarded(clients.identify(exchange).address), 'Via', '1.1 quotegate')
    refuseSecondAppName(appName)
    return withFewerForwards(method, headers)
  }
}

// RFC 9110 7.6.2: a gateway that passes an OPTIONS on decrements its Max-Forwards.
function withFewerForwards(method: string | undefined, headers: string[]): string[] {
  if (method !== 'OPTIONS') return headers
  return headers.map((part, index) =>
    index % 2 === 1 && headers[index - 1]?.toLowerCase() === 'max-forwards' && /^[1-9]\d{0,8}$/.test(part)
      ? String(Number(part) - 1)
      : part,
  )
}
