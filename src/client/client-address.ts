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

interface UserAddressOptions {
  trustProxy: readonly string[]
  /** Lower case: `forwarded`, `x-forwarded-for`, or a header of exactly one address. */
  ipHeader: string
}

/**
 * Why no client-address header is used: it names no user, its peer is not a trusted proxy, or a trusted proxy sent
 * another one than CLIENT_IP_HEADER, or none.
 */
export type AddressNote = NoUserReason | 'untrusted-header' | 'other-header' | 'no-header'

/** The address of the user behind a request, and how it is known. Addresses are canonical. */
export interface UserAddress {
  /** Undefined: a trusted proxy names no user, or the peer has no address (a Unix socket, a closed socket). */
  readonly address: string | undefined
  readonly peer: string | undefined
  readonly peerTrusted: boolean
  readonly note?: AddressNote
  /** The name of the header that the note is about, as received. */
  readonly noteHeader?: string
}

/** `rawHeaders` as Node has them: name, value, name, value. */
type ReadUserAddress = (
  peerAddress: string | undefined,
  rawHeaders: readonly string[],
) => UserAddress

/** Whether a trusted proxy names its users. */
interface ProxyRecord {
  hasNamedUser: boolean
  /** Requests without a client-address header. The count stops once the proxy has named a user. */
  silentRequests: number
}

interface Peer {
  /** The answer for a request whose headers change nothing. */
  readonly plain: UserAddress
  readonly inOwnNetwork: boolean
  /** What is known of this peer as a proxy. */
  readonly record: ProxyRecord
}

/** A proxy may send requests of its own, such as health checks, before it passes on the first one. */
const silentRequestsBeforeNotice = 20
/** With TRUST_PROXY=0.0.0.0/0 every peer is a trusted proxy. */
const maxProxyRecords = 10_000

interface UsersEvents {
  addressNoted(user: UserAddress): void
  /** A trusted proxy has named a user, or has sent 20 requests that name none. */
  proxyJudged(peer: string, namesUsers: boolean): void
}

export class Users {
  readonly #peerOf: (peerAddress: string | undefined) => Peer
  readonly #userOf: (peer: Peer, rawHeaders: readonly string[]) => UserAddress
  readonly #events: UsersEvents

  constructor(options: UserAddressOptions, events: UsersEvents) {
    const trusts = parseTrustProxy(options.trustProxy)
    this.#peerOf = createPeers(trusts)
    this.#userOf = createReader(options, trusts)
    this.#events = events
  }

  /** For logs and traces: nothing is counted. */
  readonly read: ReadUserAddress = (peerAddress, rawHeaders) =>
    this.#userOf(this.#peerOf(peerAddress), rawHeaders)

  /** For requests of the swap API. Also counts whether the proxy names its users. */
  identify({
    socket,
    rawHeaders,
  }: Pick<IncomingMessage, 'socket' | 'rawHeaders'>): UserAddress {
    const peer = this.#peerOf(socket.remoteAddress)
    const user = this.#userOf(peer, rawHeaders)
    if (user.note !== undefined) {
      this.#events.addressNoted(user)
      if (user.note === 'no-header') this.#countSilent(peer)
    } else if (!peer.record.hasNamedUser) {
      peer.record.hasNamedUser = true
      this.#judged(peer, true)
    }
    return user
  }

  #countSilent(peer: Peer): void {
    const { record } = peer
    if (record.hasNamedUser) return
    record.silentRequests += 1
    if (record.silentRequests === silentRequestsBeforeNotice) this.#judged(peer, false)
  }

  #judged({ plain }: Peer, namesUsers: boolean): void {
    if (plain.peer !== undefined) this.#events.proxyJudged(plain.peer, namesUsers)
  }
}

