import { hash, randomBytes } from 'node:crypto'

export interface QuoteRequest {
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
  /** The query parameters that tell quotes apart besides the amount, as sent. */
  query: string
  /** The request target as received. The upstream receives the same target. */
  target: string
}

export interface KeyedRequest {
  request: QuoteRequest
  /** Undefined: this client does not share quotes. */
  key: string | undefined
}

export interface QuoteKeyOptions {
  /**
   * Random by default. Replicas that share a store need the same salt, or they miss each other's quotes. With a
   * given salt every key is a digest, because others can read the store, and its keys must not identify a client.
   */
  salt?: string | undefined
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
export function createQuoteKey(options: QuoteKeyOptions = {}): (request: QuoteRequest) => string {
  const salt = options.salt ?? randomBytes(32).toString('base64url')
  const isShared = options.salt !== undefined
  const maxLength = isShared ? 0 : maxPlainLength
  const namesSeen = new Map<string, string>()

  return ({ pair, spelledPath, canonicalAmount, keyedHeaders, partition, query }) => {
    const asked = spelledPath === undefined ? field(pair) : `/${field(spelledPath)}`
    let key = asked + field(canonicalAmount) + field(partition ?? '') + field(query)
    for (const [name, value] of keyedHeaders) key += nameField(name) + headerField(name, value)
    // No collision with other keys, which begin with a digit or a slash. Long keys become digests, because the ledger
    // bounds their number, not their bytes.
    return key.length <= maxLength ? key : `#${hash('sha256', salt + key, 'base64url')}`
  }

  /** Without a shared store, a short number stands for each name: keys take a good part of the cache's memory. */
  function nameField(name: string): string {
    if (isShared) return field(name)
    const known = namesSeen.get(name)
    if (known !== undefined) return known
    const added = `${namesSeen.size}.`
    namesSeen.set(name, added)
    return added
  }

  function headerField(name: string, value: string | undefined): string {
    if (value === undefined) return '-'
    if (value === '' || publicHeaders.has(name)) return field(value)
    // The hash takes half a microsecond. Memoizing it would take about as long and keep the secret in memory.
    return `#${hash('sha256', salt + value, 'base64url')}`
  }
}

/** The length in front makes each part self-delimiting: no byte that a client sends can imitate a boundary. */
function field(value: string): string {
  return `${value.length}:${value}`
}
