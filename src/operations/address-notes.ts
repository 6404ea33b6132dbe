import type { Events, Listener } from '../events.ts'
import type { Logger } from '../process/logger.ts'

type ClientAddress = Parameters<Events['addressNoted']>[0]
type AddressNote = NonNullable<ClientAddress['note']>

const maxPeers = 1_000
const maxHeaders = 5

interface AddressNotesOptions {
  log: Logger
  /** QUOTE_PARTITION=none: a client without an address shares as any other. */
  allShareQuotes: boolean
  /** CLIENT_IP_HEADER. */
  clientIpHeader: string
}

/** Warns once for each peer whose client-address header could not be used, and keeps these peers for the console. */
export class AddressNotes implements Listener {
  readonly #options: AddressNotesOptions
  /** Peers that sent a client-address header without being trusted proxies. */
  readonly untrustedPeers = new Set<string>()
  /** Trusted proxies that sent another client-address header than CLIENT_IP_HEADER, each with the first such header. */
  readonly otherHeaderPeers = new Map<string, string>()
  readonly #peersNamingNoClient = new Set<string>()

  constructor(options: AddressNotesOptions) {
    this.#options = options
  }

  /** What those send; a proxy may spell one name in several ways. */
  get otherHeaders(): string[] {
    return [...new Set(this.otherHeaderPeers.values())].slice(0, maxHeaders)
  }

  addressNoted({ note, noteHeader = '', peer = 'unknown' }: ClientAddress): void {
    if (note !== undefined && this.#isFirst(note, peer, noteHeader))
      this.#options.log.warn({ peer, reason: note }, this.#sentenceOf(note, peer, noteHeader))
  }

  /** Past maxPeers, no further peer is named. */
  #isFirst(note: AddressNote, peer: string, header: string): boolean {
    const others = note === 'untrusted-header' ? this.untrustedPeers : this.#peersNamingNoClient
    const named = note === 'other-header' ? this.otherHeaderPeers : others
    if (named.has(peer) || named.size >= maxPeers) return false
    if (named instanceof Map) named.set(peer, header)
    else named.add(peer)
    return true
  }

  #sentenceOf(note: AddressNote, peer: string, header: string): string {
    const { clientIpHeader, allShareQuotes } = this.#options
    const unknown = `the provider gets for=unknown, and the quote is ${
      allShareQuotes ? 'shared with all clients (QUOTE_PARTITION=none)' : 'not shared'
    }`
    switch (note) {
      case 'untrusted-header':
        return (
          `${peer} sent ${header} but is not in TRUST_PROXY: the provider sees ${peer} for all its users. If it ` +
          'is your proxy, add it to TRUST_PROXY'
        )
      case 'other-header':
        // A proxy may have the right header in other requests, and those users are seen as they are.
        return (
          `${peer} is trusted and sends ${header}, but CLIENT_IP_HEADER is ${clientIpHeader}: the provider sees ` +
          `${peer} for all its users whose requests have no ${clientIpHeader} header. If your proxy writes ` +
          `${header} itself, set CLIENT_IP_HEADER=${header.toLowerCase()}`
        )
      case 'malformed-header':
        return `${peer} sent ${header} that cannot be read: ${unknown}`
      case 'no-client-named':
        return `${peer} sent ${header} that names no client: ${unknown}`
    }
  }
}
