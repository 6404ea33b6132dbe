import type { Clients } from '../client/client-address.ts'
import { type Partition, refuseSecondAppName } from '../client/partition.ts'
import { createHeaderPicker, nominatedIn } from '../http/headers.ts'
import { Problem } from '../http/problem.ts'
import type { KeyedRequest, QuoteRequest } from '../quotes/quote-key.ts'
import { readAskedQuote } from '../quotes/quote-target.ts'
import type { Exchange } from '../server/exchange.ts'
import { refuseLoop } from '../server/swap-headers.ts'

export interface QuoteRequestOptions {
  /** QUOTE_KEY_HEADERS, in lower case. */
  keyHeaders: readonly string[]
  /** What SWAP_… supplies where the client sends none, by names in lower case. */
  supplied: ReadonlyMap<string, string>
  clients: Clients
  partitionOf: Partition
  keyOf(request: QuoteRequest): string
}

/** The one place that makes a QuoteRequest out of an HTTP request. It throws a Problem if that is not a quote request. */
export type ReadQuoteRequest = (exchange: Exchange) => KeyedRequest

export function createQuoteRequestReader(options: QuoteRequestOptions): ReadQuoteRequest {
  const { keyHeaders, supplied, partitionOf, keyOf } = options
  const pick = createHeaderPicker(['via', 'connection', ...keyHeaders])
  const firstKeyHeader = 2

  return function readQuoteRequest(exchange) {
    const { rawHeaders } = exchange.request
    const picked = pick(rawHeaders)
    const [via, connection] = picked
    const nominated = nominatedIn(connection)
    if (via !== undefined) refuseLoop(via)
    const keyedHeaders = keyHeaders.map((name, index) => {
      const sent = nominated?.has(name) ? undefined : picked[index + firstKeyHeader]
      const value = sent ?? supplied.get(name)
      if (name === 'app-name' && (value === undefined || unfitName.test(value))) refuseAppName(value)
      return [name, value] as const
    })
    const { target } = exchange
    const asked = readAskedQuote(target)
    if (asked === undefined) throw new Problem('bad-target', { detail: 'This is not the path of a quote.' })
    if (asked.problem !== undefined) {
      throw new Problem('bad-amount', { detail: asked.problem, members: { parameter: 'amount' } })
    }
    const partition = partitionOf(options.clients.identify(exchange), rawHeaders)
    const request: QuoteRequest = {
      pair: asked.pair,
      spelledPath: asked.spelledPath,
      canonicalAmount: asked.canonical,
      keyedHeaders,
      partition,
      query: asked.otherParameters,
      target,
    }
    return { request, key: partition === undefined ? undefined : keyOf(request) }
  }
}

/** Blank, or more than one line. */
const unfitName = /^\s*$|\n/

function refuseAppName(value: string | undefined): void {
  if (value === undefined || value.trim() === '') {
    throw new Problem('app-name-missing', {
      detail: 'The swap API requires an App-Name header: send one, or set SWAP_APP_NAME at the gateway.',
      members: { header: 'App-Name' },
    })
  }
  refuseSecondAppName(value)
}
