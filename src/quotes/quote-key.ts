import { hash, randomBytes } from 'node:crypto'

export interface QuoteRequest {
  /** The path segment as received: what the upstream makes of its escapes or case is not ours to guess. */
  pair: string
  canonicalAmount: string
  /** In the order of QUOTE_KEY_HEADERS, names in lower case, values as the upstream will see them. */
  keyedHeaders: readonly (readonly [name: string, value: string | undefined])[]
  /** Which clients may share the quote. */
  partition: string
  /** What else of the query tells two quotes apart, as sent. */
  query: string
  /** The request target as received, which the upstream is sent. */
  target: string
}

export interface KeyedRequest {
  request: QuoteRequest
  /** Undefined: this client shares with nobody. */
  key: string | undefined
}

export interface QuoteKeyOptions {
  /**
   * Random unless given. Replicas that share a store must share it, or they miss each other's quotes; and then
   * every key is a digest, because what others can read must name no client.
   */
  salt?: string | undefined
}

// A list of what is public rather than of what is secret: QUOTE_KEY_HEADERS may name a credential that no
// list foresees.
const publicHeaders: ReadonlySet<string> = new Set([
  'app-name',
  'app-version',
  'user-agent',
  'accept-language',
])

const longestKey = 512

/**
 * Two requests get the same key exactly if they may be answered with the same quote. The target is left out:
 * it only spells what the other parts mean.
 */
export function createQuoteKey(options: QuoteKeyOptions = {}): (request: QuoteRequest) => string {
  const salt = options.salt ?? randomBytes(32).toString('base64url')
  const shared = options.salt !== undefined
  const longest = shared ? 0 : longestKey
  const namesSeen = new Map<string, string>()

  return ({ pair, canonicalAmount, keyedHeaders, partition, query }) => {
    let key = field(pair) + field(canonicalAmount) + field(partition) + field(query)
    for (const [name, value] of keyedHeaders) key += nameField(name) + headerField(name, value)
    // A digit begins every other key. Keys outlive their quotes in the ledger, which counts them, not their bytes.
    return key.length <= longest ? key : `#${hash('sha256', salt + key, 'base64url')}`
  }

  /** A number for each name, where nobody else has to understand it: keys take a good part of the memory. */
  function nameField(name: string): string {
    if (shared) return field(name)
    const known = namesSeen.get(name)
    if (known !== undefined) return known
    const fresh = `${namesSeen.size}.`
    namesSeen.set(name, fresh)
    return fresh
  }

  function headerField(name: string, value: string | undefined): string {
    if (value === undefined) return '-'
    if (value === '' || publicHeaders.has(name)) return field(value)
    // Half a microsecond: a memo would cost about as much and keep the secret itself in memory.
    return `#${hash('sha256', salt + value, 'base64url')}`
  }
}

/** The length in front makes a part self-delimiting: no byte that a client sends can imitate a boundary. */
function field(value: string): string {
  return `${value.length}:${value}`
}
