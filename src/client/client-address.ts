import {
  claimsClientAddress,
  namesClientAddress,
  shortestClientAddressHeader,
} from '../http/client-address-headers.ts'
import { normalizeAddress } from '../http/ip-address.ts'
import { memoize } from '../http/memoize.ts'
import {
  createNamedClientReader,
  type NoClientReason,
  ownNetwork,
  parseTrustProxy,
  type TrustedProxies,
} from './address-walk.ts'

interface ClientAddressOptions {
  /** As the settings have checked them. */
  trustProxy: readonly string[]
  /** Lower case: `forwarded`, `x-forwarded-for`, or a header of exactly one address. */
  ipHeader: string
}

/**
 * Why a client-address header says nothing: it names no client, its peer is not a trusted proxy, or its peer is one and
 * sends it in place of CLIENT_IP_HEADER.
 */
export type AddressNote = NoClientReason | 'untrusted-header' | 'other-header'

/** Whose request it is. Addresses are canonical. */
export interface ClientAddress {
  /** Undefined: a trusted proxy names no client, or the peer has no address (a Unix socket, a socket that is gone). */
  readonly address: string | undefined
  readonly peer: string | undefined
  readonly peerTrusted: boolean
  readonly note?: AddressNote
  /** The name of the header that the note is about, as received. */
  readonly noteHeader?: string
}

/** `rawHeaders` as Node has them: name, value, name, value. */
export type ReadClientAddress = (
  peerAddress: string | undefined,
  rawHeaders: readonly string[],
) => ClientAddress

interface Peer {
  /** The answer for a request whose headers change nothing. */
  readonly plain: ClientAddress
  readonly inOwnNetwork: boolean
}

export function createClientAddress(options: ClientAddressOptions): ReadClientAddress {
  const trusted = parseTrustProxy(options.trustProxy)
  const knownPeer = memoize((peerAddress) => describePeer(peerAddress, trusted))
  const readLines = createNamedClientReader(options.ipHeader, trusted)
  // A client whose quote is in the cache mostly sent the same header line a moment ago.
  const readLine = memoize((line) => readLines([line]))

  return (peerAddress, rawHeaders) => {
    const { plain, inOwnNetwork } = peerAddress === undefined ? unknownPeer : knownPeer(peerAddress)
    if (plain.peerTrusted) {
      const received = receivedHeader(rawHeaders, options.ipHeader)
      if (received === undefined) {
        const other = otherHeader(rawHeaders)
        return other === undefined ? plain : { ...plain, note: 'other-header', noteHeader: other }
      }
      const { name, lines } = received
      const { address, reason } = lines.length === 1 ? readLine(lines[0] ?? '') : readLines(lines)
      if (reason === undefined) return { ...plain, address }
      return { ...plain, address, note: reason, noteHeader: name }
    }
    if (!inOwnNetwork) return plain
    const claim = claimingHeader(rawHeaders)
    return claim === undefined ? plain : { ...plain, note: 'untrusted-header', noteHeader: claim }
  }
}

const unknownPeer: Peer = {
  plain: Object.freeze({ address: undefined, peer: undefined, peerTrusted: false }),
  inOwnNetwork: false,
}

function describePeer(peerAddress: string, trusted: TrustedProxies): Peer {
  const address = normalizeAddress(peerAddress)
  if (address === undefined) return unknownPeer
  const plain: ClientAddress = {
    address,
    peer: address,
    peerTrusted: trusted.trusts(address),
  }
  return { plain: Object.freeze(plain), inOwnNetwork: ownNetwork.trusts(address) }
}

interface ReceivedHeader {
  /** As spelled in the first line. */
  readonly name: string
  readonly lines: string[]
}

function receivedHeader(rawHeaders: readonly string[], lowerCaseName: string): ReceivedHeader | undefined {
  let received: ReceivedHeader | undefined
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]
    if (name?.length !== lowerCaseName.length || name.toLowerCase() !== lowerCaseName) continue
    received ??= { name, lines: [] }
    received.lines.push(rawHeaders[index + 1] ?? '')
  }
  return received
}

function claimingHeader(rawHeaders: readonly string[]): string | undefined {
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]
    if (name === undefined || name.length < shortestClientAddressHeader) continue
    if (claimsClientAddress(name.toLowerCase())) return name
  }
  return undefined
}

/** A header with an address. Of several, the one into which most proxies write: its name is the advice to the operator. */
function otherHeader(rawHeaders: readonly string[]): string | undefined {
  let first: string | undefined
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] ?? ''
    if (name.length < shortestClientAddressHeader || !namesClientAddress(name)) continue
    if (name.toLowerCase() === 'x-forwarded-for') return name
    first ??= name
  }
  return first
}
