import type { AddressNote, ClientAddress } from '../client/client-address.ts'
import type { Logger } from '../process/logger.ts'

export interface AddressNotes {
  /** Counts the note of a client's address, if it has one, and warns once for each peer. */
  take(client: ClientAddress): void
  /** Peers that sent a client-address header without being trusted proxies. */
  readonly untrustedPeers: ReadonlySet<string>
  /** Trusted proxies that sent another client-address header than CLIENT_IP_HEADER, each with the first such header. */
  readonly otherHeaderPeers: ReadonlyMap<string, string>
}

const maxPeers = 1_000

export interface AddressNotesOptions {
  log: Logger
  observer: { addressNoted(note: AddressNote): void }
  /** QUOTE_PARTITION=none: a client without an address shares as any other. */
  allShareQuotes: boolean
  /** CLIENT_IP_HEADER. */
  clientIpHeader: string
}

export function createAddressNotes(options: AddressNotesOptions): AddressNotes {
  const { log, observer, allShareQuotes, clientIpHeader } = options
  const unknown = `the provider gets for=unknown, and the quote is ${
    allShareQuotes ? 'shared with all clients (QUOTE_PARTITION=none)' : 'not shared'
  }`
  const untrustedPeers = new Set<string>()
  const peersNamingNoClient = new Set<string>()
  const otherHeaderPeers = new Map<string, string>()

  return {
    untrustedPeers,
    otherHeaderPeers,
    take({ note, noteHeader = '', peer = 'unknown' }) {
      if (note === undefined) return
      observer.addressNoted(note)
      if (isFirst(note, peer, noteHeader))
        log.warn({ peer, reason: note }, sentenceOf(note, peer, noteHeader))
    },
  }

  /** Past maxPeers, no further peer is named. */
  function isFirst(note: AddressNote, peer: string, header: string): boolean {
    const named = note === 'other-header' ? otherHeaderPeers : peersOf(note)
    if (named.has(peer) || named.size >= maxPeers) return false
    if (named instanceof Map) named.set(peer, header)
    else named.add(peer)
    return true
  }

  function peersOf(note: AddressNote): Set<string> {
    return note === 'untrusted-header' ? untrustedPeers : peersNamingNoClient
  }

  function sentenceOf(note: AddressNote, peer: string, header: string): string {
    switch (note) {
      case 'untrusted-header':
        return `${peer} sent ${header} but is not in TRUST_PROXY: the provider sees ${peer} for all its users. If it is your proxy, add it to TRUST_PROXY`
      case 'other-header':
        // A proxy may have the right header in other requests, and those users are seen as they are.
        return (
          `${peer} is trusted and sends ${header}, but CLIENT_IP_HEADER is ${clientIpHeader}: the provider sees ${peer} for ` +
          `all its users whose requests have no ${clientIpHeader} header. If your proxy writes ${header} itself, set ` +
          `CLIENT_IP_HEADER=${header.toLowerCase()}`
        )
      case 'malformed-header':
        return `${peer} sent ${header} that cannot be read: ${unknown}`
      case 'no-client-named':
        return `${peer} sent ${header} that names no client: ${unknown}`
    }
  }
}
