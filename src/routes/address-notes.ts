import type { AddressNote, ClientAddress } from '../client/client-address.ts'
import type { Logger } from '../process/logger.ts'

export interface AddressNotes {
  /** Counts the note of a client's address, if it has one, and warns once for each peer. */
  take(client: ClientAddress): void
  /** Peers that sent a client-address header without being trusted proxies. */
  readonly untrustedPeers: ReadonlySet<string>
}

const maxPeers = 1_000

export interface AddressNotesOptions {
  log: Logger
  observer: { addressNoted(note: AddressNote): void }
  /** QUOTE_PARTITION=none: a client without an address shares as any other. */
  allShareQuotes: boolean
}

export function createAddressNotes({ log, observer, allShareQuotes }: AddressNotesOptions): AddressNotes {
  const unknown = `the provider gets for=unknown, and the quote is ${
    allShareQuotes ? 'shared with all clients (QUOTE_PARTITION=none)' : 'not shared'
  }`
  const untrustedPeers = new Set<string>()
  const peersNamingNoClient = new Set<string>()

  return {
    untrustedPeers,
    take({ note, noteHeader, peer = 'unknown' }) {
      if (note === undefined) return
      observer.addressNoted(note)
      const warned = note === 'untrusted-header' ? untrustedPeers : peersNamingNoClient
      if (warned.has(peer) || warned.size >= maxPeers) return
      warned.add(peer)
      log.warn({ peer, reason: note }, `${peer} sent ${noteHeader} ${consequenceOf(note, peer)}`)
    },
  }

  function consequenceOf(note: AddressNote, peer: string): string {
    switch (note) {
      case 'untrusted-header':
        return `but is not in TRUST_PROXY: the provider sees ${peer} for all its users. If it is your proxy, add it to TRUST_PROXY`
      case 'malformed-header':
        return `that cannot be read: ${unknown}`
      case 'no-client-named':
        return `that names no client: ${unknown}`
    }
  }
}
