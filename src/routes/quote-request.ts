import { formatForwarded } from '../http/forwarded.ts'
import { headerLines, headerValues, lineBreak, nominatedHeaders } from '../http/headers.ts'
import { Problem } from '../http/problem.ts'
import type { QuoteRequest } from '../quotes/quote-key.ts'
import type { Exchange } from './exchange.ts'
import { refuseSecondAppName, type SwapDefaults, suppliedHeaders, wireName } from './swap-headers.ts'

export type KeyedHeaders = QuoteRequest['keyedHeaders']

export interface QuoteHeaders {
  /** The client's headers that the upstream will see, every one of which is part of the key. */
  keyed(exchange: Exchange): KeyedHeaders
  /** App-Name as the upstream sees it. */
  application(exchange: Exchange): string | undefined
  /** All headers of a quote call; the request id and trace context are those of whoever caused it. */
  call(keyed: KeyedHeaders, exchange: Exchange): string[]
}

export function createQuoteHeaders(keyHeaders: readonly string[], defaults: SwapDefaults): QuoteHeaders {
  const supplied = suppliedHeaders(defaults)

  return {
    application({ request: { rawHeaders } }) {
      return headerLines(rawHeaders, 'app-name') ?? defaults.appName
    },
    keyed({ request: { rawHeaders } }) {
      const nominated = nominatedHeaders(rawHeaders)
      return keyHeaders.map((name) => {
        const sent = nominated?.has(name) ? undefined : headerLines(rawHeaders, name)
        const value = sent ?? supplied.get(name)
        if (name === 'app-name' && (value === undefined || value.trim() === '')) {
          throw new Problem('app-name-missing', {
            detail: 'The swap API wants to know the application: send App-Name, or set SWAP_APP_NAME.',
            members: { header: 'App-Name' },
          })
        }
        if (name === 'app-name') refuseSecondAppName(value)
        return [name, value]
      })
    },
    call(keyed, exchange) {
      const headers: string[] = []
      for (const [name, value] of keyed) {
        if (value === undefined) continue
        for (const line of value.split(lineBreak)) headers.push(wireName(name), line)
      }
      // What the team lends goes along even where it tells no two clients apart.
      for (const [name, value] of supplied)
        if (!keyHeaders.includes(name)) headers.push(wireName(name), value)
      headers.push('Accept', 'application/json', 'Accept-Encoding', 'identity')
      for (const name of ['traceparent', 'tracestate']) {
        for (const value of headerValues(exchange.request.rawHeaders, name)) headers.push(name, value)
      }
      headers.push('X-Request-Id', exchange.id)
      headers.push('Forwarded', formatForwarded(exchange.client.address), 'Via', '1.1 quotegate')
      return headers
    },
  }
}
