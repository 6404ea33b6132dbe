import { hash, randomBytes } from 'node:crypto'
import type { Users } from '../client/client-address.ts'
import type { Partition } from '../client/partition.ts'
import { lineBreak, linesOf, nominatedIn, wireName } from '../http/headers.ts'
import { formatForwarded } from '../http/ip-address.ts'
import { Problem } from '../http/problem.ts'
import type { Exchange } from '../server/exchange.ts'
import { refuseLoop, secondAppName, traceHeaders } from '../server/swap-headers.ts'
import type { PriceKind } from './price-kinds.ts'

/** What a caller wants a quote for. */
export interface QuoteRequest {
  pair: string
  /**
   * The path as received, if it is not the plain spelling of the pair. Part of the key, because the provider may treat
   * escapes and case in its own way.
   */
  spelledPath?: string | undefined
  canonicalAmount: string
  /** In the order of QUOTE_KEY_HEADERS: names in lower case, values as the provider receives them. */
  keyedHeaders: readonly (readonly [name: string, value: string | undefined])[]
  /** Requests of one partition may share a quote. Undefined: the request shares none. */
  partition: string | undefined
  /** App-Name as the provider receives it. */
  application: string
  /** As the provider receives it; empty: the request has none. */
  authorization: string
  /** Query parameters that tell quotes apart besides the amount, as sent. */
  query: string
  /** As received, and as sent to the provider. */
  target: string
  /** Undefined: the provider gets for=unknown. */
  address: string | undefined
  /** The cache key. Undefined: the quote is not shared. */
  key: string | undefined
}

/** A QuoteRequest without what says who sent it. */
export type KeyedRequest = Omit<
  QuoteRequest,
  'application' | 'authorization' | 'address' | 'key'
>

export interface RequestReaderParts {
  config: { quotes: { keyHeaders: readonly string[] } }
  users: Pick<Users, 'identify'>
  partitionOf: Partition
  /** Headers that SWAP_… supplies if the caller sends none, by name in lower case. */
  supplied: ReadonlyMap<string, string>
  /** The store that replicas share. Undefined: VALKEY_URL is not set. */
  sharedStore: { readonly salt: string } | undefined
}

export class QuoteRequestReader {
  readonly #parts: RequestReaderParts
  readonly #priceKind: PriceKind
  /** Replicas with one store have one salt. Otherwise they would miss each other's quotes. */
  readonly #salt: string
  readonly #keyHeaders: readonly string[]
  readonly #wireNames: readonly string[]
  /** Via, Connection and QUOTE_KEY_HEADERS. */
  readonly #read: readonly string[]

  constructor(parts: RequestReaderParts, priceKind: PriceKind) {
    const { keyHeaders } = parts.config.quotes
    this.#parts = parts
    this.#priceKind = priceKind
    this.#salt = parts.sharedStore?.salt ?? randomBytes(32).toString('base64url')
    this.#keyHeaders = keyHeaders
    this.#wireNames = keyHeaders.map(wireName)
    this.#read = ['via', 'connection', ...keyHeaders]
  }

  read(exchange: Exchange): QuoteRequest {
    const { partitionOf, supplied, users } = this.#parts
    const { rawHeaders } = exchange.request
    const [via, connection, ...keyed] = linesOf(rawHeaders, this.#read)
    const nominated = nominatedIn(connection)
    if (via !== undefined) refuseLoop(via)
    let application = ''
    let authorization = supplied.get('authorization') ?? ''
    const keyedHeaders = this.#keyHeaders.map((name, index) => {
      const sent = nominated?.has(name) ? undefined : keyed[index]
      const value = sent ?? supplied.get(name)
      if (name === 'app-name') {
        application = value ?? ''
        if (application.trim() === '' && this.#priceKind.needsAppName)
          throw new Problem('app-name-missing', noAppName)
        if (application.includes(lineBreak)) throw secondAppName()
      }
      if (name === 'authorization') authorization = value ?? ''
      return [name, value] as const
    })
    const { reading, target } = exchange
    const wanted = this.#priceKind.in(reading)
    if (wanted === undefined)
      throw new Problem('bad-target', { detail: 'This is not the path of a quote.' })
    if (wanted.problem !== undefined) {
      throw new Problem('bad-amount', {
        detail: wanted.problem,
        members: { parameter: 'amount' },
      })
    }
    const user = exchange.identify(users)
    const request: QuoteRequest = {
      pair: wanted.pair,
      spelledPath: wanted.spelledPath,
      canonicalAmount: wanted.canonical,
      keyedHeaders,
      partition: partitionOf(user, rawHeaders),
      application,
      authorization,
      query: wanted.otherParameters,
      target,
      address: user.address,
      key: undefined,
    }
    if (request.partition !== undefined) request.key = keyOf(request, this.#salt)
    return request
  }

  /** The request id and trace context come from the exchange that caused the call. */
  headersOf({ keyedHeaders, address }: QuoteRequest, exchange: Exchange): string[] {
    const headers: string[] = []
    for (const [index, [name, value]] of keyedHeaders.entries()) {
      if (value === undefined) continue
      for (const line of value.split(lineBreak))
        headers.push(this.#wireNames[index] ?? name, line)
    }
    // Supplied headers are sent even if they are not part of the key.
    for (const [name, value] of this.#parts.supplied)
      if (!this.#keyHeaders.includes(name)) headers.push(wireName(name), value)
    headers.push('Accept', 'application/json', 'Accept-Encoding', 'identity')
    headers.push(...traceHeaders(exchange), 'X-Request-Id', exchange.id)
    headers.push('Forwarded', formatForwarded(address), 'Via', '1.1 quotegate')
    return headers
  }
}

const noAppName = {
  detail:
    'The swap API requires an App-Name header: send one, or set SWAP_APP_NAME at the gateway.',
  members: { header: 'App-Name' },
}

/**
 * Two requests have the same key if and only if one quote may answer both. The target is not part of it, because it
 * only spells the other parts. The key is a digest: headers may be secret, others can read the shared store, and the
 * ledger bounds the number of keys, not their bytes.
 */
export function keyOf(
  { pair, spelledPath, canonicalAmount, keyedHeaders, partition, query }: KeyedRequest,
  salt: string,
): string {
  const path = spelledPath === undefined ? field(pair) : `/${field(spelledPath)}`
  let text = salt + path + field(canonicalAmount) + field(partition ?? '') + field(query)
  for (const [name, value] of keyedHeaders)
    text += field(name) + (value === undefined ? '-' : field(value))
  return hash('sha256', text, 'base64url')
}

/** The length in front delimits each part: no byte of a request can imitate a boundary. */
function field(value: string): string {
  return `${value.length}:${value}`
}