function createReader({ ipHeader }: UserAddressOptions, trusts: Trusts) {
  const nodesOf = nodesByHeader.get(ipHeader) ?? oneNode
  const readLines = (lines: readonly string[]) => walk(nodesOf(lines), trusts)
  // Successive requests for a user mostly have the same header line.
  const readLine = memoize((line) => readLines([line]))

  return ({ plain, inOwnNetwork }: Peer, rawHeaders: readonly string[]): UserAddress => {
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
      // Not spread: V8 copies a frozen object field by field in its slow runtime.
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

/** A peer that is not trusted need not name users. */
const recordOfNoProxy: ProxyRecord = Object.freeze({
  hasNamedUser: true,
  silentRequests: 0,
})

const unknownPeer: Peer = {
  plain: Object.freeze({ address: undefined, peer: undefined, peerTrusted: false }),
  inOwnNetwork: false,
  record: recordOfNoProxy,
}

/** Each memoized peer holds its `ProxyRecord`, so that nothing is looked up for a proxy that names its users. */
function createPeers(trusts: Trusts) {
  const records = new Map<string, ProxyRecord>()

  function recordOf(address: string): ProxyRecord {
    const known = records.get(address)
    if (known !== undefined) return known
    const [first] = records.size < maxProxyRecords ? [] : records.keys()
    if (first !== undefined) records.delete(first)
    const record = { hasNamedUser: false, silentRequests: 0 }
    records.set(address, record)
    return record
  }

  const knownPeer = memoize((peerAddress): Peer => {
    const address = normalizeAddress(peerAddress)
    if (address === undefined) return unknownPeer
    const peerTrusted = trusts(address)
    return {
      plain: Object.freeze({ address, peer: address, peerTrusted }),
      inOwnNetwork: isOfOwnNetwork(address),
      record: peerTrusted ? recordOf(address) : recordOfNoProxy,
    }
  })
  return (peerAddress: string | undefined) =>
    peerAddress === undefined ? unknownPeer : knownPeer(peerAddress)
}

/**
 * The client-address header that a trusted proxy sent, as spelled, for the warning. X-Forwarded-For comes first,
 * because most proxies write it. Other `x-forwarded-` headers say how the user asked, not from where.
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

type NoUserReason = 'malformed-header' | 'no-client-named'

/** What a client-address header says. `reason`: why it names no user. */
interface HeaderReading {
  readonly address: string | undefined
  readonly reason?: NoUserReason
}

/** For each hop, the peer that connected to it; undefined if the hop does not say. */
type Nodes = Generator<string | undefined>

/** Stands for a piece that cannot be parsed. A lone quote is never a valid node. */
const malformedNode = '"'

/**
 * Reads from the right: the entry of a trusted hop says who connected to it, and nothing about entries further left.
 * Without an address the user is unknown: the proxy's own address would stand for all its users.
 */
function walk(nodesFromRight: Nodes, trusts: Trusts): HeaderReading {
  let believed: string | undefined
  let reason: NoUserReason = 'no-client-named'
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
  // Rate limits keep thousands of addresses, and a slice would keep the whole header line in memory.
  return believed === undefined
    ? { address: undefined, reason }
    : { address: flatText(believed) }
}

/** Reads line by line: a quote that is left open must not reach into the line of another hop. */
function* forwardedNodes(lines: readonly string[]): Nodes {
  for (const line of lines.toReversed())
    yield* parseForwarded(line)?.reverse() ?? piecewise(line)
}

/**
 * Cuts a malformed line at its commas. So a user who opens a quote cannot hide the element of a proxy behind it. A
 * comma inside a quoted string cuts too, and leaves two malformed pieces.
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

/** With two lines, one is the edge's and one the user's, and we cannot tell which. */
function* oneNode([line = '', ...more]: readonly string[]): Nodes {
  yield more.length > 0 ? malformedNode : line.trim() || undefined
}

/** CloudFront always adds a port, and writes IPv6 without brackets: what follows the last colon is the port. */
function oneNodeWithPort(lines: readonly string[]): Nodes {
  return oneNode(lines.map((line) => line.replace(/:\d{1,5}$/, '')))
}

/** How to list the nodes of each header, last hop first. Any other header has one node. */
const nodesByHeader: ReadonlyMap<string, (lines: readonly string[]) => Nodes> = new Map([
  ['forwarded', forwardedNodes],
  ['x-forwarded-for', listedNodes],
  ['cloudfront-viewer-address', oneNodeWithPort],
])

/** Whether the peer at this canonical address is a trusted proxy. */
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

/** An untrusted peer in our own network is most likely a proxy that TRUST_PROXY forgot. */
const isOfOwnNetwork = parseTrustProxy([...namedBlocks.keys()])

/** How LOG_CLIENT_ADDRESS writes an address in the log. Undefined: it is left out. */
export const loggedAddresses = {
  masked: maskedAddress,
  full: (address) => address ?? 'unknown',
  none: () => undefined,
} as const satisfies Record<string, (address: string | undefined) => string | undefined>
