import type { IncomingMessage } from 'node:http'
import {
  claimingHeaders,
  clientAddressHeaders,
  headerValues,
  memoize,
} from '../http/headers.ts'
import {
  blocksHold,
  maskedAddress,
  namedBlocks,
  normalizeAddress,
  parseAddressBlock,
} from '../http/ip-address.ts'
import { flatText } from '../process/text.ts'
import { isUndisclosedNode, nodeAddress, parseForwarded } from './forwarded.ts'

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
type ReadClientAddress = (
  peerAddress: string | undefined,
  rawHeaders: readonly string[],
) => ClientAddress

interface Peer {
  /** The answer for a request whose headers change nothing. */
  readonly plain: ClientAddress
  readonly inOwnNetwork: boolean
}

export function createClientAddress(options: ClientAddressOptions): ReadClientAddress {
  const trusts = parseTrustProxy(options.trustProxy)
  const knownPeer = memoize((peerAddress) => describePeer(peerAddress, trusts))
  const nodesOf = nodesByHeader.get(options.ipHeader) ?? oneNode
  const readLines = (lines: readonly string[]) => walk(nodesOf(lines), trusts)
  // A client whose quote is in the cache mostly sent the same header line a moment ago.
  const readLine = memoize((line) => readLines([line]))

  return (peerAddress, rawHeaders) => {
    const { plain, inOwnNetwork } =
      peerAddress === undefined ? unknownPeer : knownPeer(peerAddress)
    if (plain.peerTrusted) {
      const lines = headerValues(rawHeaders, options.ipHeader)
      if (lines.length === 0) {
        const other = otherHeader(rawHeaders)
        return other === undefined
          ? plain
          : { ...plain, note: 'other-header', noteHeader: other }
      }
      const { address, reason } =
        lines.length === 1 ? readLine(lines[0] ?? '') : readLines(lines)
      if (reason === undefined) return { ...plain, address }
      const isIts = (part: string, at: number) =>
        at % 2 === 0 && part.toLowerCase() === options.ipHeader
      return {
        ...plain,
        address,
        note: reason,
        noteHeader: rawHeaders.find(isIts) ?? options.ipHeader,
      }
    }
    if (!inOwnNetwork) return plain
    const [claim] = claimingHeaders(rawHeaders)
    return claim === undefined
      ? plain
      : { ...plain, note: 'untrusted-header', noteHeader: claim }
  }
}

/** Whose requests they are. */
export class Clients {
  readonly read: ReadClientAddress
  readonly #noted: (client: ClientAddress) => void

  /** `noted` gets each client-address header that could not be used. */
  constructor(options: ClientAddressOptions, noted: (client: ClientAddress) => void) {
    this.read = createClientAddress(options)
    this.#noted = noted
  }

  /** Reads whose request it is, once for each request. */
  identify(exchange: {
    readonly request: IncomingMessage
    client: ClientAddress | undefined
  }): ClientAddress {
    if (exchange.client !== undefined) return exchange.client
    const { socket, rawHeaders } = exchange.request
    exchange.client = this.read(socket.remoteAddress, rawHeaders)
    if (exchange.client.note !== undefined) this.#noted(exchange.client)
    return exchange.client
  }
}

const unknownPeer: Peer = {
  plain: Object.freeze({ address: undefined, peer: undefined, peerTrusted: false }),
  inOwnNetwork: false,
}

function describePeer(peerAddress: string, trusts: Trusts): Peer {
  const address = normalizeAddress(peerAddress)
  if (address === undefined) return unknownPeer
  const plain = Object.freeze({ address, peer: address, peerTrusted: trusts(address) })
  return { plain, inOwnNetwork: isOfOwnNetwork(address) }
}

/**
 * The header that names a client's address, as spelled. Of several, the one into which most proxies write: its name is
 * the advice to the operator. What else begins with `x-forwarded-` says how the client asked, not from where.
 */
function otherHeader(rawHeaders: readonly string[]): string | undefined {
  const claiming = claimingHeaders(rawHeaders)
  return (
    claiming.find((name) => name.toLowerCase() === 'x-forwarded-for') ??
    claiming.find((name) =>
      clientAddressHeaders.has(name.toLowerCase().replaceAll('_', '-')),
    )
  )
}

