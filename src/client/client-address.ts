import { claimsClientAddress, shortestClientAddressHeader } from '../http/client-address-headers.ts'
import { isUndisclosedNode, nodeAddress, parseForwarded } from '../http/forwarded.ts'
import { type AddressBlock, blocksHold, normalizeAddress, parseAddressBlock } from '../http/ip-address.ts'
import { memoize } from '../http/memoize.ts'
import { flatText } from '../process/flat-text.ts'

export interface ClientAddressOptions {
  /** As the settings have checked them. */
  trustProxy: readonly string[]
  /** Lower case: `forwarded`, `x-forwarded-for`, or a header of exactly one address. */
  ipHeader: string
}

/** A client-address header that changed nothing: malformed, or from a peer that is not a trusted proxy. */
export type AddressNote = 'malformed-header' | 'untrusted-header'

/** Whose request it is. Addresses are canonical. */
export interface ClientAddress {
  /** Undefined: the peer has no address (a Unix socket, or a socket that is gone). */
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

/** The names that an entry may have instead of an address: Express's own, since people know them from there. */
const namedBlocks: ReadonlyMap<string, readonly string[]> = new Map([
  ['loopback', ['127.0.0.0/8', '::1']],
  ['linklocal', ['169.254.0.0/16', 'fe80::/10']],
  ['uniquelocal', ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7']],
])

export interface TrustedProxies {
  /** The address is canonical. */
  trusts(address: string): boolean
}

export function parseTrustProxy(entries: readonly string[]): TrustedProxies {
  const blocks = entries.flatMap(writtenBlocks).map(readBlock)
  return { trusts: (address) => blocksHold(blocks, address) }
}

function writtenBlocks(entry: string): readonly string[] {
  return namedBlocks.get(entry.toLowerCase()) ?? [entry]
}

function readBlock(text: string): AddressBlock {
  const block = parseAddressBlock(text)
  if ('problem' in block) throw new RangeError(`"${text}" cannot be trusted: ${block.problem}`)
  return block
}

/** The own network: a proxy in it that is not trusted is most likely one that was forgotten. */
const ownNetwork = parseTrustProxy([...namedBlocks.keys()])

interface Peer {
  /** The answer for a request whose headers change nothing. */
  readonly plain: ClientAddress
  readonly inOwnNetwork: boolean
}

export function createClientAddress(options: ClientAddressOptions): ReadClientAddress {
  const trusted = parseTrustProxy(options.trustProxy)
  const knownPeer = memoize((peerAddress) => describePeer(peerAddress, trusted))
  const readLines = addressReader(options.ipHeader, trusted)
  // A client whose quote is in the cache mostly sent the same header line a moment ago.
  const readLine = memoize((line) => readLines([line]))

  return (peerAddress, rawHeaders) => {
    const { plain, inOwnNetwork } = peerAddress === undefined ? unknownPeer : knownPeer(peerAddress)
    if (plain.peerTrusted) {
      const received = receivedHeader(rawHeaders, options.ipHeader)
      if (received === undefined) return plain
      const { name, lines } = received
      const said = lines.length === 1 ? readLine(lines[0] ?? '') : readLines(lines)
      if (said === malformed) return { ...plain, note: 'malformed-header', noteHeader: name }
      return said === undefined ? plain : { ...plain, address: said }
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

const malformed = Symbol('malformed')

/** What a trusted peer's header says; undefined: nothing beyond the peer itself. */
type AddressReader = (lines: readonly string[]) => string | undefined | typeof malformed

function addressReader(ipHeader: string, trusted: TrustedProxies): AddressReader {
  if (ipHeader === 'forwarded') return (lines) => furthestBelieved(forwardedNodes(lines), trusted)
  if (ipHeader === 'x-forwarded-for') return (lines) => furthestBelieved(listedNodes(lines), trusted)
  return ipHeader === 'cloudfront-viewer-address' ? oneAddressAndPort : oneAddress
}

/** A node for each hop, the nearest last; undefined where a hop names none. */
type Nodes = readonly (string | undefined)[]

/** Reads from the right: a trusted hop's entry says who connected to it, and nothing about entries further left. */
function furthestBelieved(
  nodes: Nodes | typeof malformed,
  trusted: TrustedProxies,
): string | undefined | typeof malformed {
  if (nodes === malformed) return malformed
  let believed: string | undefined
  for (let index = nodes.length - 1; index >= 0; index--) {
    const node = nodes[index]
    if (node === undefined || isUndisclosedNode(node)) break
    const address = readNode(node)
    if (address === undefined) return malformed
    believed = address
    if (!trusted.trusts(address)) break
  }
  // Rate limits keep thousands of addresses. A slice would keep its whole header line in memory.
  return believed && flatText(believed)
}

/**
 * One malformed element makes the whole line malformed, even left of the first untrusted address: an open quote could
 * have swallowed what was there. Each line is read by itself, so that a quote opened in
 * one cannot reach into the next, which another hop wrote.
 */
function forwardedNodes(lines: readonly string[]): Nodes | typeof malformed {
  const nodes: (string | undefined)[] = []
  for (const line of lines) {
    const elements = parseForwarded(line)
    if (elements === undefined) return malformed
    for (const element of elements) nodes.push(element.for)
  }
  return nodes
}

/** Commas always separate here, so what a client wrote on the left cannot spoil what the proxies added. */
function listedNodes(lines: readonly string[]): Nodes {
  const nodes: string[] = []
  for (const line of lines) {
    for (const part of line.split(',')) {
      const node = part.trim()
      if (node !== '') nodes.push(node)
    }
  }
  return nodes
}

function oneAddress(lines: readonly string[]): string | typeof malformed {
  const [line = '', ...more] = lines
  // Two lines: the edge added its own beside the client's, and which is which cannot be told.
  return more.length > 0 ? malformed : (readNode(line.trim()) ?? malformed)
}

/** CloudFront always adds the port, and writes IPv6 without brackets: the last group is never the address's. */
function oneAddressAndPort(lines: readonly string[]): string | typeof malformed {
  return oneAddress(lines.map((line) => line.replace(/:\d{1,5}$/, '')))
}

function readNode(node: string): string | undefined {
  const address = nodeAddress(node)
  return address === undefined ? undefined : normalizeAddress(address)
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
