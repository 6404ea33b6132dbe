import { hash, randomBytes } from 'node:crypto'
import type { Clients } from '../client/client-address.ts'
import { type Partition, refuseSecondAppName } from '../client/partition.ts'
import { lineBreak, linesOf, nominatedIn } from '../http/headers.ts'
import { Problem } from '../http/problem.ts'
import type { Exchange } from '../server/exchange.ts'
import { formatForwarded, refuseLoop, traceHeaders, wireName } from '../server/swap-headers.ts'
import type { Caller } from './provider-limit.ts'

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
export type KeyedAsk = Omit<Ask, 'application' | 'address' | 'key'>

export interface AsksParts {
  config: { quotes: { keyHeaders: readonly string[] } }
  clients: Pick<Clients, 'identify'>
  partitionOf: Partition
  /** What SWAP_… supplies where the client sends none, by names in lower case. */
  supplied: ReadonlyMap<string, string>
  /** Of the store that replicas share; undefined: there is none. */
  sharedStore: { readonly salt: string } | undefined
}

/** Makes an Ask out of an HTTP request, and the headers of a quote call out of an Ask. */
export class Asks {
  readonly #parts: AsksParts
  readonly #keys: QuoteKeys
  readonly #keyHeaders: readonly string[]
  readonly #wireNames: readonly string[]
  /** What is supplied goes out also where it is not part of the key. */
  readonly #alwaysSupplied: readonly string[]
  /** Via, Connection, and the keyed ones. */
  readonly #read: readonly string[]

  constructor(parts: AsksParts) {
    const { keyHeaders } = parts.config.quotes
    this.#parts = parts
    this.#keys = new QuoteKeys(parts.sharedStore?.salt)
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
    const keyedHeaders = this.#keyHeaders.map((name, index) => {
      const sent = nominated?.has(name) ? undefined : keyed[index]
      const value = sent ?? supplied.get(name)
      if (name === 'app-name') {
        if (value === undefined || unfitName.test(value)) refuseAppName(value)
        application = value ?? ''
      }
      return [name, value] as const
    })
    const { reading, target } = exchange
    const asked = 'quote' in reading ? reading.quote : undefined
    if (asked === undefined) throw new Problem('bad-target', { detail: 'This is not the path of a quote.' })
    if (asked.problem !== undefined) {
      throw new Problem('bad-amount', { detail: asked.problem, members: { parameter: 'amount' } })
    }
    const client = clients.identify(exchange)
    const ask: Ask = {
      pair: asked.pair,
      spelledPath: asked.spelledPath,
      canonicalAmount: asked.canonical,
      keyedHeaders,
      partition: partitionOf(client, rawHeaders),
      application,
      query: asked.otherParameters,
      target,
      address: client.address,
      key: undefined,
    }
    if (ask.partition !== undefined) ask.key = this.#keys.of(ask)
    return ask
  }

  /** All headers of a quote call; the request id and trace context are those of the exchange that caused it. */
  headersOf({ keyedHeaders, address }: Ask, exchange: Exchange): string[] {
    const headers: string[] = []
    for (const [index, [name, value]] of keyedHeaders.entries()) {
      if (value === undefined) continue
      for (const line of value.split(lineBreak)) headers.push(this.#wireNames[index] ?? name, line)
    }
    headers.push(...this.#alwaysSupplied, 'Accept', 'application/json', 'Accept-Encoding', 'identity')
    headers.push(...traceHeaders(exchange), 'X-Request-Id', exchange.id)
    headers.push('Forwarded', formatForwarded(address), 'Via', '1.1 quotegate')
    return headers
  }

  /** Whom the provider takes the sender of that call for. */
  callerOf({ keyedHeaders, application, address }: Ask): Caller {
    const keyed = keyedHeaders.find(([name]) => name === 'authorization')
    const authorization = keyed === undefined ? this.#parts.supplied.get('authorization') : keyed[1]
    return { application, authorization: authorization ?? '', address }
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

// Lists public headers, not secret ones: QUOTE_KEY_HEADERS may name a credential that no list of secrets contains.
const publicHeaders: ReadonlySet<string> = new Set([
  'app-name',
  'app-version',
  'user-agent',
  'accept-language',
])

const maxPlainLength = 512

/**
 * Two requests have the same key if and only if the same quote may answer both. The target is not part of the key,
 * because it is only another spelling of the other parts.
 */
export class QuoteKeys {
  readonly #salt: string
  readonly #isShared: boolean
  readonly #namesSeen = new Map<string, string>()

  /**
   * `salt`: random by default. Replicas that share a store need the same salt, or they miss each other's quotes. With a
   * given salt every key is a digest, because others can read the store, and its keys must not identify a client.
   */
  constructor(salt?: string) {
    this.#salt = salt ?? randomBytes(32).toString('base64url')
    this.#isShared = salt !== undefined
  }

  of({ pair, spelledPath, canonicalAmount, keyedHeaders, partition, query }: KeyedAsk): string {
    const asked = spelledPath === undefined ? field(pair) : `/${field(spelledPath)}`
    let key = asked + field(canonicalAmount) + field(partition ?? '') + field(query)
    for (const [name, value] of keyedHeaders) key += this.#name(name) + this.#value(name, value)
    // No collision with other keys, which begin with a digit or a slash. Long keys become digests, because the ledger
    // bounds their number, not their bytes.
    return !this.#isShared && key.length <= maxPlainLength ? key : this.#digest(key)
  }

  /** Without a shared store, a short number stands for each name: keys take a good part of the cache's memory. */
  #name(name: string): string {
    if (this.#isShared) return field(name)
    const known = this.#namesSeen.get(name)
    if (known !== undefined) return known
    const added = `${this.#namesSeen.size}.`
    this.#namesSeen.set(name, added)
    return added
  }

  #value(name: string, value: string | undefined): string {
    if (value === undefined) return '-'
    if (value === '' || publicHeaders.has(name)) return field(value)
    // The hash takes half a microsecond. Memoizing it would take about as long and keep the secret in memory.
    return this.#digest(value)
  }

  #digest(text: string): string {
    return `#${hash('sha256', this.#salt + text, 'base64url')}`
  }
}

/** The length in front makes each part self-delimiting: no byte that a client sends can imitate a boundary. */
function field(value: string): string {
  return `${value.length}:${value}`
}
