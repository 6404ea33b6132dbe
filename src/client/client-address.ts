import type { IncomingMessage } from 'node:http'
import { claimingHeaders, clientAddressHeaders, headerValues } from '../http/headers.ts'
import {
  blocksHold,
  maskedAddress,
  namedBlocks,
  normalizeAddress,
  parseAddressBlock,
} from '../http/ip-address.ts'
import { memoize } from '../http/memoize.ts'
import { flatText } from '../process/text.ts'
import { isUndisclosedNode, nodeAddress, parseForwarded } from './forwarded.ts'

interface ClientAddressOptions {
  /** As the settings have checked them. */
  trustProxy: readonly string[]
  /** Lower case: `forwarded`, `x-forwarded-for`, or a header of exactly one address. */
  ipHeader: string
}

/**
 * Why no client-address header is used: it names no client, its peer is not a trusted proxy, or its peer is one and
 * sends it in place of CLIENT_IP_HEADER, or sends none at all.
 */
export type AddressNote =
  | NoClientReason
  | 'untrusted-header'
  | 'other-header'
  | 'no-header'

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

/** Whether a trusted proxy names the clients of the requests that it passes on. */
interface Naming {
  hasNamed: boolean
  /** Requests without a client-address header, as long as it has named no client. */
  silentRequests: number
}

interface Peer {
  /** The answer for a request whose headers change nothing. */
  readonly plain: ClientAddress
  readonly inOwnNetwork: boolean
  readonly naming: Naming
}

/** A proxy may send requests of its own, such as checks, before it passes on the first of a client. */
const silentRequestsBeforeNotice = 20
/** With TRUST_PROXY=0.0.0.0/0 every client is a trusted peer. */
const maxNamings = 10_000

interface ClientsEvents {
  /** A client-address header that could not be used, or was missing. */
  addressNoted(client: ClientAddress): void
  /** Whether a trusted proxy names clients: by its first that it names, or by its first 20 requests without. */
  proxyJudged(peer: string, namesClients: boolean): void
}

/** Whose requests they are. */
export class Clients {
  readonly #peerOf: (peerAddress: string | undefined) => Peer
  readonly #clientOf: (peer: Peer, rawHeaders: readonly string[]) => ClientAddress
  readonly #events: ClientsEvents

  constructor(options: ClientAddressOptions, events: ClientsEvents) {
    const trusts = parseTrustProxy(options.trustProxy)
    this.#peerOf = createPeers(trusts)
    this.#clientOf = createReader(options, trusts)
    this.#events = events
  }

  /** For logs and traces: nothing is counted. */
  readonly read: ReadClientAddress = (peerAddress, rawHeaders) =>
    this.#clientOf(this.#peerOf(peerAddress), rawHeaders)

  /** Reads whose request of the swap API it is. What is to be known of its proxy is counted with each call. */
  identify({
    socket,
    rawHeaders,
  }: Pick<IncomingMessage, 'socket' | 'rawHeaders'>): ClientAddress {
    const peer = this.#peerOf(socket.remoteAddress)
    const client = this.#clientOf(peer, rawHeaders)
    if (client.note !== undefined) {
      this.#events.addressNoted(client)
      if (client.note === 'no-header') this.#countSilent(peer)
    } else if (!peer.naming.hasNamed) {
      peer.naming.hasNamed = true
      this.#judged(peer, true)
    }
    return client
  }

  #countSilent(peer: Peer): void {
    const { naming } = peer
    if (naming.hasNamed) return
    naming.silentRequests += 1
    if (naming.silentRequests === silentRequestsBeforeNotice) this.#judged(peer, false)
  }

  #judged({ plain }: Peer, namesClients: boolean): void {
    if (plain.peer !== undefined) this.#events.proxyJudged(plain.peer, namesClients)
  }
}

function createReader({ ipHeader }: ClientAddressOptions, trusts: Trusts) {
  const nodesOf = nodesByHeader.get(ipHeader) ?? oneNode
  const readLines = (lines: readonly string[]) => walk(nodesOf(lines), trusts)
  // A client whose quote is in the cache mostly sent the same header line a moment ago.
  const readLine = memoize((line) => readLines([line]))

  return (
    { plain, inOwnNetwork }: Peer,
    rawHeaders: readonly string[],
  ): ClientAddress => {
    if (plain.peerTrusted) {
      const lines = headerValues(rawHeaders, ipHeader)
      if (lines.length === 0) {
        const other = otherHeader(rawHeaders)
        return other === undefined
          ? { ...plain, note: 'no-header' }
          : { ...plain, note: 'other-header', noteHeader: other }
      }
      const { address, reason } =
        lines.length === 1 ? readLine(lines[0] ?? '') : readLines(lines)
      // A frozen object that is spread is copied field by field by V8's runtime.
      if (reason === undefined)
        return { address, peer: plain.peer, peerTrusted: plain.peerTrusted }
      const isIts = (part: string, at: number) =>
        at % 2 === 0 && part.toLowerCase() === ipHeader
      return {
        ...plain,
        address,
        note: reason,
        noteHeader: rawHeaders.find(isIts) ?? ipHeader,
      }
    }
    if (!inOwnNetwork) return plain
    const [claim] = claimingHeaders(rawHeaders)
    return claim === undefined
      ? plain
      : { ...plain, note: 'untrusted-header', noteHeader: claim }
  }
}

/** A peer that is not trusted need not name clients. */
const namingOfNoProxy: Naming = Object.freeze({ hasNamed: true, silentRequests: 0 })

const unknownPeer: Peer = {
  plain: Object.freeze({ address: undefined, peer: undefined, peerTrusted: false }),
  inOwnNetwork: false,
  naming: namingOfNoProxy,
}

/** A memoized peer holds its naming: a request of a proxy that names its clients looks nothing up for it. */
function createPeers(trusts: Trusts) {
  const namings = new Map<string, Naming>()

  function namingOf(address: string): Naming {
    const known = namings.get(address)
    if (known !== undefined) return known
    const [first] = namings.size < maxNamings ? [] : namings.keys()
    if (first !== undefined) namings.delete(first)
    const naming = { hasNamed: false, silentRequests: 0 }
    namings.set(address, naming)
    return naming
  }

  const knownPeer = memoize((peerAddress): Peer => {
    const address = normalizeAddress(peerAddress)
    if (address === undefined) return unknownPeer
    const peerTrusted = trusts(address)
    return {
      plain: Object.freeze({ address, peer: address, peerTrusted }),
      inOwnNetwork: isOfOwnNetwork(address),
      naming: peerTrusted ? namingOf(address) : namingOfNoProxy,
    }
  })
  return (peerAddress: string | undefined) =>
    peerAddress === undefined ? unknownPeer : knownPeer(peerAddress)
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

/** Stands for a piece that cannot be read. No header can contain it as a node. */
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

/** With two lines, one is the edge's and one the client's, and it cannot be known which is which. */
function* oneNode([line = '', ...more]: readonly string[]): Nodes {
  yield more.length > 0 ? malformedNode : line.trim() || undefined
}

/** CloudFront always adds the port, and writes IPv6 without brackets: the last group is never the address's. */
function oneNodeWithPort(lines: readonly string[]): Nodes {
  return oneNode(lines.map((line) => line.replace(/:\d{1,5}$/, '')))
}

/** The nodes in the lines of a trusted proxy's header, from the right. A header that is not in this map has one node. */
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
