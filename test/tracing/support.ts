import type { ServerResponse } from 'node:http'
import { ask, giveQuote } from '../support/clients/quotes.ts'
import { gatewayTo, recordingUpstream } from '../support/gateways/between.ts'
import { startCollector, tracedTo } from '../support/observing/collector.ts'

export const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
export const spanId = '00f067aa0ba902b7'
export const traceparent = (flags: string) => `00-${traceId}-${spanId}-${flags}`

/** A gateway of which everything is traced unless the settings say otherwise. */
export async function traced(
  settings: Record<string, string | number> = {},
  collected?: (response: ServerResponse) => void,
) {
  const collector = await startCollector(collected)
  const upstream = await recordingUpstream(({ target }, response) => {
    if (target.includes('/quotes')) giveQuote(response)
    else response.end('{}')
  })
  const gateway = await gatewayTo(upstream.url, {
    WEBHOOKS_BASE_URL: upstream.url,
    ...tracedTo(collector),
    ...settings,
  })
  return { collector, upstream, gateway }
}

export function sendOrder(
  url: string,
  { path = '/v3/orders/float', headers = [] as string[] } = {},
) {
  const body = JSON.stringify({ pairId: 'ETH_USDC', fromAmount: 0.1, toAmount: 289.645 })
  const all = ['App-Name', 'wallet', 'Content-Type', 'application/json', ...headers]
  return ask(url, { path, method: 'POST', headers: all, body })
}

/** The values of one header as the upstream received it. */
export function valuesOf(
  { rawHeaders = [] as string[] } = {},
  name: string,
): (string | undefined)[] {
  return rawHeaders.flatMap((header, at) =>
    at % 2 === 0 && header.toLowerCase() === name ? [rawHeaders[at + 1]] : [],
  )
}
