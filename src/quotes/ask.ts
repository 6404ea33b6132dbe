import { hash, randomBytes } from 'node:crypto'
import type { Clients } from '../client/client-address.ts'
import type { Partition } from '../client/partition.ts'
import { lineBreak, linesOf, nominatedIn, wireName } from '../http/headers.ts'
import { formatForwarded } from '../http/ip-address.ts'
import { Problem } from '../http/problem.ts'
import type { Exchange } from '../server/exchange.ts'
import { refuseLoop, secondAppName, traceHeaders } from '../server/swap-headers.ts'

/** What a client asks for: all that tells its quote from others. */
export interface Ask {
  /** The pair that the path means. */
  pair: string
  /**
   * The path as received, if it is not the plain spelling of the pair. It is part of the key, because it is not known
   * how the upstream treats escapes and case.
   */
  spelledPath?: string | undefined
  canonicalAmount: string
  /** In the order of QUOTE_KEY_HEADERS, names in lower case, values as the upstream receives them. */
  keyedHeaders: readonly (readonly [name: string, value: string | undefined])[]
  /** Clients with the same partition may share a quote. Undefined: this client shares with no other client. */
  partition: string | undefined
  /** App-Name as the upstream receives it. */
  application: string
  /** As the upstream receives it; empty: none. */
  authorization: string
  /** The query parameters that tell quotes apart besides the amount, as sent. */
  query: string
  /** The request target as received. The upstream receives the same target. */
  target: string
  /** Undefined: the provider receives `unknown`, from all clients without an address alike. */
  address: string | undefined
  /** Undefined: this client does not share quotes. */
  key: string | undefined
}

/** An Ask without whose it is. */
export type KeyedAsk = Omit<Ask, 'application' | 'authorization' | 'address' | 'key'>

export interface AsksParts {
  config: { quotes: { keyHeaders: readonly string[] } }
  clients: Pick<Clients, 'identify'>
  partitionOf: Partition
  /** What SWAP_… supplies where the client sends none, by names in lower case. */
  supplied: ReadonlyMap<string, string>
  /** The store that replicas share. Undefined: VALKEY_URL is not set. */
  sharedStore: { readonly salt: string } | undefined
}

/** Makes an Ask out of an HTTP request, and the headers of a quote call out of an Ask. */
export class Asks {
  readonly #parts: AsksParts
  /** Replicas that share a store need the same one, or they miss each other's quotes. */
  readonly #salt: string
  readonly #keyHeaders: readonly string[]
  readonly #wireNames: readonly string[]
  /** What is supplied goes out also where it is not part of the key. */
  readonly #alwaysSupplied: readonly string[]
  /** Via, Connection, and the keyed ones. */
  readonly #read: readonly string[]

  constructor(parts: AsksParts) {
    const { keyHeaders } = parts.config.quotes
    this.#parts = parts
    this.#salt = parts.sharedStore?.salt ?? randomBytes(32).toString('base64url')
    this.#keyHeaders = keyHeaders
    this.#wireNames = keyHeaders.map(wireName)
    this.#alwaysSupplied = [...parts.supplied].flatMap(([name, value]) =>
      keyHeaders.includes(name) ? [] : [wireName(name), value],
    )
    this.#read = ['via', 'connection', ...keyHeaders]
  }

  /** Throws a Problem if that is not a quote request. */
  read(exchange: Exchange): Ask {
    const { clients, partitionOf, supplied } = this.#parts
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
        if (value === undefined || value.trim() === '')
          throw new Problem('app-name-missing', noAppName)
        if (value.includes(lineBreak)) throw secondAppName()
        application = value
      }
      if (name === 'authorization') authorization = value ?? ''
      return [name, value] as const
    })
    const { reading, target } = exchange
    const asked = 'quote' in reading ? reading.quote : undefined
    if (asked === undefined)
      throw new Problem('bad-target', { detail: 'This is not the path of a quote.' })
    if (asked.problem !== undefined) {
      throw new Problem('bad-amount', {
        detail: asked.problem,
        members: { parameter: 'amount' },
      })
    }
    const client = exchange.identify(clients)
    const ask: Ask = {
      pair: asked.pair,
      spelledPath: asked.spelledPath,
      canonicalAmount: asked.canonical,
      keyedHeaders,
      partition: partitionOf(client, rawHeaders),
      application,
      authorization,
      query: asked.otherParameters,
      target,
      address: client.address,
      key: undefined,
    }
    if (ask.partition !== undefined) ask.key = keyOf(ask, this.#salt)
    return ask
  }

  /** All headers of a quote call. Its request id and trace context come from the exchange that caused it. */
  headersOf({ keyedHeaders, address }: Ask, exchange: Exchange): string[] {
    const headers: string[] = []
    keyedHeaders.forEach(([name, value], index) => {
      const wireName = this.#wireNames[index] ?? name
      for (const line of value?.split(lineBreak) ?? []) headers.push(wireName, line)
    })
    headers.push(
      ...this.#alwaysSupplied,
      'Accept',
      'application/json',
      'Accept-Encoding',
      'identity',
    )
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
 * Two requests have the same key if and only if the same quote may answer both. The target is not part of the key,
 * because it is only another spelling of the other parts. A digest: headers may be secret, others can read the store that
 * replicas share, and the ledger bounds the number of keys, not their bytes.
 */
export function keyOf(
  { pair, spelledPath, canonicalAmount, keyedHeaders, partition, query }: KeyedAsk,
  salt: string,
): string {
  const asked = spelledPath === undefined ? field(pair) : `/${field(spelledPath)}`
  let text = salt + asked + field(canonicalAmount) + field(partition ?? '') + field(query)
  for (const [name, value] of keyedHeaders)
    text += field(name) + (value === undefined ? '-' : field(value))
  return hash('sha256', text, 'base64url')
}

/** The length in front makes each part self-delimiting: no byte that a client sends can imitate a boundary. */
function field(value: string): string {
  return `${value.length}:${value}`
}
