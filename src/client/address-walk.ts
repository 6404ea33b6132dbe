import { isUndisclosedNode, nodeAddress, parseForwarded } from '../http/forwarded.ts'
import { type AddressBlock, blocksHold, normalizeAddress, parseAddressBlock } from '../http/ip-address.ts'
import { flatText } from '../process/flat-text.ts'

/** Why a trusted proxy's header names no client. */
export type NoClientReason = 'malformed-header' | 'no-client-named'

type NamedClient =
  | { readonly address: string; readonly reason?: undefined }
  | { readonly address: undefined; readonly reason: NoClientReason }

/** Reads all lines of a trusted proxy's header, in their order. */
type ReadNamedClient = (lines: readonly string[]) => NamedClient

export function createNamedClientReader(ipHeader: string, trusted: TrustedProxies): ReadNamedClient {
  if (ipHeader === 'forwarded') return (lines) => walk(forwardedHops(lines), trusted)
  if (ipHeader === 'x-forwarded-for') return (lines) => walk(listedHops(lines), trusted)
  return ipHeader === 'cloudfront-viewer-address' ? oneAddressAndPort : oneAddress
}

/** What one proxy says of the peer that connected to it. */
type Hop = { readonly node: string | undefined } | 'malformed'

/**
 * Reads from the right: a trusted hop's entry says who connected to it, and nothing about entries further left. If the
 * walk ends before any address, the client is not known; the proxy's own address would be another client's.
 */
function walk(hopsFromRight: Iterable<Hop>, trusted: TrustedProxies): NamedClient {
  let believed: string | undefined
  let reason: NoClientReason = 'no-client-named'
  for (const hop of hopsFromRight) {
    const address = hop === 'malformed' ? undefined : addressOf(hop.node)
    if (address === undefined) {
      reason = reasonOf(hop)
      break
    }
    believed = address
    if (!trusted.trusts(address)) break
  }
  // Rate limits keep thousands of addresses. A slice would keep its whole header line in memory.
  return believed === undefined ? { address: undefined, reason } : { address: flatText(believed) }
}

function addressOf(node: string | undefined): string | undefined {
  const address = node === undefined ? undefined : nodeAddress(node)
  return address === undefined ? undefined : normalizeAddress(address)
}

function reasonOf(hop: Hop): NoClientReason {
  if (hop === 'malformed') return 'malformed-header'
  return hop.node === undefined || isUndisclosedNode(hop.node) ? 'no-client-named' : 'malformed-header'
}

/** Each line is read by itself, so that a quote opened in one cannot reach into the next, which another hop wrote. */
function* forwardedHops(lines: readonly string[]): Generator<Hop> {
  for (const line of lines.toReversed()) {
    const elements = parseForwarded(line)
    if (elements === undefined) yield* piecewise(line)
    else for (const element of elements.reverse()) yield { node: element.for }
  }
}

/**
 * A malformed line is cut at its commas: a client that opens a quote cannot hide the element that a proxy has added
 * behind it. A comma inside a quoted string cuts too, and leaves two malformed pieces.
 */
function* piecewise(line: string): Generator<Hop> {
  for (const piece of line.split(',').reverse()) {
    const elements = parseForwarded(piece)
    if (elements === undefined) yield 'malformed'
    else for (const element of elements) yield { node: element.for }
  }
}

function* listedHops(lines: readonly string[]): Generator<Hop> {
  for (const line of lines.toReversed()) {
    for (const part of line.split(',').reverse()) {
      const node = part.trim()
      if (node !== '') yield { node }
    }
  }
}

function oneAddress(lines: readonly string[]): NamedClient {
  const [line = '', ...more] = lines
  // Two lines: the edge added its own beside the client's, and which is which cannot be known.
  if (more.length > 0) return { address: undefined, reason: 'malformed-header' }
  const node = line.trim()
  const address = addressOf(node)
  if (address !== undefined) return { address: flatText(address) }
  return { address: undefined, reason: reasonOf({ node: node === '' ? undefined : node }) }
}

/** CloudFront always adds the port, and writes IPv6 without brackets: the last group is never the address's. */
function oneAddressAndPort(lines: readonly string[]): NamedClient {
  return oneAddress(lines.map((line) => line.replace(/:\d{1,5}$/, '')))
}

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
export const ownNetwork = parseTrustProxy([...namedBlocks.keys()])