/** Why a trusted proxy's header names no client. */
type NoClientReason = 'malformed-header' | 'no-client-named'

/** With a reason where it names none. */
interface NamedClient {
  readonly address: string | undefined
  readonly reason?: NoClientReason
}

/** What each proxy says of the peer that connected to it; undefined if it says nothing. */
type Nodes = Generator<string | undefined>

/** In place of the node of a piece that cannot be read: no node is written so. */
const malformedNode = '"'

/**
 * Reads from the right: a trusted hop's entry says who connected to it, and nothing about entries further left. If the
 * walk ends before any address, the client is not known; the proxy's own address would be another client's.
 */
function walk(nodesFromRight: Nodes, trusts: Trusts): NamedClient {
  let believed: string | undefined
  let reason: NoClientReason = 'no-client-named'
  for (const node of nodesFromRight) {
    const named = node === undefined ? undefined : nodeAddress(node)
    const address = named === undefined ? undefined : normalizeAddress(named)
    if (address === undefined) {
      if (node !== undefined && !isUndisclosedNode(node)) reason = 'malformed-header'
      break
    }
    believed = address
    if (!trusts(address)) break
  }
  // Rate limits keep thousands of addresses. A slice would keep its whole header line in memory.
  return believed === undefined
    ? { address: undefined, reason }
    : { address: flatText(believed) }
}

/** Each line is read by itself, so that a quote opened in one cannot reach into the next, which another hop wrote. */
function* forwardedNodes(lines: readonly string[]): Nodes {
  for (const line of lines.toReversed())
    yield* parseForwarded(line)?.reverse() ?? piecewise(line)
}

/**
 * A malformed line is cut at its commas: a client that opens a quote cannot hide the element that a proxy has added
 * behind it. A comma inside a quoted string cuts too, and leaves two malformed pieces.
 */
function* piecewise(line: string): Nodes {
  for (const piece of line.split(',').reverse())
    yield* parseForwarded(piece) ?? [malformedNode]
}

function* listedNodes(lines: readonly string[]): Nodes {
  for (const line of lines.toReversed())
    for (const part of line.split(',').reverse())
      if (part.trim() !== '') yield part.trim()
}

/** Of two lines the edge added its own beside the client's, and which is which cannot be known. */
function* oneNode([line = '', ...more]: readonly string[]): Nodes {
  yield more.length > 0 ? malformedNode : line.trim() || undefined
}

/** CloudFront always adds the port, and writes IPv6 without brackets: the last group is never the address's. */
function oneNodeWithPort(lines: readonly string[]): Nodes {
  return oneNode(lines.map((line) => line.replace(/:\d{1,5}$/, '')))
}

/** Of the lines of a trusted proxy's header, in their order, its nodes from the right. Any other header has one node. */
const nodesByHeader: ReadonlyMap<string, (lines: readonly string[]) => Nodes> = new Map([
  ['forwarded', forwardedNodes],
  ['x-forwarded-for', listedNodes],
  ['cloudfront-viewer-address', oneNodeWithPort],
])

/** Whether a proxy at this address, which is canonical, is believed. */
type Trusts = (address: string) => boolean

export function parseTrustProxy(entries: readonly string[]): Trusts {
  const written = entries.flatMap(
    (entry) => namedBlocks.get(entry.toLowerCase()) ?? [entry],
  )
  const blocks = written.map((text) => {
    const block = parseAddressBlock(text)
    if ('problem' in block)
      throw new RangeError(`TRUST_PROXY: "${text}" ${block.problem}`)
    return block
  })
  return (address) => blocksHold(blocks, address)
}

/** The own network: a proxy in it that is not trusted is most likely one that was forgotten. */
const isOfOwnNetwork = parseTrustProxy([...namedBlocks.keys()])

/** By LOG_CLIENT_ADDRESS, how a client's address is written in the log; undefined: it is not. */
export const loggedAddresses = {
  masked: maskedAddress,
  full: (address) => address ?? 'unknown',
  none: () => undefined,
} as const satisfies Record<string, (address: string | undefined) => string | undefined>
